"""The layer operations in Triton: f32, with sums of losses in f64.

Activations and squared errors go element by element; normalisation, softmax and cross-entropy hold as many whole rows as
fit a tile, and go over rows beyond the largest tile in steps. NaN and infinity do as in the CUDA kernels.

The interpreter computes exponentials and quotients to the last bit; the machine's are a few units in the last place off
(`ex2.approx`, `div.full`), which the tolerances leave room for: an argument of -16 costs an exponential a relative 1e-6.
"""

import triton
import triton.language as tl
from variants import F32, F64, I64, Variant, both


@triton.jit
def gelu_exact(x):
    # erf cancels in the tail; what is lost there is absolute (3e-8 x), and the tolerance is absolute there too.
    return 0.5 * x * (1.0 + tl.erf(x * 0.70710678118654752))


@triton.jit
def gelu_tanh(x):
    inner = 0.79788456080286536 * (x + 0.044715 * x * x * x)
    # x (1 + tanh u) / 2 = x / (1 + e^-2u), without cancellation.
    return x / (1.0 + tl.exp(-2.0 * inner))


@triton.jit
def swish_of(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def elements(x, second, y, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    """y = f(x) or f(x, second) of n values; a program takes BLOCK of them."""
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
    """y = GELU(x + bias); program (i, j) takes ROWS rows of BLOCK columns."""
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
def squared_error_sums(x, target, sums, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of squared differences of STEPS x BLOCK values: one sum a program, in f64."""
    start = tl.program_id(0).to(tl.int64) * (STEPS * BLOCK)
    part = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(STEPS):
        at = start + step * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        difference = tl.load(x + at, mask=mask, other=0.0) - tl.load(target + at, mask=mask, other=0.0)
        part += difference * difference
    tl.store(sums + tl.program_id(0), tl.sum(part.to(tl.float64), axis=0))


@triton.jit
def reduce_sums(sums, loss, n, scale, BLOCK: tl.constexpr):
    """Adds n sums up and scales them: one program."""
    total = tl.zeros([BLOCK], dtype=tl.float64)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(sums + at, mask=at < n, other=0.0)
    tl.store(loss, (tl.sum(total, axis=0) * scale).to(tl.float32))


@triton.jit
def layer_norm(x, residual, gamma, beta, y, total, rows, d, eps, RESIDUAL: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Layer normalisation of ROWS rows of at most BLOCK values of x, or of x + residual, which then goes to `total`."""
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
    """The same for one row of any length: a pass for the mean, one for the variance, one that writes."""
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
    # A row beyond the last must not make NaN out of nothing but -inf; nobody stores it, but a checker would complain.
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
def cross_entropy(x, labels, sums, losses, rows, d, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The loss of each of ROWS rows of at most BLOCK logits, as f64 for the sum and as f32."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    column = tl.arange(0, BLOCK)
    start = row.to(tl.int64) * d
    mask = inside[:, None] & (column < d)[None, :]
    value = tl.load(x + start[:, None] + column[None, :], mask=mask, other=float("-inf"))
    most = tl.where(inside, tl.max(value, axis=1), 0.0)
    total = tl.sum(tl.where(mask, tl.exp(value - most[:, None]), 0.0), axis=1)
    label = tl.load(labels + row, mask=inside, other=0)
    given = tl.load(x + start + label, mask=inside, other=0.0)
    loss = tl.log(tl.where(inside, total, 1.0)) + (most - given)
    tl.store(sums + row, loss.to(tl.float64), mask=inside)
    tl.store(losses + row, loss, mask=inside)


@triton.jit
def cross_entropy_long(x, labels, sums, losses, rows, d, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The same for one row of any length."""
    number = tl.program_id(0)
    row = number.to(tl.int64) * d
    most, total = log_sum(x, row, d, BLOCK)
    loss = tl.log(total) + (most - tl.load(x + row + tl.load(labels + number)))
    tl.store(sums + number, loss.to(tl.float64))
    tl.store(losses + number, loss)


# Values and rows of a tile, and its warps. Rows that are no multiple of 16 values take the smallest tile or go in steps.
TILES = [(64, 16, 4), (256, 4, 4), (512, 2, 4), (1024, 1, 4), (4096, 1, 8)]
ELEMENTS = ["gelu", "gelu_approximate", "swish", "swiglu", "add", "squared_errors"]


def by_row(name, fn, long, types, sixteens, constants):
    """A variant for every tile, and those in steps."""
    all = []
    for block, rows, warps in TILES:
        rest = dict(constants=dict(constants, ROWS=rows, BLOCK=block), warps=warps)
        pair = both(f"{name}_{block}", fn, types, sixteens, **rest)
        all += pair if block == TILES[0][0] else pair[1:]
    rest = dict(constants=dict(constants, ROWS=1, BLOCK=TILES[-1][0]), warps=TILES[-1][2])
    return all + both(f"{name}_long", long, types, sixteens, **rest)


VARIANTS = [Variant("reduce_sums", reduce_sums, dict(sums=F64, loss=F32, n="i32", scale="fp64"), dict(BLOCK=1024))]
for op in ELEMENTS:
    types = dict(x=F32, second=F32, y=F32, n="i64")
    VARIANTS += both(op, elements, types, types, constants=dict(OP=op, BLOCK=1024))
for name, tanh in [("bias_gelu", False), ("bias_gelu_approximate", True)]:
    types = dict(x=F32, bias=F32, y=F32, rows="i32", d="i32")
    VARIANTS += both(name, biased, types, ["x", "bias", "y", "d"], constants=dict(TANH=tanh, ROWS=4, BLOCK=256))
types = dict(x=F32, target=F32, sums=F64, n="i64")
VARIANTS += both("squared_error_sums", squared_error_sums, types, types, constants=dict(STEPS=16, BLOCK=1024))
for name, residual in [("layer_norm", False), ("residual_layer_norm", True)]:
    types = dict(x=F32, residual=F32, gamma=F32, beta=F32, y=F32, total=F32, rows="i32", d="i32", eps="fp32")
    sixteens = ["x", "residual", "gamma", "beta", "y", "total", "d"]
    VARIANTS += by_row(name, layer_norm, layer_norm_long, types, sixteens, dict(RESIDUAL=residual))
VARIANTS += by_row("softmax", softmax, softmax_long, dict(x=F32, y=F32, rows="i32", d="i32"), ["x", "y", "d"], {})
types = dict(x=F32, labels=I64, sums=F64, losses=F32, rows="i32", d="i32")
VARIANTS += by_row("cross_entropy", cross_entropy, cross_entropy_long, types, ["x", "labels", "sums", "losses", "d"], {})
