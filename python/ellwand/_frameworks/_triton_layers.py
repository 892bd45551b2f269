"""The layer operations as launches of ``triton_kernels/layers.py``: f32, with sums of losses in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._case import Case
from .._errors import Unsupported
from ._triton_job import LIMIT, Job, cdiv, even
from .triton_kernels.layers import ODD, TILES

__all__ = ["bias_gelu", "elements", "norm", "prepare"]

#: Values per program of `elements` and of `mse`, and rows and columns per program of `biased`.
ELEMENTS, ERRORS, BIASED = 2048, 4 * 2048, (8, 256)


def _by_row(kernel: str, rows: int, d: int) -> tuple[str, tuple[int]]:
    """The variant for rows of ``d`` values, and its grid."""
    if max(rows, d) > LIMIT:
        raise Unsupported(f"the kernels count rows and their values in 32 bits; {rows} x {d} are too many")
    sixteen = "_16" if even(d) else ""
    for block, together, _ in TILES:
        # Large tiles of single values spill.
        if d <= block and (sixteen or block in ODD):
            return f"{kernel}_{block}{sixteen}", (cdiv(rows, together),)
    return f"{kernel}_long{sixteen}", (rows,)


def elements(job: Job, op: str, x: torch.Tensor, second: torch.Tensor | None, y: torch.Tensor) -> None:
    """Appends y = f(x) or f(x, second), element by element."""
    n = x.numel()
    # An operation without a second array does not read this one.
    job.launch(op, (cdiv(n, ELEMENTS),), x, x if second is None else second, y, n)


def norm(
    job: Job, x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, y: torch.Tensor, eps: float,
    residual: torch.Tensor | None = None, total: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """Appends the layer norm y of x, or of x + residual, which is then stored in ``total``."""
    d = x.shape[-1]
    rows = x.numel() // d
    name, grid = _by_row("layer_norm" if residual is None else "residual_layer_norm", rows, d)
    added, to = (x if residual is None else residual), (y if total is None else total)
    job.launch(name, grid, x, added, gamma, beta, y, to, rows, d, eps)


def bias_gelu(job: Job, x: torch.Tensor, bias: torch.Tensor, y: torch.Tensor, tanh: bool) -> None:
    """Appends y = GELU(x + bias); y may be x."""
    d = x.shape[-1]
    rows = x.numel() // d
    if max(rows, d) > LIMIT:
        raise Unsupported(f"the kernel counts rows and columns in 32 bits; {rows} x {d} are too many")
    grid = (cdiv(rows, BIASED[0]), cdiv(d, BIASED[1]))
    job.launch("bias_gelu_approximate" if tanh else "bias_gelu", grid, x, bias, y, rows, d)


def _scale(case: Case, count: int) -> float:
    return 1 / count if case["reduction"] == "mean" else 1.0


def _layer_norm(job: Job, case: Case, t: dict[str, torch.Tensor]) -> None:
    residual = t.get("residual")
    y = job.result("y", t["x"].shape)
    total = None if residual is None else job.result("sum", t["x"].shape)
    norm(job, t["x"], t["gamma"], t["beta"], y, case["eps"], residual, total)


def _gelu(job: Job, case: Case, t: dict[str, torch.Tensor]) -> None:
    op = "gelu_approximate" if case.get("form") == "tanh" else "gelu"
    elements(job, op, t["x"], None, job.result("y", t["x"].shape))


def _softmax(job: Job, _case: Case, t: dict[str, torch.Tensor]) -> None:
    x, d = t["x"], t["x"].shape[-1]
    rows = x.numel() // d
    name, grid = _by_row("softmax", rows, d)
    job.launch(name, grid, x, job.result("y", x.shape), rows, d)


def _mse(job: Job, case: Case, t: dict[str, torch.Tensor]) -> None:
    x, target = t["x"], t["target"]
    if case["reduction"] == "none":
        elements(job, "squared_errors", x, target, job.result("loss", x.shape))
        return
    programs = cdiv(x.numel(), ERRORS)
    sums, come = job.scratch([programs], torch.float64), job.zeros(1, torch.int64)
    loss = job.result("loss", ())
    job.launch("mse", (programs,), x, target, sums, come, loss, x.numel(), _scale(case, x.numel()))


def _cross_entropy(job: Job, case: Case, t: dict[str, torch.Tensor]) -> None:
    if case.get("targets") == "probabilities":
        raise Unsupported("the Triton kernels need integer labels: targets=labels")
    x, labels, d = t["x"], t["labels"], t["x"].shape[-1]
    if bool((labels == case.get("ignore-index", -100)).any()):
        raise Unsupported("the Triton kernels skip no rows: labels without the ignore-index")
    rows, each = x.numel() // d, case["reduction"] == "none"
    loss = job.result("loss", x.shape[:-1] if each else ())
    name, grid = _by_row("cross_entropy", rows, d)
    sums, come = job.scratch(grid, torch.float64), job.zeros(1, torch.int64)
    job.launch(name, grid, x, labels, loss, sums, come, loss, rows, d, int(each), _scale(case, rows))


def _with_bias(job: Job, case: Case, t: dict[str, torch.Tensor]) -> None:
    bias_gelu(job, t["x"], t["bias"], job.result("y", t["x"].shape), case.get("form") == "tanh")


TASKS: dict[str, Callable[[Job, Case, dict[str, torch.Tensor]], None]] = {
    "layer-norm": _layer_norm,
    "gelu": _gelu,
    "swish": lambda job, _, t: elements(job, "swish", t["x"], None, job.result("y", t["x"].shape)),
    "softmax": _softmax,
    "mse-loss": _mse,
    "cross-entropy-loss": _cross_entropy,
    "bias-gelu": _with_bias,
    "residual-layer-norm": _layer_norm,
    "swiglu": lambda job, _, t: elements(job, "swiglu", t["x"], t["up"], job.result("y", t["x"].shape)),
}


def prepare(job: Job, workload: str, case: Case, inputs: dict[str, Any]) -> None:
    """Appends the launches of a layer operation."""
    if case.get("precision") == "bf16":
        raise Unsupported("the Triton layer kernels need f32 arrays: precision=f32")
    if case.get("allocation", "reused") != "reused":
        raise Unsupported("on a GPU arrays are allocated once: allocation=reused")
    TASKS[workload](job, case, {name: job.input(array) for name, array in inputs.items()})
