"""The nested-lattice quantizer on float32 arrays: encode, decode, and products without decoding."""

from __future__ import annotations

from typing import Any, Literal

from . import _arrays, _native
from ._native import Codes
from .nn import floats

__all__ = ["Codes", "decode", "dot", "encode"]


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
    return _native.encode(floats("x", x), lattice, q, levels, beta, centred, overload, alpha, cap)


def decode(codes: Codes, *, depth: int | None = None) -> Any:
    """The array in its original shape; with ``depth``, decoded from only that many of its coarsest levels."""
    return codes.decode(depth)


def dot(codes: Codes, query: Any) -> Any:
    """The product of every row of the encoded array with a query as long as a row."""
    return _arrays.like(query, _native.dot(codes, floats("query", query)))
