"""Matrix products in Triton, f32 without TF32, many per launch: C = alpha A B + bias, B as [k, n] or transposed [n, k].

A program computes a tile of C. Attention masks are prefixes of the columns, as in `product.cu`: beyond the visible columns of
a row, either C is -inf (scores; a fully masked tile skips all steps), or A counts as 0 (sums; steps beyond are skipped).
"""

import triton
import triton.language as tl
from .variants import F32, I64, Variant


@triton.jit
def product(
    a, b, bias, c, lengths, m, n, k, a_row, b_row, c_row, a_batch, a_head, b_batch, b_head, c_batch, c_head, heads, group,
    sees, biased, alpha, TRANSPOSED: tl.constexpr, MASK: tl.constexpr, TILE: tl.constexpr, STEP: tl.constexpr,
):
    """`sees`: 0 all columns, 1 those up to the row's index, 2 those within the sequence's length in `lengths`."""
    sequence = (tl.program_id(2) // heads).to(tl.int64)
    head = (tl.program_id(2) % heads).to(tl.int64)
    a += sequence * a_batch + head * a_head
    b += sequence * b_batch + head // group * b_head
    c += sequence * c_batch + head * c_head
    row = tl.program_id(1) * TILE + tl.arange(0, TILE)
    column = tl.program_id(0) * TILE + tl.arange(0, TILE)
    step = tl.arange(0, STEP)
    a_at = row.to(tl.int64)[:, None] * a_row
    end = k
    if MASK != "none":
        everything = k if MASK == "a" else n
        length = tl.load(lengths + sequence, mask=sees == 2, other=0).to(tl.int32)
        seen = tl.where(sees == 1, row + 1, tl.where(sees == 2, length, everything))
        seen = tl.minimum(seen, everything)
        furthest = tl.max(tl.where(row < m, seen, 0), axis=0)
        if MASK == "a":
            end = furthest
        else:
            end = tl.where(tl.program_id(0) * TILE < furthest, k, 0)
    sums = tl.zeros([TILE, TILE], dtype=tl.float32)
    for start in range(0, end, STEP):
        at = start + step
        kept = (row < m)[:, None] & (at < k)[None, :]
        if MASK == "a":
            kept = kept & (at[None, :] < seen[:, None])
        x = tl.load(a + a_at + at[None, :], mask=kept, other=0.0)
        inside = (at < k)[:, None] & (column < n)[None, :]
        if MASK == "a":
            # Rows of B that no row of the tile sees are not read: they may be uninitialised.
            inside = inside & (at < end)[:, None]
        if TRANSPOSED:
            w = tl.load(b + column.to(tl.int64)[None, :] * b_row + at[:, None], mask=inside, other=0.0)
        else:
            w = tl.load(b + at.to(tl.int64)[:, None] * b_row + column[None, :], mask=inside, other=0.0)
        sums = tl.dot(x, w, sums, input_precision="ieee")
    result = sums * alpha + tl.load(bias + column, mask=(column < n) & (biased != 0), other=0.0)[None, :]
    if MASK == "c":
        result = tl.where(column[None, :] < seen[:, None], result, float("-inf"))
    tl.store(c + row.to(tl.int64)[:, None] * c_row + column[None, :], result, mask=(row < m)[:, None] & (column < n)[None, :])


TYPES = dict(a=F32, b=F32, bias=F32, c=F32, lengths=I64, m="i32", n="i32", k="i32", a_row="i32", b_row="i32", c_row="i32")
TYPES |= {name: "i64" for name in ["a_batch", "a_head", "b_batch", "b_head", "c_batch", "c_head"]}
TYPES |= dict(heads="i32", group="i32", sees="i32", biased="i32", alpha="fp32")
SIXTEENS = ("a", "b", "bias", "c", "n", "k", "a_row", "b_row", "c_row", "a_batch", "a_head", "b_batch", "b_head", "c_batch", "c_head")

VARIANTS = []
for name, transposed, mask in [("product_transposed", True, "none"), ("product", False, "none"), ("scores", True, "c"), ("sums", False, "a")]:
    small = dict(constants=dict(TRANSPOSED=transposed, MASK=mask, TILE=64, STEP=16), warps=4)
    wide = dict(constants=dict(TRANSPOSED=transposed, MASK=mask, TILE=128, STEP=16), warps=8)
    VARIANTS += [
        Variant(f"{name}_64", product, TYPES, **small),
        Variant(f"{name}_64_16", product, TYPES, sixteens=SIXTEENS, **small),
        Variant(f"{name}_128_16", product, TYPES, sixteens=SIXTEENS, **wide),
    ]
