"""The options of ``bench`` and ``compare``: a wrong one is rejected by name before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ._errors import EllwandError, WrongType, WrongValue, shown
from ._errors import hidden as __tracebackhide__

__all__ = ["check", "integer", "is_number", "number"]

#: The limits of the command line.
LEAST_BLOCKS, MOST_BLOCKS, LEAST_S, MOST_S = 2, 1000, 0.1, 86_400.0


def check(**options: Any) -> None:
    """Raises :class:`WrongValue` or :class:`WrongType` for the first option that is wrong."""
    for name, value in options.items():
        _CHECKS[name](name, value)


def _is_integer(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__")


def is_number(value: Any) -> bool:
    return not isinstance(value, (bool, str, bytes)) and (hasattr(value, "__float__") or hasattr(value, "__index__"))


def _kind(value: Any) -> type[EllwandError]:
    """Like ``int`` and ``float``: a string of the wrong form is a wrong value."""
    return WrongValue if isinstance(value, str) else WrongType


def integer(name: str, value: Any, least: float, most: float, expected: str) -> None:
    """Raises unless the value is an integer from ``least`` to ``most``."""
    if not _is_integer(value):
        raise _kind(value)(f"{name}: {shown(value)} is not an integer; expected {expected}")
    if not least <= value <= most:
        raise WrongValue(f"{name}: {shown(value)} is out of range; expected {expected}")


def number(name: str, value: Any, least: float, most: float, expected: str) -> None:
    """Raises unless the value is a number from ``least`` to ``most``."""
    if not is_number(value):
        raise _kind(value)(f"{name}: {shown(value)} is not a number; expected {expected}")
    if not least <= value <= most:
        raise WrongValue(f"{name}: {shown(value)} is out of range; expected {expected}")


def _optional(name: str, value: Any, least: float, most: float, expected: str) -> None:
    if value is not None:
        integer(name, value, least, most, expected)


def _time(name: str, value: Any) -> None:
    if value is not None:
        number(name, value, LEAST_S, MOST_S, f"seconds from {LEAST_S} (100ms) to {MOST_S:.0f} (24h), or None")


def _tolerance(name: str, value: Any) -> None:
    expected = "two numbers of at least 0, (absolute, relative), such as (1e-8, 1e-5)"
    if not isinstance(value, (tuple, list)) or not all(map(is_number, value)):
        raise WrongType(f"{name}: {shown(value)} is not a pair of numbers; expected {expected}")
    if len(value) != 2 or not all(math.isfinite(each) and each >= 0 for each in value):
        raise WrongValue(f"{name}: {shown(value)} is not a tolerance; expected {expected}")


def _switch(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise WrongType(f"{name}: {shown(value)} is neither True nor False")


def _setup(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise WrongType(f"{name}: {shown(value)} is not a function; expected a function that returns the arguments of a call, or None")


def _isolated(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, bool):
        raise WrongType(f"{name}: {shown(value)} is unknown; expected True, False or None")


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "threads": partial(_optional, least=1, most=math.inf, expected="an integer of at least 1, or None"),
    "blocks": partial(
        _optional, least=LEAST_BLOCKS, most=MOST_BLOCKS, expected=f"an integer from {LEAST_BLOCKS} to {MOST_BLOCKS}, or None"
    ),
    "rope": partial(number, least=math.ulp(0.0), most=1.0, expected="a share above 0 and up to 1, such as 0.01 for 1 %"),
    "time": _time,
    "tolerance": _tolerance,
    "setup": _setup,
    "check": _switch,
    "inplace": _switch,
    "isolated": _isolated,
}
