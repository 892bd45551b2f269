"""Matrix products, attention and the surrounding layer as launches of the Triton kernels: f32 without TF32; products and the
core in bf16 too. A matrix of heads is a view [batch, heads, rows, columns] whose columns are contiguous."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._case import Case
from .._errors import Unsupported
from . import _triton_layers as layers
from ._triton_job import ALL, CAUSAL, LIMIT, PADDING, VARIANTS, Job, Seen, cdiv, even
from .triton_kernels import attention as kernels

__all__ = ["attention", "matmul"]

Tensors = dict[str, torch.Tensor]

#: Largest head of each fused kernel, in f32 and in bf16.
HEADS, NARROW_HEADS = (32, 64, 128), (64, 128)
#: Tiles of a product in bf16: rows and columns.
NARROW_TILES = {"wide": (128, 256), "small": (64, 64)}
#: Added to the variance in a transformer layer.
EPS = 1e-5


def _tile(job: Job, m: int, n: int, products: int, aligned: bool) -> int:
    """The edge of the tiles that take least time: a wide tile takes three quarters as long per value."""

    def time(tile: int) -> int:
        turns = cdiv(cdiv(m, tile) * cdiv(n, tile) * products, job.multiprocessors())
        return turns * tile * tile * (3 if tile == 128 else 4)

    return min((64, 128) if aligned else (64,), key=time)


def _product(
    job: Job, name: str, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, bias: torch.Tensor | None = None,
    seen: Seen | None = None, alpha: float = 1.0,
) -> None:  # fmt: skip
    """Appends C = alpha A B + bias for every head. ``name``: product or product_transposed; scores or sums with a mask."""
    (batch, heads, m, k), n = a.shape, c.shape[-1]
    if max(m, n, k) > LIMIT:
        raise Unsupported(f"the kernel counts rows and columns in 32 bits; {m} x {n} x {k} are too many")
    steps = [each.stride(at) for at in (0, 1) for each in (a, b, c)]
    strides = [*(each.stride(2) for each in (a, b, c)), *(steps[at] for at in (0, 3, 1, 4, 2, 5))]
    arrays = [a, b, c] if bias is None else [a, b, c, bias]
    aligned = even(n, k, *strides, *(each.data_ptr() for each in arrays))
    tile = _tile(job, m, n, batch * heads, aligned)
    sees, lengths = seen or (ALL, c)
    numbers = (heads, heads // b.shape[1], sees, int(bias is not None), alpha)
    job.launch(
        f"{name}_{tile}{'_16' if aligned else ''}", (cdiv(n, tile), cdiv(m, tile), batch * heads),
        # Without a bias or lengths these arguments are not read.
        a, b, c if bias is None else bias, c, lengths, m, n, k, *strides, *numbers,
    )  # fmt: skip


def _linear(job: Job, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Appends y = x w^T + bias for all positions."""
    a, b, c = (each.reshape(1, 1, -1, each.shape[-1]) for each in (x, w, y))
    _product(job, "product_transposed", a, b, c, bias)


def matmul(job: Job, case: Case, inputs: dict[str, Any]) -> None:
    """Appends the product for a case, in f32 or bf16."""
    a, b = job.input(inputs["a"]), job.input(inputs["b"])
    (m, k), n = a.shape, case["n"]
    transposed = "_transposed" if case["transposed"] else ""
    if a.dtype != torch.bfloat16:
        c = job.result("c", (m, n))
        _product(job, f"product{transposed}", a[None, None], b[None, None], c[None, None])
        return
    job.need_bf16()
    for axis, size in (("n", n), ("k", k)):
        if not even(size):
            raise Unsupported(f"the Triton kernel needs --n and --k to be multiples of 16; --{axis} is {size}")
    tiles = {name: cdiv(m, rows) * cdiv(n, columns) for name, (rows, columns) in NARROW_TILES.items()}
    tile = "wide" if tiles["wide"] >= job.multiprocessors() else "small"
    c = job.result("c", (m, n), torch.bfloat16)
    job.launch(f"matmul{transposed}_{tile}_16", (tiles[tile],), a, b, c, m, n, k)


def _softmax(job: Job, scores: torch.Tensor, weights: torch.Tensor, seen: Seen) -> None:
    batch, heads, n, _ = scores.shape
    job.launch(f"softmax_rows{'_16' if even(n) else ''}", (batch * heads * n,), scores, seen[1], weights, n, heads, seen[0])


def _scores(job: Job, q: torch.Tensor, k: torch.Tensor, scores: torch.Tensor, seen: Seen) -> None:
    _product(job, "scores", q, k, scores, seen=seen, alpha=1 / math.sqrt(q.shape[-1]))


