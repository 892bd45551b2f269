"""Gradients of the layer operations by PyTorch's autograd.

The forward pass runs once, in the preparation, and autograd keeps what it needs. A call is only the backward pass: it reads
saved statistics that our kernels recompute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._case import Case
from ._torch import LAYERS

T = dict[str, Any]

__all__ = ["gradient"]


def gradient(workload: str, case: Case, tensors: T, what: str) -> Callable[[], Any]:
    """The backward pass of a layer as a function of no arguments."""
    forward = workload.removesuffix("-backward")
    names = ("x", "gamma", "beta") if forward == "layer-norm" else ("x",)
    width = tensors["x"].shape[-1]
    tensors.setdefault("gamma", tensors["x"].new_ones(width))
    tensors.setdefault("beta", tensors["x"].new_zeros(width))
    leaves = [tensors[name].requires_grad_() for name in names]
    y = LAYERS[forward](case, tensors)
    given = tensors.get("dloss" if "loss" in forward else "dy", y.new_ones(())).broadcast_to(y.shape)

    def run() -> T:
        gradients = torch.autograd.grad(y, leaves, given, retain_graph=True)
        return {f"d{name}": each for name, each in zip(names, gradients)}

    call: Any = run
    call.what_ran = what + ", autograd's backward pass alone"
    return call  # type: ignore[no-any-return]
