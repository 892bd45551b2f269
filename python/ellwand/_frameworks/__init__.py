"""Implementations by other frameworks. A framework that is installed gets its rows; it is imported in the worker that needs it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from .._case import Case
from .._errors import Unsupported
from .._registry import CORES, implementation

__all__ = ["ATTENTION", "LAYERS", "register"]

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
#: Workloads in which the form of attention can be chosen.
FORMS = ("attention-core", "attention", "transformer-layer")

#: Name, module, package that must be there, workloads, what it is.
ROWS = (
    ("numpy", "_numpy", "numpy", (*LAYERS, *ATTENTION), "NumPy, one operation after the other"),
    ("torch", "_torch", "torch", (*LAYERS, *ATTENTION), "PyTorch, eager"),
    ("torch-compile", "_torch", "torch", (*LAYERS, *ATTENTION), "PyTorch under torch.compile"),
    ("torch-sdpa", "_torch", "torch", FORMS, "PyTorch's scaled_dot_product_attention"),
    ("torch-flash", "_torch", "torch", FORMS, "the same with its flash backend alone"),
    ("jax", "_jax", "jax", (*LAYERS, *ATTENTION), "JAX under jit"),
)


def prepare(name: str, module: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """Imports the framework and prepares the workload with it."""
    try:
        framework = importlib.import_module(f".{module}", __name__)
    except (ImportError, OSError, RuntimeError) as error:
        package = module.removeprefix("_")
        raise Unsupported(f"{package} is installed but cannot be imported: {type(error).__name__}: {error}") from error
    made: Callable[[], Any] = framework.prepare(name, workload, case, inputs)
    return made


def register() -> None:
    """Adds the rows of every framework that is installed, without importing it."""
    installed = {package: importlib.util.find_spec(package) is not None for _, _, package, _, _ in ROWS}
    for name, module, package, workloads, about in ROWS:
        for workload in workloads if installed[package] else ():
            function = functools.partial(prepare, name, module, workload)
            implementation(workload, name, threads=CORES, about=about)(function)
