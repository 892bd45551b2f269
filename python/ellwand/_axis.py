"""Axes and named sizes of workloads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._case import Value
from ._errors import EllwandError
from ._errors import hidden as __tracebackhide__

__all__ = ["Axis", "Size"]

_MOST = 1 << 40
_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Axis:
    """One dimension of a sweep; it becomes a flag of the command line, a column and the x axis of a plot.

    ``default`` is a value, or a list of values to sweep. Integers are between ``low`` and ``high``; floats are above 0;
    words are one of ``choices``; a bool is a switch.
    """

    def __init__(
        self,
        name: str,
        default: Value | Sequence[Value],
        *,
        low: int = 1,
        high: int = _MOST,
        choices: Sequence[str] = (),
        about: str = "",
        unit: str = "",
        aliases: Sequence[str] = (),
    ) -> None:
        values = list(default) if isinstance(default, (list, tuple)) else [default]
        if not _NAME.fullmatch(name):
            raise EllwandError(f"axis {name!r}: expected lower-case letters, digits and hyphens, such as 'batch-size'")
        if not values:
            raise EllwandError(f"axis {name}: the list of defaults is empty; expected at least one value")
        self.name = name
        self.about = about
        self.unit = unit
        self.aliases = list(aliases)
        self.low, self.high = low, high
        self.choices = list(choices)
        self.default: list[Any] = values
        self.kind = self._kind()

    def _kind(self) -> str:
        def every(kind: type | tuple[type, ...]) -> bool:
            return all(isinstance(value, kind) for value in self.default)

        if every(bool):
            return "switch"
        if every(int):
            outside = [value for value in self.default if not self.low <= value <= self.high]
            if outside:
                raise EllwandError(f"axis {self.name}: {outside[0]} is not between low={self.low} and high={self.high}")
            return "int"
        if every(str):
            unknown = [value for value in self.default if value not in self.choices]
            if unknown:
                raise EllwandError(f"axis {self.name}: {unknown[0]!r} is not one of the choices {self.choices}")
            return "choice"
        if every((int, float)):
            self.default = [float(value) for value in self.default]
            return "positive"
        raise EllwandError(f"axis {self.name}: its defaults {self.default} have different types; expected one type")

    def __repr__(self) -> str:
        return f"Axis({self.name!r}, {self.default!r})"


class Size:
    """A named set of values for ``--size``."""

    def __init__(self, name: str, values: Mapping[str, Value | Sequence[Value]]) -> None:
        self.name = name
        self.values = [(a, list(v) if isinstance(v, (list, tuple)) else [v]) for a, v in values.items()]
