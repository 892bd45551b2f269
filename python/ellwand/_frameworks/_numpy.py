"""The layer operations, their gradients, attention and matrix products in NumPy, as one writes them without a framework."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._case import Case
from .._errors import Unsupported
from .._registry import CORES
from . import LATTICE
from ._operations import Operations


def prepare(_name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A call of ``workload`` without arguments."""
    if case.get("precision") == "bf16":
        raise Unsupported("NumPy has no bf16")
    if case.get("form") == "exact":
        raise Unsupported("NumPy has no error function; --form tanh needs none")
    if workload in LATTICE:
        from . import _lattice

        return _lattice.prepare(_lattice.NumpyArrays(), workload, case, inputs)
    call: Any = functools.partial(Operations(np).functions()[workload], case, inputs)
    call.what_ran = f"numpy {np.__version__}, matrix products on {CORES} threads"
    return call  # type: ignore[no-any-return]
