"""The layer operations in Triton: f32, with sums of losses in f64.

Activations and squared errors are elementwise; normalisation, softmax and cross-entropy hold as many whole rows as fit in a
tile, and loop over rows longer than the largest tile. NaN and infinity behave as in the CUDA kernels.

The last program to finish adds up the losses, in the order of rows.

The interpreter computes exponentials and quotients exactly to the last bit; the hardware (`ex2.approx`, `div.full`) is off by
a few units in the last place, which the tolerances allow: at an argument of -16 an exponential has a relative error of 1e-6.
"""

import triton
import triton.language as tl
from .variants import F32, F64, I64, Variant, both


@triton.jit
def gelu_exact(x):
    # x Phi(x) with Phi(-|x|) = 2^z(|x|), z a polynomial (`gelu_exponent.rs`): the tail keeps its precision.
    a = tl.abs(x)
    z = a * -8.080689327e-07 + 4.486267426e-05
    z = z * a - 8.323653019e-04
    z = z * a + 8.240508847e-03
    z = z * a - 5.360808223e-02
    z = z * a - 4.586718976e-01
    z = z * a - 1.151204824e00
    p = tl.exp2(z * a - 1.0)
    return x * tl.where(x > 0.0, 1.0 - p, p)


@triton.jit
def gelu_tanh(x):
    # x (1 + tanh u) / 2 = x / (1 + e^-2u), without cancellation; u = sqrt(2 / pi) (x + 0.044715 x^3), times -2 log2 e.
    return x / (1.0 + tl.exp2(x * (x * x * -0.10294323958 - 2.30220819814)))


@triton.jit
def swish_of(x):
    return x / (1.0 + tl.exp2(x * -1.44269504089))


