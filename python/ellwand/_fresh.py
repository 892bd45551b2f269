"""Which arrays a function has just created and nobody else refers to. No other result may be overwritten.

A function may return an array that it keeps (an attribute, a module variable, a cached answer); that array is the user's. So Ellwand
overwrites a result only if its reference counts show that its memory is free as soon as Ellwand lets go of it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["spoiler"]

_ONE = [object()]


def _held_once() -> int:
    """The reference count of an object held by one container and read by index. It differs between Python versions."""
    return sys.getrefcount(_ONE[0])


def spoiler(keep: list[Any]) -> Callable[[Any, int | None], int]:
    """Returns a function that fills the fresh arrays of a result with a byte, except those that share memory with ``keep``, so that no old
    answer is left for the next call. Its caller, which is not Python code, holds the only reference to the result."""

    def spoil(result: Any, byte: int | None) -> int:
        count = sys.getrefcount(result)
        if byte is not None and count <= alone[0]:
            _fill(result, keep, byte)
        return count

    alone = [0]
    # `map` calls it as the real caller does: one reference is the caller's, the other the parameter.
    alone[0] = next(map(spoil, (object() for _ in range(1)), (None,)))
    return spoil


def _fill(value: Any, keep: list[Any], byte: int) -> None:
    """Fills an array if only the caller refers to it; in a container, does the same for each element, recursively."""
    import numpy as np

    if isinstance(value, np.ndarray):
        if _is_free(value) and not any(np.may_share_memory(value, array) for array in keep):
            value[...] = np.frombuffer(bytes([byte]) * value.dtype.itemsize, value.dtype)[0]
        return
    if dataclasses.is_dataclass(value) and hasattr(value, "__dict__"):
        value = vars(value)
    if not isinstance(value, (dict, list, tuple)):
        return
    inside: Any = value
    for name in list(value) if isinstance(value, dict) else range(len(value)):
        if sys.getrefcount(inside[name]) <= _held_once():
            _fill(inside[name], keep, byte)


def _is_free(array: Any) -> bool:
    """Whether the array is writable and owns its memory, or is the only view of an array that does."""
    import numpy as np

    if not array.flags.writeable or array.dtype.kind not in "biufcmM":
        return False
    if array.base is None:
        return bool(array.flags.owndata)
    if not isinstance(array.base, np.ndarray) or sys.getrefcount(array.base) > _held_once():
        return False
    return array.base.base is None and bool(array.base.flags.owndata)
