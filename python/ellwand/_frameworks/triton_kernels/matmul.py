"""Matrix products in bf16 in Triton, with f32 sums: C = A B, B as [k, n] or transposed [n, k].

A program computes a tile of C. Rows are multiples of 16 values.
"""

import triton
import triton.language as tl
from .variants import Variant


@triton.jit
def matmul(
    a, b, c, m, n, k, TRANSPOSED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):
    # Programs that run at the same time cover roughly a square of C, so that they share rows of A and columns of B.
    together: tl.constexpr = 2048 // ROWS
    down = tl.cdiv(m, ROWS)
    across = tl.cdiv(n, COLUMNS)
    first = tl.program_id(0) // (together * across) * together
    within = tl.program_id(0) - first * across
    rows = tl.minimum(down - first, together)
    row = (first + within % rows) * ROWS + tl.arange(0, ROWS)
    column = within // rows * COLUMNS + tl.arange(0, COLUMNS)
    step = tl.arange(0, STEP)
    # Rows and columns beyond the end repeat the first.
    a_at = a + tl.where(row < m, row, 0).to(tl.int64)[:, None] * k + step[None, :]
    there = tl.where(column < n, column, 0)
    # Contiguous in memory: in groups of 16, all are valid or none is.
    there = tl.max_contiguous(tl.multiple_of(there, 16), 16)
    if TRANSPOSED:
        b_at = b + there.to(tl.int64)[None, :] * k + step[:, None]
    else:
        b_at = b + step.to(tl.int64)[:, None] * n + there[None, :]
    sums = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(0, k, STEP):
        x = tl.load(a_at, mask=step[None, :] < k - start, other=0.0)
        w = tl.load(b_at, mask=step[:, None] < k - start, other=0.0)
        sums = tl.dot(x, w, sums)
        a_at += STEP
        b_at += STEP if TRANSPOSED else STEP * n.to(tl.int64)
    to = c + row.to(tl.int64)[:, None] * n + column[None, :]
    tl.store(to, sums.to(c.dtype.element_ty), mask=(row < m)[:, None] & (column < n)[None, :])


TYPES = dict(a="*bf16", b="*bf16", c="*bf16", m="i32", n="i32", k="i32")
VARIANTS = []
for name, transposed in [("matmul_transposed", True), ("matmul", False)]:
    # Tiles of 48 KB: two fit in shared memory on Ampere, three on Hopper.
    for tile, rows, columns, warps, stages in [("wide", 128, 256, 8, 3), ("small", 64, 64, 4, 4)]:
        constants = dict(TRANSPOSED=transposed, ROWS=rows, COLUMNS=columns, STEP=64)
        how = dict(sixteens=("a", "b", "c", "n", "k"), warps=warps, stages=stages)
        VARIANTS.append(Variant(f"{name}_{tile}_16", matmul, TYPES, constants, **how))