@triton.jit
def elements(x, second, y, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    """y = f(x) or f(x, second) of n values, BLOCK per program."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(x + at, mask=mask, other=0.0)
    if OP == "gelu":
        value = gelu_exact(a)
    elif OP == "gelu_approximate":
        value = gelu_tanh(a)
    elif OP == "swish":
        value = swish_of(a)
    else:
        b = tl.load(second + at, mask=mask, other=0.0)
        if OP == "swiglu":
            value = swish_of(a) * b
        elif OP == "add":
            value = a + b
        else:
            value = (a - b) * (a - b)
    tl.store(y + at, value, mask=mask)


@triton.jit
def biased(x, bias, y, rows, d, TANH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """y = GELU(x + bias); program (i, j) computes ROWS rows of BLOCK columns."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = row.to(tl.int64)[:, None] * d + column[None, :]
    mask = (row < rows)[:, None] & (column < d)[None, :]
    value = tl.load(x + at, mask=mask, other=0.0) + tl.load(bias + column, mask=column < d, other=0.0)[None, :]
    if TANH:
        value = gelu_tanh(value)
    else:
        value = gelu_exact(value)
    tl.store(y + at, value, mask=mask)


@triton.jit
def finish(part, sums, come, loss, scale, BLOCK: tl.constexpr):
    """Stores the sum of a program next to those of the others. The last program to arrive adds all of them in the order of their
    numbers, and resets `come` to 0 for the next launch."""
    tl.store(sums + tl.program_id(0), part)
    # One thread has stored the sum, and another may increment the counter.
    tl.debug_barrier()
    programs = tl.num_programs(0)
    if tl.atomic_add(come, 1, sem="acq_rel") == programs - 1:
        total = tl.zeros([BLOCK], dtype=tl.float64)
        for start in range(0, programs, BLOCK):
            at = start + tl.arange(0, BLOCK)
            total += tl.load(sums + at, mask=at < programs, other=0.0, cache_modifier=".cg")
        tl.store(loss, (tl.sum(total, axis=0) * scale).to(tl.float32))
        tl.store(come, 0)


@triton.jit
def mse(x, target, sums, come, loss, n, scale, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of squared differences, times `scale`: STEPS x BLOCK values per program, whose sums are added in f64."""
    start = tl.program_id(0).to(tl.int64) * (STEPS * BLOCK)
    part = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(STEPS):
        at = start + step * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        difference = tl.load(x + at, mask=mask, other=0.0) - tl.load(target + at, mask=mask, other=0.0)
        part += difference * difference
    finish(tl.sum(part.to(tl.float64), axis=0), sums, come, loss, scale, 2048)


@triton.jit
def layer_norm(x, residual, gamma, beta, y, total, rows, d, eps, RESIDUAL: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Layer normalisation of ROWS rows of at most BLOCK values of x, or of x + residual, which is then stored in `total`."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    at = row.to(tl.int64)[:, None] * d + column[None, :]
    mask = (row < rows)[:, None] & (column < d)[None, :]
    value = tl.load(x + at, mask=mask, other=0.0)
    if RESIDUAL:
        value += tl.load(residual + at, mask=mask, other=0.0)
        tl.store(total + at, value, mask=mask)
    mean = tl.sum(value, axis=1) / d
    difference = tl.where(mask, value - mean[:, None], 0.0)
    variance = tl.sum(difference * difference, axis=1) / d
    inverse = 1.0 / tl.sqrt_rn(variance + eps)
    scale = tl.load(gamma + column, mask=column < d, other=0.0)
    shift = tl.load(beta + column, mask=column < d, other=0.0)
    tl.store(y + at, difference * inverse[:, None] * scale[None, :] + shift[None, :], mask=mask)


@triton.jit
def layer_norm_long(x, residual, gamma, beta, y, total, rows, d, eps, RESIDUAL: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The same for one row of any length: one pass for the mean, one for the variance, one that writes."""
    row = tl.program_id(0).to(tl.int64) * d
    part = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, d, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + column, mask=column < d, other=0.0)
        if RESIDUAL:
            value += tl.load(residual + row + column, mask=column < d, other=0.0)
        part += value
    mean = tl.sum(part, axis=0) / d
    part = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, d, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + column, mask=column < d, other=0.0)
        if RESIDUAL:
            value += tl.load(residual + row + column, mask=column < d, other=0.0)
        difference = tl.where(column < d, value - mean, 0.0)
        part += difference * difference
    inverse = 1.0 / tl.sqrt_rn(tl.sum(part, axis=0) / d + eps)
    for start in range(0, d, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < d
        value = tl.load(x + row + column, mask=mask, other=0.0)
        if RESIDUAL:
            value += tl.load(residual + row + column, mask=mask, other=0.0)
            tl.store(total + row + column, value, mask=mask)
        scale = tl.load(gamma + column, mask=mask, other=0.0)
        shift = tl.load(beta + column, mask=mask, other=0.0)
        tl.store(y + row + column, (value - mean) * inverse * scale + shift, mask=mask)


@triton.jit
def softmax(x, y, rows, d, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of ROWS rows of at most BLOCK values."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    at = row.to(tl.int64)[:, None] * d + column[None, :]
    mask = (row < rows)[:, None] & (column < d)[None, :]
    value = tl.load(x + at, mask=mask, other=float("-inf"))
    # A row past the end must not become NaN from only -inf: it is not stored, but a checker would complain.
    most = tl.where(row < rows, tl.max(value, axis=1), 0.0)
    power = tl.where(mask, tl.exp(value - most[:, None]), 0.0)
    inverse = 1.0 / tl.where(row < rows, tl.sum(power, axis=1), 1.0)
    tl.store(y + at, power * inverse[:, None], mask=mask)


@triton.jit
def log_sum(x, row, d, BLOCK: tl.constexpr):
    """The largest value of a row of any length and the sum of e^(x - largest)."""
    best = tl.full([BLOCK], float("-inf"), dtype=tl.float32)
    for start in range(0, d, BLOCK):
        column = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(x + row + column, mask=column < d, other=float("-inf")))
    most = tl.max(best, axis=0)
    part = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, d, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + column, mask=column < d, other=0.0)
        part += tl.where(column < d, tl.exp(value - most), 0.0)
    return most, tl.sum(part, axis=0)


