"""Implementations by other frameworks: rows of a table. A framework is imported in the worker that needs it."""

from __future__ import annotations

import ctypes.util
import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import Any

from .. import _compile
from .._case import Case
from .._errors import Unsupported
from .._registry import CORES, implementation

__all__ = ["ATTENTION", "GRADIENTS", "KDE", "LATTICE", "LAYERS", "register"]

LAYERS = (
    "layer-norm",
    "gelu",
    "swish",
    "softmax",
    "mse-loss",
    "cross-entropy-loss",
    "bias-gelu",
    "residual-layer-norm",
    "swiglu",
)
PARTS = ("attention-qkv", "attention-scores", "attention-softmax", "attention-weighted-sum", "attention-output")
ATTENTION = (*PARTS, "attention-core", "attention", "transformer-layer")
GRADIENTS = tuple(f"{name}-backward" for name in ("layer-norm", "gelu", "swish", "mse-loss", "cross-entropy-loss"))
KDE = ("kde-fit", "kde-predict")
LATTICE = ("lattice-encode", "lattice-decode", "lattice-quantize")
#: Workloads in which the form of attention can be chosen.
FORMS = ("attention-core", "attention", "transformer-layer")

#: Name, module (None if it computes on GPUs only), package that must be there, workloads, what it is.
ROWS = (
    ("numpy", "_numpy", "numpy", (*LAYERS, *GRADIENTS, "matmul", *ATTENTION, *LATTICE), "NumPy, one operation after the other"),
    ("torch", "_torch", "torch", (*LAYERS, *GRADIENTS, "matmul", *ATTENTION, *KDE, *LATTICE), "PyTorch, eager"),
    ("torch-compile", "_torch", "torch", (*LAYERS, "matmul", *ATTENTION), "PyTorch under torch.compile"),
    ("torch-sdpa", "_torch", "torch", FORMS, "PyTorch's scaled_dot_product_attention"),
    ("torch-flash", "_torch", "torch", FORMS, "the same with its flash backend alone"),
    ("triton", None, "triton", (*LAYERS, *ATTENTION), "Triton kernels"),
    ("cupy", None, "cupy", (*LAYERS, *GRADIENTS, "matmul", *ATTENTION, *KDE, *LATTICE), "CuPy"),
    ("jax", "_jax", "jax", (*LAYERS, *GRADIENTS, "matmul", *ATTENTION, *KDE), "JAX under jit"),
    ("published", "_published_kde", "non_local_detector", KDE, "the published decoder, non_local_detector, on JAX"),
)


def prepare(
    name: str, module: str, package: str, workload: str, case: Case, inputs: dict[str, Any]
) -> Callable[[], Any]:
    """Imports the framework and prepares the workload with it."""
    try:
        framework = importlib.import_module(f".{module}", __name__)
    except (ImportError, OSError, RuntimeError) as error:
        raise Unsupported(f"{package} is installed but cannot be imported: {type(error).__name__}: {error}") from error
    _compile.listen()
    _compile.save(*case.id.split("/"), name)
    made: Callable[[], Any] = framework.prepare(name, workload, case, inputs)
    return made


def _needs_cuda(package: str, _case: Case, _inputs: dict[str, Any]) -> Any:
    if not _has_cuda():
        raise Unsupported(f"{package} needs a CUDA device; the driver (libcuda) was not found")
    raise Unsupported(f"{package}: work on a CUDA stream of Python cannot be timed yet; `cuda` runs the same task")


def _has_cuda() -> bool:
    return ctypes.util.find_library("cuda") is not None


def _missing(package: str, _case: Case, _inputs: dict[str, Any]) -> Any:
    raise Unsupported(f"{package} is not installed; `pip install {package}`")


def register(words: Sequence[str] | None = None) -> None:
    """Adds the rows that a command line mentions, without importing a framework; all of them if it is None.

    A run that names no framework must neither measure nor import one.
    """
    named = None if words is None else {part for word in words for part in re.split("[=,:]", word)}
    for name, module, package, workloads, about in ROWS:
        if named is not None and name not in named:
            continue
        installed = importlib.util.find_spec(package) is not None
        about = about if installed else f"{about} (not installed)"
        for workload in workloads:
            if module is None:
                function = functools.partial(_needs_cuda, package)
            elif installed:
                function = functools.partial(prepare, name, module, package, workload)
            else:
                function = functools.partial(_missing, package)
            implementation(workload, name, threads=CORES, about=about, foreign=True)(function)
