"""Attention in Triton: softmax of masked rows, and the whole core in one kernel that never writes a score to memory
(T. Dao et al., FlashAttention, 2022): f32 without TF32, and bf16 with sums in f32.

A row that sees no key, or only scores of -inf, gives 0; NaN or +inf among its scores makes it NaN.
"""

import triton
import triton.language as tl
from .variants import F32, I64, Variant, both


@triton.jit
def seen_of(scores, row, start, seen, n, BLOCK: tl.constexpr):
    """BLOCK scores of a row, starting at `start`; -inf in masked columns. A fully masked block is not read. The last visible
    scores are read together with masked ones, 16 bytes at a time."""
    column = start + tl.arange(0, BLOCK)
    value = tl.load(scores + row + column, mask=(column < n) & (start < seen), other=float("-inf"))
    return tl.where(column < seen, value, float("-inf"))


@triton.jit
def softmax_rows(scores, lengths, weights, n, heads, sees, BLOCK: tl.constexpr):
    """Softmax over the columns that a row sees, 0 in the others; one program per row of [batch, heads, n]."""
    number = tl.program_id(0)
    length = tl.load(lengths + number // n // heads, mask=sees == 2, other=0).to(tl.int32)
    seen = tl.minimum(tl.where(sees == 1, number % n + 1, tl.where(sees == 2, length, n)), n)
    row = number.to(tl.int64) * n
    best = tl.full([BLOCK], float("-inf"), dtype=tl.float32)
    for start in range(0, seen, BLOCK):
        best = tl.maximum(best, seen_of(scores, row, start, seen, n, BLOCK))
    most = tl.max(best, axis=0)
    most = tl.where(most == float("-inf"), 0.0, most)
    part = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, seen, BLOCK):
        part += tl.exp(seen_of(scores, row, start, seen, n, BLOCK) - most)
    total = tl.sum(part, axis=0)
    inverse = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.exp(seen_of(scores, row, start, seen, n, BLOCK) - most)
        tl.store(weights + row + column, value * inverse, mask=column < n)


