"""The nested-lattice quantizer on float32 arrays: encode, decode, and products without decoding."""

from __future__ import annotations

from typing import Any, Literal

from . import _arrays, _native
from ._errors import WrongType, shown
from ._errors import hidden as __tracebackhide__
from ._native import Codes
from ._options import integer, is_number
from .nn import floats

__all__ = ["Codes", "decode", "dot", "encode"]

#: The native integers have 32 bits.
MOST = (1 << 32) - 1


def encode(
    x: Any,
    *,
    lattice: Literal["Z2", "D4", "E8"] = "D4",
    q: int = 4,
    levels: int = 2,
    beta: float = 1.0,
    centred: bool = False,
    overload: Literal["none", "flag", "retry"] = "none",
    alpha: float = 1.0,
    cap: int = 8,
) -> Codes:
    """Encodes an array of any shape; vectors of the lattice's dimension are cut from its last axis.

    ``q`` is the nesting ratio and ``levels`` the number M of levels: log2(q) bits per dimension and level. ``beta`` is the scale
    of the finest lattice in units of the data. ``overload`` selects the handling of vectors outside the codebook: ``"flag"``
    marks them, ``"retry"`` scales them down by 2^alpha up to ``cap`` times, ``"none"`` encodes them as if they were inside, so
    they decode to another point. A vector with NaN is outside the codebook.

    These are the defaults of the bare quantizer: data too large for ``beta`` overloads silently. ``ellwand run lattice-encode``
    has other defaults: ``overload="retry"``, ``alpha=1 / 3``, ``cap=16``, and ``beta`` chosen for the data.
    """
    import numpy as np

    integer("q", q, 0, MOST, "an integer from 2 to 256")
    integer("levels", levels, 0, MOST, "an integer of at least 1")
    integer("cap", cap, 0, 255, "an integer from 0 to 255")
    for name, value in (("beta", beta), ("alpha", alpha)):
        if not is_number(value):
            raise WrongType(f"{name}: {shown(value)} is not a number; expected a number such as 1.0")
    _of_type("lattice", lattice, str, "'Z2', 'D4' or 'E8'")
    _of_type("overload", overload, str, "'none', 'flag' or 'retry'")
    _of_type("centred", centred, (bool, np.bool_), "True or False")
    return _native.encode(floats("x", x), lattice, q, levels, beta, centred, overload, alpha, cap)


def decode(codes: Codes, *, depth: int | None = None) -> Any:
    """The array in its original shape; with ``depth``, decoded from only that many of its coarsest levels."""
    _of_type("codes", codes, Codes, "what encode returned")
    if depth is not None:
        integer("depth", depth, 1, MOST, "an integer of at least 1, or None")
    return codes.decode(depth)


def _of_type(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    if not isinstance(value, kind):
        raise WrongType(f"{name}: {shown(value)} is of type {type(value).__name__}; expected {expected}")


def dot(codes: Codes, query: Any) -> Any:
    """The product of every row of the encoded array with a query as long as a row."""
    _of_type("codes", codes, Codes, "what encode returned")
    return _arrays.like(query, _native.dot(codes, floats("query", query)))
