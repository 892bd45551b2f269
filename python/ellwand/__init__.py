"""Ellwand: a workbench for measuring numerical code. *Always measure, never guess.*

Everything is loaded when it is used: ``import ellwand`` imports neither NumPy nor any framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import benchmarks as benchmarks
    from . import kde as kde
    from . import lab as lab
    from . import lattice as lattice
    from . import nn as nn
    from . import profiler as profiler
    from ._axis import Axis as Axis
    from ._axis import Size as Size
    from ._case import Case as Case
    from ._errors import EllwandError as EllwandError
    from ._errors import InProcessWarning as InProcessWarning
    from ._errors import Unsupported as Unsupported
    from ._measure import bench as bench
    from ._measure import compare as compare
    from ._record import Record as Record
    from ._record import read as read
    from ._registry import implementation as implementation
    from ._registry import workload as workload
    from ._results import Comparison as Comparison
    from ._results import Measurement as Measurement
    from .nn import attention as attention

_WHERE = {
    "Axis": "_axis",
    "Size": "_axis",
    "Case": "_case",
    "EllwandError": "_errors",
    "InProcessWarning": "_errors",
    "Unsupported": "_errors",
    "bench": "_measure",
    "compare": "_measure",
    "Record": "_record",
    "read": "_record",
    "implementation": "_registry",
    "workload": "_registry",
    "Comparison": "_results",
    "Measurement": "_results",
    "attention": "nn",
}
_MODULES = ("benchmarks", "kde", "lab", "lattice", "nn", "profiler")

# Type checkers see the imports above.
__all__ = sorted([*_WHERE, *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        return import_module("._native", __name__).__version__
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _WHERE:
        raise AttributeError(f"module 'ellwand' has no attribute {name!r}")
    value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext ellwand``."""
    from .jupyter import register

    register(ipython)
