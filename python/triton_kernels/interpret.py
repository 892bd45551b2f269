"""Runs every variant of the Triton kernels on the processor, in Triton's interpreter, and compares it with its definition in f64.

    interpret.py

The interpreter knows neither tiles nor stages: this checks the formulas, masks and addresses of the kernels that `aot.py` compiles.
Arrays have guards around them that no kernel may write. Prints the number of variants; fails at the first difference.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"

import math
import sys

import numpy as np
import triton.language as tl
from aot import KERNELS, module
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

#: Bytes before and after every array, and their value.
GUARD, GUARD_BYTE = 256, 0xA5
NUMBERS = {"i32": (tl.int32, np.int32), "i64": (tl.int64, np.int64), "fp32": (tl.float32, np.float32), "fp64": (tl.float64, np.float64)}
POINTERS = {"*fp32": (tl.float32, np.float32), "*fp64": (tl.float64, np.float64), "*i64": (tl.int64, np.int64), "*bf16": (tl.bfloat16, np.uint16)}
RNG = np.random.default_rng(5)

# The interpreter keeps bf16 as its bits and multiplies those bits; a bf16 product equals the f32 product of the same values.
multiply, cast, convert = InterpreterBuilder.create_dot, InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp
load = InterpreterBuilder.create_masked_load


def create_dot(self, a, b, d, *how):
    wide = lambda x: self.cast_impl(x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x
    return multiply(self, wide(a), wide(b), d, *how)


def narrowed(values):
    """f32 as bf16 bits, rounded to nearest, ties to even, as on devices."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) >> 16).astype(np.uint16)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrows(src, to):
    return src.dtype.scalar == tl.float32 and to.scalar == tl.bfloat16


def rounded(src):
    return TensorHandle(narrowed(src.data), tl.bfloat16)


def create_masked_load(self, ptrs, mask, *how):
    return load(self, ptrs, TensorHandle(mask.data.astype(bool), tl.int1), *how)


InterpreterBuilder.create_dot = create_dot
# A mask that involves a scalar is an array of i32, which Triton 3.9 refuses to load by.
InterpreterBuilder.create_masked_load = create_masked_load
# The interpreter truncates f32 to bf16.
InterpreterBuilder.cast_impl = lambda self, src, to: rounded(src) if narrows(src, to) else cast(self, src, to)
InterpreterBuilder.create_fp_to_fp = (
    lambda self, src, to, mode: rounded(src) if narrows(src, to) else convert(self, src, to, mode)
)


class Guarded:
    """An array with checked guards. It starts at a multiple of 256 bytes, like device memory."""

    def __init__(self, values):
        self.whole = np.full(values.nbytes + 2 * GUARD + 256, GUARD_BYTE, np.uint8)
        self.skip = GUARD + -(self.whole.ctypes.data + GUARD) % 256
        self.end = self.skip + values.nbytes
        self.values = self.whole[self.skip : self.end].view(values.dtype).reshape(values.shape)
        self.values[...] = values

    def check(self, name):
        if not (self.whole[: self.skip] == GUARD_BYTE).all() or not (self.whole[self.end :] == GUARD_BYTE).all():
            sys.exit(f"{name}: the kernel wrote outside an array")


def launch(variant, grid, **given):
    """Runs the variant; returns its arrays by name, after the launch. A missing argument is an empty array."""
    arrays, args = {}, dict(variant.constants)
    for name in (name for name in variant.fn.arg_names if name not in variant.constants):
        kind, value = variant.types[name], given.pop(name, None)
        if kind in POINTERS:
            type, dtype = POINTERS[kind]
            arrays[name] = Guarded(np.zeros(0, dtype) if value is None else np.asarray(value, dtype))
            promised = arrays[name].values.ctypes.data
            args[name] = tl.tensor(TensorHandle(np.array([promised], np.uint64), tl.pointer_type(type)), tl.pointer_type(type))
        else:
            type, dtype = NUMBERS[kind]
            promised = value
            args[name] = tl.tensor(TensorHandle(np.array([value], dtype), type), type)
        if name in variant.sixteens and promised % 16 != 0:
            sys.exit(f"{variant.name} was promised {name} as a multiple of 16 and got {promised}")
    if given:
        sys.exit(f"{variant.name} has no argument {', '.join(given)}")
    with np.errstate(all="ignore"):
        variant.fn[grid](**args)
    for array in arrays.values():
        array.check(variant.name)
    return {name: array.values for name, array in arrays.items()}


