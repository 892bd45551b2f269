"""The name of a function in results and profiles."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["inner", "name_of"]


def inner(function: Any) -> Any:
    """The function inside a `functools.partial`; any other function itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Any) -> str:
    """The name of a function; for a callable object, the name of its class."""
    function = inner(function)
    name = getattr(function, "__qualname__", "") or getattr(function, "__name__", "")
    return name if isinstance(name, str) and name else type(function).__qualname__
