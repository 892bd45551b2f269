"""Arrays that a function has just made and that nobody else refers to: no other result may be overwritten.

A function may return what it keeps (an attribute, an array of its module, a cached answer), which is the user's. So a result is
overwritten only where its reference counts say that its memory is free as soon as Ellwand lets go of it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["spoiler"]

_ONE = [object()]


def _held_once() -> int:
    """The count of an object to which one container refers, read by an index. Versions of Python differ in it."""
    return sys.getrefcount(_ONE[0])


def spoiler(keep: list[Any]) -> Callable[[Any, int | None], int]:
    """A function that fills the fresh arrays of a result with a byte, except what shares memory with ``keep``: what the next call
    computes then lies where no answer is. Its caller, which is not written in Python, has the only reference to the result."""

    def spoil(result: Any, byte: int | None) -> int:
        count = sys.getrefcount(result)
        if byte is not None and count <= alone[0]:
            _fill(result, keep, byte)
        return count

    alone = [0]
    # `map` calls as the caller does: it holds one reference, and the parameter another.
    alone[0] = next(map(spoil, (object() for _ in range(1)), (None,)))
    return spoil


def _fill(value: Any, keep: list[Any], byte: int) -> None:
    """Fills an array to which only its caller refers, or the arrays in a container to which only it does, and so on."""
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
    """Whether the array can be written to and has memory of its own, or is the only view of an array that has."""
    import numpy as np

    if not array.flags.writeable or array.dtype.kind not in "biufcmM":
        return False
    if array.base is None:
        return bool(array.flags.owndata)
    if not isinstance(array.base, np.ndarray) or sys.getrefcount(array.base) > _held_once():
        return False
    return array.base.base is None and bool(array.base.flags.owndata)