def close(variant, what, got, want, tolerance=2e-5):
    """Fails unless `got` is as close to the definition as the workload's tests require."""
    same = (got == want) | (np.abs(got - np.where(np.isfinite(want), want, 0)) <= tolerance * (1 + np.abs(want)))
    if not same.all():
        at = np.unravel_index(np.argmin(same), same.shape)
        sys.exit(f"{variant.name}: {what}{list(map(int, at))} is {got[at]}; expected {want[at]}")


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def cdiv(a, b):
    return -(-a // b)


def gelu(x, tanh):
    x = x.astype(np.float64)
    if tanh:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return np.vectorize(lambda v: 0.5 * v * math.erfc(-v / math.sqrt(2)))(x)


def swish(x):
    return x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))


def soft(x):
    x = x.astype(np.float64)
    most = x.max(-1, keepdims=True)
    power = np.exp(x - np.where(np.isfinite(most), most, 0))
    total = power.sum(-1, keepdims=True)
    return np.divide(power, total, out=np.zeros_like(power), where=total > 0)


def elements(variant):
    op, block = variant.constants["OP"], variant.constants["BLOCK"]
    n = 2 * block + (48 if variant.sixteens else 37)
    a, b = 3 * normal(n), normal(n)
    wide = a.astype(np.float64)
    want = {
        "gelu": lambda: gelu(a, False),
        "gelu_approximate": lambda: gelu(a, True),
        "swish": lambda: swish(a),
        "swiglu": lambda: swish(a) * b,
        "add": lambda: wide + b,
        "squared_errors": lambda: (wide - b) ** 2,
    }[op]()
    close(variant, "y", launch(variant, (cdiv(n, block),), x=a, second=b, y=np.zeros(n), n=n)["y"], want, 2e-6)


def biased(variant):
    rows, d = 11, 272 if variant.sixteens else 261
    x, bias = normal(rows, d), normal(d)
    grid = (cdiv(rows, variant.constants["ROWS"]), cdiv(d, variant.constants["BLOCK"]))
    got = launch(variant, grid, x=x, bias=bias, y=np.zeros((rows, d)), rows=rows, d=d)["y"]
    close(variant, "y", got, gelu(x + bias, variant.constants["TANH"]), 2e-6)


def mse(variant):
    part = variant.constants["STEPS"] * variant.constants["BLOCK"]
    n = 2 * part + (16 if variant.sixteens else 5)
    x, target = normal(n), normal(n)
    got = launch(variant, (3,), x=x, target=target, sums=np.zeros(3), come=[0], loss=[0], n=n, scale=1 / n)
    close(variant, "loss", got["loss"], np.array([((x - target).astype(np.float64) ** 2).mean()]))
    assert got["come"][0] == 0, "ready for the next launch"


def shape(variant):
    """Rows and columns that do not fill tiles, and the grid for them."""
    block, tile = variant.constants["BLOCK"], variant.constants["ROWS"]
    long = variant.name.removesuffix("_16").endswith("_long")
    rows = 2 if tile == 1 else tile + 1
    d = (block + 32 if long else block - 16) if variant.sixteens else (block + 33 if long else block - 3)
    return rows, d, (rows if long else cdiv(rows, tile),)


