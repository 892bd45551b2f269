"""Which memory a function could write to through its arguments, and whether it did."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from . import _arrays
from ._errors import EllwandError

__all__ = ["arrays", "frozen"]

#: Immutable types. A container that holds only these is compared as a whole.
FIXED = frozenset({bool, int, float, complex, str, bytes, type(None)})


def frozen(value: Any) -> Any:
    """A snapshot of a value for comparison with a later call: the content of containers, arrays, tensors and pandas frames. Any other object
    is compared by identity, because many objects keep a cache."""
    kind = type(value)
    if kind in FIXED:
        return value
    if isinstance(value, Mapping):
        return kind, tuple((key, frozen(each)) for key, each in value.items())
    if isinstance(value, (list, tuple, deque)):
        return kind, tuple(value) if FIXED.issuperset(map(type, value)) else tuple(map(frozen, value))
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(value)
    if isinstance(value, bytearray):
        return kind, bytes(value)
    frame = _frame(value)
    if frame is not None:
        return frame
    array = _array(_arrays.fetched(_plain(value)))
    return id(value) if array is None else (array.shape, array.dtype.str, array.tobytes())


def _frame(value: Any) -> Any:
    """The content of a pandas frame or series; None for any other value, and if cells such as lists cannot be hashed."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.DataFrame, pandas.Series)):
        return None
    try:
        cells = pandas.util.hash_pandas_object(value)
    except TypeError:
        return None
    names = [*value.columns] if isinstance(value, pandas.DataFrame) else [value.name]
    return type(value), tuple(map(repr, names)), cells.to_numpy().tobytes()


def arrays(value: Any) -> Iterator[Any]:
    """The NumPy arrays in a value, and its CPU tensors unconverted: a result may share their memory."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple, deque)):
        if not FIXED.issuperset(map(type, value)):
            for each in value:
                yield from arrays(each)
        return
    array = _array(_plain(value))
    if array is not None:
        yield array


def _plain(value: Any) -> Any:
    """A tensor without its gradient, and anything else as it is."""
    torch = sys.modules.get("torch")
    return value.detach() if torch is not None and isinstance(value, torch.Tensor) else value


def _array(value: Any) -> Any:
    """The value as a numeric array if a function could write to its memory; otherwise None."""
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        try:
            value = _arrays.borrow("argument", value)
        except EllwandError:
            # On a GPU, sparse, or of a type that NumPy lacks.
            return None
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" else None