@triton.jit
def fused(
    q, k, v, out, lengths, n, size, group, sees, scale, q_batch, q_head, q_row, k_batch, k_head, k_row, out_batch, out_head,
    out_row, HEAD: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):
    """QUERIES queries of a head against the keys they see, KEYS at a time; heads of `size` values, at most HEAD.

    `scale` includes log2 e: weights are powers of two. `sees`: 0 all keys, 1 those up to the query's position, 2 those
    within the sequence's length in `lengths`.
    """
    # Under a causal mask the last queries see the most keys, so they start first.
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * QUERIES
    head, sequence = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    q += sequence * q_batch + head * q_head
    k += sequence * k_batch + head // group * k_head
    v += sequence * k_batch + head // group * k_head
    out += sequence * out_batch + head * out_head
    row = first + tl.arange(0, QUERIES)
    e = tl.arange(0, HEAD)
    kept = (row < n)[:, None] & (e < size)[None, :]
    queries = tl.load(q + row.to(tl.int64)[:, None] * q_row + e[None, :], mask=kept, other=0.0)
    length = tl.load(lengths + sequence, mask=sees == 2, other=0).to(tl.int32)
    seen = tl.minimum(tl.where(sees == 1, row + 1, tl.where(sees == 2, length, n)), n)
    end = tl.max(tl.where(row < n, seen, 0), axis=0)
    top = tl.full([QUERIES], float("-inf"), dtype=tl.float32)
    total = tl.zeros([QUERIES], dtype=tl.float32)
    sums = tl.zeros([QUERIES, HEAD], dtype=tl.float32)
    for start in range(0, end, KEYS):
        column = start + tl.arange(0, KEYS)
        # Keys beyond the last visible one are not read: they may be uninitialised.
        there = column < end
        place = column.to(tl.int64) * k_row
        keys = tl.load(k + place[None, :] + e[:, None], mask=(e < size)[:, None] & there[None, :], other=0.0)
        scores = tl.dot(queries, keys, input_precision="ieee") * scale
        scores = tl.where(column[None, :] < seen[:, None], scores, float("-inf"))
        most = tl.maximum(top, tl.max(scores, axis=1))
        shift = tl.where(most == float("-inf"), 0.0, most)
        factor = tl.exp2(top - shift)
        weights = tl.exp2(scores - shift[:, None])
        total = total * factor + tl.sum(weights, axis=1)
        values = tl.load(v + place[:, None] + e[None, :], mask=there[:, None] & (e < size)[None, :], other=0.0)
        sums = sums * factor[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = most
    inverse = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    result = (sums * inverse[:, None]).to(out.dtype.element_ty)
    tl.store(out + row.to(tl.int64)[:, None] * out_row + e[None, :], result, mask=kept)


@triton.jit
def tile(
    queries, k, v, k_row, start, end, seen, size, scale, top, total, sums, HEAD: tl.constexpr, KEYS: tl.constexpr,
    HIDDEN: tl.constexpr,
):
    """Updates the maximum, the total weight and the sums of each row with KEYS keys from `start` on. Without HIDDEN every row sees
    all of them."""
    e = tl.arange(0, HEAD)
    column = start + tl.arange(0, KEYS)
    kept = e < size
    place = column.to(tl.int64) * k_row
    # Keys beyond the last visible one are not read: they may be uninitialised.
    there = column < end
    at = k + place[None, :] + e[:, None]
    keys = tl.load(at, mask=kept[:, None] & there[None, :] if HIDDEN else kept[:, None], other=0.0)
    scores = tl.dot(queries, keys, input_precision="ieee")
    if HIDDEN:
        scores = tl.where(column[None, :] < seen[:, None], scores, float("-inf"))
    most = tl.maximum(top, tl.max(scores, axis=1) * scale)
    shift = tl.where(most == float("-inf"), 0.0, most)
    factor = tl.exp2(top - shift)
    weights = tl.exp2(scores * scale - shift[:, None])
    total = total * factor + tl.sum(weights, axis=1)
    at = v + place[:, None] + e[None, :]
    values = tl.load(at, mask=kept[None, :] & there[:, None] if HIDDEN else kept[None, :], other=0.0)
    sums = sums * factor[:, None]
    sums = tl.dot(weights.to(values.dtype), values, sums, input_precision="ieee")
    return most, total, sums


@triton.jit
def narrow(
    q, k, v, out, lengths, n, size, group, sees, scale, q_batch, q_head, q_row, k_batch, k_head, k_row, out_batch, out_head,
    out_row, HEAD: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):
    """As `fused`, for tensor cores: tiles that are visible to every row come first, in a loop without masks."""
    # Under a causal mask the last queries of all heads see the most keys, so they start first. Otherwise the queries of
    # a head stay together.
    causal = sees == 1
    head = tl.where(causal, tl.program_id(0), tl.program_id(1)).to(tl.int64)
    sequence = tl.program_id(2).to(tl.int64)
    first = tl.where(causal, tl.num_programs(1) - 1 - tl.program_id(1), tl.program_id(0)) * QUERIES
    q += sequence * q_batch + head * q_head
    k += sequence * k_batch + head // group * k_head
    v += sequence * k_batch + head // group * k_head
    out += sequence * out_batch + head * out_head
    row = first + tl.arange(0, QUERIES)
    e = tl.arange(0, HEAD)
    kept = (row < n)[:, None] & (e < size)[None, :]
    queries = tl.load(q + row.to(tl.int64)[:, None] * q_row + e[None, :], mask=kept, other=0.0)
    length = tl.load(lengths + sequence, mask=sees == 2, other=0).to(tl.int32)
    seen = tl.minimum(tl.where(sees == 1, row + 1, tl.where(sees == 2, length, n)), n)
    end = tl.max(tl.where(row < n, seen, 0), axis=0)
    top = tl.full([QUERIES], float("-inf"), dtype=tl.float32)
    total = tl.zeros([QUERIES], dtype=tl.float32)
    sums = tl.zeros([QUERIES, HEAD], dtype=tl.float32)
    clear = tl.min(seen, axis=0) // KEYS * KEYS
    for start in range(0, clear, KEYS):
        top, total, sums = tile(queries, k, v, k_row, start, end, seen, size, scale, top, total, sums, HEAD, KEYS, False)
    for start in range(clear, end, KEYS):
        top, total, sums = tile(queries, k, v, k_row, start, end, seen, size, scale, top, total, sums, HEAD, KEYS, True)
    inverse = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    result = (sums * inverse[:, None]).to(out.dtype.element_ty)
    tl.store(out + row.to(tl.int64)[:, None] * out_row + e[None, :], result, mask=kept)


STEPS = ["q_batch", "q_head", "q_row", "k_batch", "k_head", "k_row", "out_batch", "out_head", "out_row"]
TYPES = dict(q=F32, k=F32, v=F32, out=F32, lengths=I64, n="i32", size="i32", group="i32", sees="i32", scale="fp32")
TYPES |= {name: "i64" for name in STEPS}

types = dict(scores=F32, lengths=I64, weights=F32, n="i32", heads="i32", sees="i32")
VARIANTS = both("softmax_rows", softmax_rows, types, ["scores", "weights", "n"], constants=dict(BLOCK=1024))
# Values per head, queries and keys per step, warps.
for head, queries, keys, warps in [(32, 64, 32, 8), (64, 64, 32, 8), (128, 64, 16, 8)]:
    constants = dict(HEAD=head, QUERIES=queries, KEYS=keys)
    sixteens = ["q", "k", "v", "out", "size", *STEPS]
    VARIANTS += both(f"attention_{head}", fused, TYPES, sixteens, constants=constants, warps=warps, stages=2)
# In bf16 the products use tensor cores, and weights are rounded to bf16 before the second one. Heads are multiples of
# 16: loads of single values spill on every architecture.
NARROW = TYPES | dict(q="*bf16", k="*bf16", v="*bf16", out="*bf16")
# With two loops, heads of 64 spill on sm_100.
for head, fn, queries, keys, stages in [(64, fused, 128, 64, 2), (128, narrow, 128, 64, 3)]:
    constants = dict(HEAD=head, QUERIES=queries, KEYS=keys)
    sixteens = ["q", "k", "v", "out", "size", *STEPS]
    VARIANTS += both(f"attention_bf16_{head}", fn, NARROW, sixteens, constants=constants, warps=8, stages=stages)[1:]