def layer_norm(variant):
    rows, d, grid = shape(variant)
    x, residual, gamma, beta = normal(rows, d) + 2, normal(rows, d), normal(d), normal(d)
    given = dict(x=x, residual=residual, gamma=gamma, beta=beta, y=np.zeros((rows, d)), total=np.zeros((rows, d)))
    got = launch(variant, grid, **given, rows=rows, d=d, eps=1e-5)
    added = x.astype(np.float64) + (residual if variant.constants["RESIDUAL"] else 0)
    if variant.constants["RESIDUAL"]:
        close(variant, "total", got["total"], added)
    mean, spread = added.mean(1, keepdims=True), added.var(1, keepdims=True)
    close(variant, "y", got["y"], (added - mean) / np.sqrt(spread + 1e-5) * gamma + beta)


def softmax(variant):
    rows, d, grid = shape(variant)
    x = 3 * normal(rows, d)
    close(variant, "y", launch(variant, grid, x=x, y=np.zeros((rows, d)), rows=rows, d=d)["y"], soft(x))


def cross_entropy(variant):
    rows, d, grid = shape(variant)
    x, labels = 3 * normal(rows, d), RNG.integers(0, d, rows)
    want = -np.log(soft(x)[np.arange(rows), labels])
    for each in (0, 1):
        given = dict(x=x, labels=labels, losses=np.zeros(rows), sums=np.zeros(grid[0]), come=[0], loss=[0])
        got = launch(variant, grid, **given, rows=rows, d=d, each=each, scale=1 / rows)
        if each:
            close(variant, "losses", got["losses"], want)
        else:
            close(variant, "loss", got["loss"], np.array([want.mean()]))


def matmul(variant):
    m, n, k = variant.constants["ROWS"] + 3, variant.constants["COLUMNS"] + 16, 80
    transposed = variant.constants["TRANSPOSED"]
    a, b = narrowed(normal(m, k)), narrowed(normal(n, k) if transposed else normal(k, n))
    grid = (cdiv(m, variant.constants["ROWS"]) * cdiv(n, variant.constants["COLUMNS"]),)
    got = launch(variant, grid, a=a, b=b, c=np.zeros((m, n)), m=m, n=n, k=k)["c"]
    wide = widened(b).astype(np.float64)
    close(variant, "c", widened(got), widened(a).astype(np.float64) @ (wide.T if transposed else wide), 1e-2)


def seen_by(sees, rows, keys, lengths):
    """Columns that each row of each sequence sees, as a mask [batch, 1, rows, keys]."""
    column = np.arange(keys)
    ways = [column >= 0, column <= np.arange(rows)[:, None], column < np.asarray(lengths)[:, None, None, None]]
    return np.broadcast_to(ways[sees], (len(lengths), 1, rows, keys))


def product(variant):
    mask, transposed, tile = (variant.constants[name] for name in ("MASK", "TRANSPOSED", "TILE"))
    batch, heads, group, lengths = 2, 2, 2, [tile + 7, 5]
    m, n, k = tile + 9, tile + (32 if variant.sixteens else 11), 48 if variant.sixteens else 37
    a, kv = normal(batch, heads, m, k), heads // group
    b = normal(batch, kv, n, k) if transposed else normal(batch, kv, k, n)
    bias = normal(n)
    wide = np.repeat(b, group, 1).astype(np.float64)
    for sees in (0, 1, 2) if mask != "none" else (0,):
        visible = seen_by(sees, m, k if mask == "a" else n, lengths)
        strides = dict(a_row=k, b_row=k if transposed else n, c_row=n, a_batch=heads * m * k, a_head=m * k)
        strides |= dict(b_batch=kv * k * n, b_head=k * n, c_batch=heads * m * n, c_head=m * n)
        grid = (cdiv(n, tile), cdiv(m, tile), batch * heads)
        numbers = dict(m=m, n=n, k=k, heads=heads, group=group, sees=sees, biased=1, alpha=0.5)
        got = launch(variant, grid, a=a, b=b, bias=bias, c=np.zeros((batch, heads, m, n)), lengths=lengths, **strides, **numbers)["c"]
        left = np.where(visible, a, 0) if mask == "a" else a
        want = 0.5 * left.astype(np.float64) @ (wide.swapaxes(2, 3) if transposed else wide) + bias
        close(variant, f"c of mask {sees}: ", got, np.where(visible, want, -np.inf) if mask == "c" else want)