@triton.jit
def softmax_long(x, y, rows, d, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The same for one row of any length."""
    row = tl.program_id(0).to(tl.int64) * d
    most, total = log_sum(x, row, d, BLOCK)
    inverse = 1.0 / total
    for start in range(0, d, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + column, mask=column < d, other=0.0)
        tl.store(y + row + column, tl.exp(value - most) * inverse, mask=column < d)


@triton.jit
def cross_entropy(x, labels, losses, sums, come, loss, rows, d, each, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The losses of ROWS rows of at most BLOCK logits: if `each`, stores them in `losses`, otherwise the sum of all, times
    `scale`, in `loss`."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    column = tl.arange(0, BLOCK)
    start = row.to(tl.int64) * d
    mask = inside[:, None] & (column < d)[None, :]
    logits = tl.load(x + start[:, None] + column[None, :], mask=mask, other=float("-inf"))
    label = tl.load(labels + row, mask=inside, other=0)
    given = tl.load(x + start + label, mask=inside, other=0.0)
    most = tl.where(inside, tl.max(logits, axis=1), 0.0)
    total = tl.sum(tl.where(mask, tl.exp(logits - most[:, None]), 0.0), axis=1)
    value = tl.log(tl.where(inside, total, 1.0)) + (most - given)
    if each:
        tl.store(losses + row, value, mask=inside)
    else:
        finish(tl.sum(tl.where(inside, value, 0.0).to(tl.float64), axis=0), sums, come, loss, scale, 2048)


@triton.jit
def cross_entropy_long(x, labels, losses, sums, come, loss, rows, d, each, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The same for one row of any length."""
    number = tl.program_id(0)
    row = number.to(tl.int64) * d
    most, total = log_sum(x, row, d, BLOCK)
    value = tl.log(total) + (most - tl.load(x + row + tl.load(labels + number)))
    if each:
        tl.store(losses + number, value)
    else:
        finish(value.to(tl.float64), sums, come, loss, scale, 2048)


# Values and rows per tile, and warps: 16 values per thread, 32 for the longest rows. Rows whose length is not a multiple of 16
# use only some of the tiles, and loop beyond them.
TILES = [(64, 32, 4), (256, 8, 4), (512, 4, 4), (1024, 2, 4), (2048, 1, 4), (4096, 1, 8), (8192, 1, 8), (16384, 1, 16)]
ODD = [64, 256, 1024, 4096]
STEP = (4096, 8)
ELEMENTS = ["gelu", "gelu_approximate", "swish", "swiglu", "add", "squared_errors"]


def by_row(name, fn, long, types, sixteens, constants):
    """A variant for every tile, plus the looping ones."""
    all = []
    for block, rows, warps in TILES:
        rest = dict(constants=dict(constants, ROWS=rows, BLOCK=block), warps=warps)
        pair = both(f"{name}_{block}", fn, types, sixteens, **rest)
        all += pair if block in ODD else pair[1:]
    block, warps = STEP
    rest = dict(constants=dict(constants, ROWS=1, BLOCK=block), warps=warps)
    return all + both(f"{name}_long", long, types, sixteens, **rest)


VARIANTS = []
for op in ELEMENTS:
    types = dict(x=F32, second=F32, y=F32, n="i64")
    VARIANTS += both(op, elements, types, types, constants=dict(OP=op, BLOCK=2048))
for name, tanh in [("bias_gelu", False), ("bias_gelu_approximate", True)]:
    types = dict(x=F32, bias=F32, y=F32, rows="i32", d="i32")
    VARIANTS += both(name, biased, types, ["x", "bias", "y", "d"], constants=dict(TANH=tanh, ROWS=8, BLOCK=256))
types = dict(x=F32, target=F32, sums=F64, come=I64, loss=F32, n="i64", scale="fp64")
VARIANTS += both("mse", mse, types, ["x", "target", "n"], constants=dict(STEPS=4, BLOCK=2048))
for name, residual in [("layer_norm", False), ("residual_layer_norm", True)]:
    types = dict(x=F32, residual=F32, gamma=F32, beta=F32, y=F32, total=F32, rows="i32", d="i32", eps="fp32")
    sixteens = ["x", "residual", "gamma", "beta", "y", "total", "d"]
    VARIANTS += by_row(name, layer_norm, layer_norm_long, types, sixteens, dict(RESIDUAL=residual))
VARIANTS += by_row("softmax", softmax, softmax_long, dict(x=F32, y=F32, rows="i32", d="i32"), ["x", "y", "d"], {})
types = dict(x=F32, labels=I64, losses=F32, sums=F64, come=I64, loss=F32, rows="i32", d="i32", each="i32", scale="fp64")
VARIANTS += by_row("cross_entropy", cross_entropy, cross_entropy_long, types, ["x", "d"], {})