def _core(job: Job, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, seen: Seen) -> None:
    """Appends softmax(q k^T / sqrt(head)) v: in one kernel, or in three if no fused kernel takes such long heads."""
    batch, heads, n, head = q.shape
    if k.shape[2] != n:
        raise Unsupported("the Triton kernels need as many keys as queries: keys=0")
    narrow = q.dtype == torch.bfloat16
    padded = next((most for most in (NARROW_HEADS if narrow else HEADS) if head <= most), None)
    if narrow:
        job.need_bf16()
        if padded is None or not even(head):
            raise Unsupported(f"in bf16 the Triton kernel needs heads of 16 to 128 values in multiples of 16; this one has {head}")
    elif padded is None:
        scores = job.scratch((batch, heads, n, n))
        _scores(job, q, k, scores, seen)
        _softmax(job, scores, scores, seen)
        _product(job, "sums", scores, v, out, seen=seen)
        return
    strides = [each.stride(at) for each in (q, k, out) for at in (0, 1, 2)]
    aligned = even(head, *strides, *(each.data_ptr() for each in (q, k, v, out)))
    name = f"attention_{'bf16_' if narrow else ''}{padded}{'_16' if narrow or aligned else ''}"
    variant = VARIANTS[name]
    grid = (cdiv(n, variant.constants["QUERIES"]), heads, batch)
    # Under a causal mask this kernel starts with the last queries of all heads.
    if variant.fn is kernels.narrow and seen[0] == CAUSAL:
        grid = (heads, grid[0], batch)
    scale = math.log2(math.e) / math.sqrt(head)
    job.launch(name, grid, q, k, v, out, seen[1], n, head, heads // k.shape[1], seen[0], scale, *strides)


def _whole(job: Job, case: Case, t: Tensors, x: torch.Tensor, y: torch.Tensor, seen: Seen) -> None:
    """Appends attention including its projections."""
    heads, kv = case["heads"], case["kv-heads"] or case["heads"]
    (batch, rows, width), head = x.shape, x.shape[-1] // heads
    qkv = job.scratch((batch, rows, (heads + 2 * kv) * head))
    _linear(job, x, t["w_qkv"], qkv, t["b_qkv"])
    context = job.scratch((batch, rows, width))
    parts = [*qkv.split([heads * head, kv * head, kv * head], dim=-1), context]
    q, k, v, out = (part.unflatten(-1, (-1, head)).transpose(1, 2) for part in parts)
    _core(job, q, k, v, out, seen)
    _linear(job, context, t["w_out"], y, t["b_out"])


def _layer(job: Job, case: Case, t: Tensors, seen: Seen) -> None:
    """Appends h = x + attention(norm(x)), y = h + mlp(norm(h))."""
    x = t["x"]
    normed, part, total = (job.scratch(x.shape) for _ in range(3))
    layers.norm(job, x, t["gamma_1"], t["beta_1"], normed, EPS)
    _whole(job, case, t, normed, part, seen)
    layers.norm(job, x, t["gamma_2"], t["beta_2"], normed, EPS, part, total)
    hidden = job.scratch((*x.shape[:-1], t["w_up"].shape[0]))
    # The activation also adds the bias, since it reads and writes these values anyway.
    _linear(job, normed, t["w_up"], hidden, None)
    layers.bias_gelu(job, hidden, t["b_up"], hidden, tanh=True)
    _linear(job, hidden, t["w_down"], part, t["b_down"])
    layers.elements(job, "add", total, part, job.result("y", x.shape))


def attention(job: Job, workload: str, case: Case, inputs: dict[str, Any]) -> None:
    """Appends the launches of attention, of one part of it, or of the surrounding layer."""
    t = {name: job.input(array) for name, array in inputs.items()}
    sees = {"none": ALL, "causal": CAUSAL, "padding": PADDING}[case["mask"]]
    # Projections have no mask and no lengths.
    lengths = t["lengths"] if "lengths" in t else job.zeros(1, torch.int64)
    seen: Seen = (sees, lengths)
    if workload == "attention-qkv":
        _linear(job, t["x"], t["w_qkv"], job.result("qkv", (*t["x"].shape[:-1], t["w_qkv"].shape[0])), t["b_qkv"])
    elif workload == "attention-scores":
        q = t["q"]
        _scores(job, q, t["k"], job.result("scores", (*q.shape[:3], q.shape[2])), seen)
    elif workload == "attention-softmax":
        _softmax(job, t["scores"], job.result("weights", t["scores"].shape), seen)
    elif workload == "attention-weighted-sum":
        weights, v = t["weights"], t["v"]
        _product(job, "sums", weights, v, job.result("context", (*weights.shape[:3], v.shape[-1])), seen=seen)
    elif workload == "attention-output":
        _linear(job, t["context"], t["w_out"], job.result("y", t["context"].shape), t["b_out"])
    elif workload == "attention-core":
        _core(job, t["q"], t["k"], t["v"], job.result("context", t["q"].shape, t["q"].dtype), seen)
    elif workload == "attention":
        _whole(job, case, t, t["x"], job.result("y", t["x"].shape), seen)
    else:
        _layer(job, case, t, seen)