def softmax_rows(variant):
    block, batch, heads = variant.constants["BLOCK"], 2, 2
    # All rows of short ones, and the first rows of a sequence longer than a block.
    for n, lengths, programs in [(48, [41, 0], 48 * batch * heads), (block + 16, [block + 5, 0], 8)]:
        n -= 0 if variant.sixteens else 11
        programs = min(programs, n * batch * heads)
        scores = 3 * normal(batch, heads, n, n)
        for sees in (0, 1, 2):
            visible = np.broadcast_to(seen_by(sees, n, n, lengths), scores.shape)
            given = dict(scores=scores, lengths=lengths, weights=np.zeros(scores.shape))
            got = launch(variant, (programs,), **given, n=n, heads=heads, sees=sees)["weights"]
            rows = lambda array: array.reshape(-1, n)[:programs]
            close(variant, f"weights of mask {sees}: ", rows(got), rows(soft(np.where(visible, scores, -np.inf))))


def attention(variant):
    narrow = variant.types["q"] == "*bf16"
    queries, most = variant.constants["QUERIES"], variant.constants["HEAD"]
    size = most - 16 if variant.sixteens else most - 3
    batch, heads, group, n, lengths = 2, 2, 2, queries + 21, [queries + 5, 0]
    q, k, v = normal(batch, heads, n, size), normal(batch, 1, n, size), normal(batch, 1, n, size)
    bits = [narrowed(x) if narrow else x for x in (q, k, v)]
    q, k, v = (widened(x).astype(np.float64) if narrow else x.astype(np.float64) for x in bits)
    for sees in (0, 1, 2):
        tiles = cdiv(n, queries)
        swapped = variant.fn.fn.__name__ == "narrow" and sees == 1
        grid = (heads, tiles, batch) if swapped else (tiles, heads, batch)
        strides = {f"{name}_batch": count * n * size for name, count in (("q", heads), ("k", 1), ("out", heads))}
        strides |= {f"{name}_head": n * size for name in ("q", "k", "out")} | {f"{name}_row": size for name in ("q", "k", "out")}
        rest = dict(n=n, size=size, group=group, sees=sees, scale=math.log2(math.e) / math.sqrt(size))
        out = np.zeros(q.shape)
        got = launch(variant, grid, q=bits[0], k=bits[1], v=bits[2], out=out, lengths=lengths, **rest, **strides)["out"]
        scores = np.where(seen_by(sees, n, n, lengths), q @ np.repeat(k, 2, 1).swapaxes(2, 3) / math.sqrt(size), -np.inf)
        close(variant, f"out of mask {sees}: ", widened(got) if narrow else got, soft(scores) @ np.repeat(v, 2, 1), 2e-2 if narrow else 2e-5)


TESTS = dict(elements=elements, biased=biased, mse=mse, layer_norm=layer_norm, layer_norm_long=layer_norm, softmax=softmax)
TESTS |= dict(softmax_long=softmax, cross_entropy=cross_entropy, cross_entropy_long=cross_entropy, matmul=matmul)
TESTS |= dict(product=product, softmax_rows=softmax_rows, fused=attention, narrow=attention)


def main():
    count = 0
    for file in ("layers", "product", "matmul", "attention"):
        for variant in module(KERNELS / f"{file}.py").VARIANTS:
            TESTS[variant.fn.fn.__name__](variant)
            count += 1
    print(f"{count} variants compute their definitions")


if __name__ == "__main__":
    main()
