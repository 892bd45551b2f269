"""The layer operations, their gradients, attention and matrix products in CuPy: the functions of the NumPy row on the GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

# CuPy reads this at its first product; 0 is also its default.
os.environ["CUPY_TF32"] = "0"

import cupy
from cupyx.scipy.special import erf

from .._case import Case
from .._errors import Unsupported
from ._operations import Operations

#: Upper bounds on the launches of a run: one per operation, two per reduction, and eight for a product of many matrices,
#: which may first copy its operands and list their addresses.
LAUNCHES, LAUNCHES_OF = 48, {"attention": 64, "transformer-layer": 128}


class Call:
    """A function on arrays of the device; calling it enqueues its operations on CuPy's current stream."""

    def __init__(self, function: Callable[[Case, dict[str, Any]], Any], case: Case, arrays: dict[str, Any]) -> None:
        self.function, self.case, self.arrays = function, case, arrays
        self.what_ran = f"cupy {cupy.__version__}"
        self.launches = LAUNCHES

    def __call__(self) -> Any:
        return self.function(self.case, self.arrays)


def prepare(_name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A call of ``workload`` without arguments, whose kernels are compiled."""
    if case.get("precision") == "bf16":
        raise Unsupported("the CuPy implementations compute in float32 only")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise Unsupported(f"CuPy finds no CUDA device: {error}") from error
    call = Call(Operations(cupy, erf).functions()[workload], case, {key: cupy.asarray(array) for key, array in inputs.items()})
    call.launches = LAUNCHES_OF.get(workload, LAUNCHES)
    call()
    cupy.cuda.get_current_stream().synchronize()
    return call
