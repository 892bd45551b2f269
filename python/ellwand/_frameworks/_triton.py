"""Ellwand's Triton kernels (``triton_kernels``), compiled by Triton for the device that holds PyTorch's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._case import Case
from . import LAYERS, _triton_attention, _triton_layers
from ._triton_job import Job


def prepare(_name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """The launches of ``workload``, compiled."""
    job = Job()
    if workload in LAYERS:
        _triton_layers.prepare(job, workload, case, inputs)
    elif workload == "matmul":
        _triton_attention.matmul(job, case, inputs)
    else:
        _triton_attention.attention(job, workload, case, inputs)
    made: Any = job.compile()
    return made  # type: ignore[no-any-return]
