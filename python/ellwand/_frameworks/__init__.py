"""Implementations by other frameworks: rows of a table. A framework is imported in the worker that needs it."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _compile, _device
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
FORWARD = (*LAYERS, "matmul", *ATTENTION)
OPERATIONS = (*FORWARD, *GRADIENTS)
#: Workloads with selectable forms of attention.
FORMS = ("attention-core", "attention", "transformer-layer")


class Row(NamedTuple):
    """An implementation of ``workloads`` by another framework: ``module`` here prepares it if ``package`` is installed."""

    name: str
    module: str
    package: str
    workloads: tuple[str, ...]
    about: str
    device: str = "cpu"


ROWS = (
    Row("numpy", "_numpy", "numpy", (*OPERATIONS, *LATTICE), "NumPy, one operation after the other"),
    Row("torch", "_torch", "torch", (*OPERATIONS, *KDE, *LATTICE), "PyTorch, eager"),
    Row("torch-compile", "_torch", "torch", FORWARD, "PyTorch under torch.compile"),
    Row("torch-sdpa", "_torch", "torch", FORMS, "PyTorch's scaled_dot_product_attention"),
    Row("torch-flash", "_torch", "torch", FORMS, "the same with only its flash backend"),
    Row("torch-cuda", "_torch", "torch", (*OPERATIONS, *KDE), "PyTorch, eager, on the GPU", "cuda"),
    Row("torch-compile-cuda", "_torch", "torch", FORWARD, "PyTorch under torch.compile, on the GPU", "cuda"),
    Row("torch-sdpa-cuda", "_torch", "torch", FORMS, "PyTorch's scaled_dot_product_attention on the GPU", "cuda"),
    Row("torch-flash-cuda", "_torch", "torch", FORMS, "the same with only its flash backend", "cuda"),
    Row("triton", "_triton", "triton", FORWARD, "Ellwand's Triton kernels on PyTorch's tensors", "cuda"),
    Row("cupy", "_cupy", "cupy", OPERATIONS, "CuPy, one operation after the other", "cuda"),
    Row("jax", "_jax", "jax", (*OPERATIONS, *KDE), "JAX under jit"),
    Row("jax-cuda", "_jax", "jax", (*OPERATIONS, *KDE), "JAX under jit on the GPU, in wall time", "cuda"),
    Row("published", "_published_kde", "non_local_detector", KDE, "the published decoder, non_local_detector, on JAX"),
)


def prepare(
    name: str, module: str, package: str, workload: str, case: Case, inputs: dict[str, Any]
) -> Callable[[], Any]:
    """Imports the framework and prepares the workload with it."""
    try:
        framework = importlib.import_module(f".{module}", __name__)
    except (ImportError, OSError, RuntimeError) as error:
        raise Unsupported(f"{package} is installed but cannot be imported: {type(error).__name__}: {error}") from error
    # Importing the framework took memory that does not belong to the row.
    from .._native import restart_peak

    restart_peak()
    _device.use(_device.timed)
    _compile.listen()
    _compile.save(*case.id.split("/"), name)
    made: Callable[[], Any] = framework.prepare(name, workload, case, inputs)
    return made


def _missing(package: str, _case: Case, _inputs: dict[str, Any]) -> Any:
    # On PyPI `cupy` is only the source; the wheel has another name.
    wheel = {"cupy": "cupy-cuda13x"}.get(package, package)
    raise Unsupported(f"{package} is not installed; `pip install {wheel}`")


def _meant(words: Sequence[str]) -> set[str]:
    """The rows with names similar to an implementation on the command line, so that its error can suggest them."""
    after = [value for flag, value in zip(words, words[1:]) if flag in ("-i", "--implementation")]
    joined = [word for word in words if word.startswith("--implementation=") or ":" in word]
    given = {part for word in after + joined for part in re.split("[=,:]", word)}
    names = {row.name for row in ROWS}
    return {name for one in given - names for name in difflib.get_close_matches(one, names, n=1, cutoff=0.7)}


def register(words: Sequence[str] | None = None) -> None:
    """Adds the rows that a command line names, without importing a framework; all rows without one.

    A run that names no framework must not measure or import one.
    """
    named = None if words is None else {part for word in words for part in re.split("[=,:]", word)} | _meant(words)
    for row in ROWS:
        if named is not None and row.name not in named:
            continue
        installed = importlib.util.find_spec(row.package) is not None
        about = row.about if installed else f"{row.about} (not installed)"
        for workload in row.workloads:
            if installed:
                function = functools.partial(prepare, row.name, row.module, row.package, workload)
            else:
                function = functools.partial(_missing, row.package)
            add = implementation(workload, row.name, device=row.device, threads=CORES, about=about, foreign=True)
            add(function)
