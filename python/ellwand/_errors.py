"""The exceptions of the package, and text for exceptions of other code."""

from __future__ import annotations

import os
import traceback
from typing import Any

__all__ = ["EllwandError", "InProcessWarning", "Unsupported", "WrongType", "WrongValue", "describe", "hidden", "shown"]

#: Traceback frames kept in a row: the last ones are nearest to the cause.
FRAMES = 4
#: Characters of an argument in a message.
SHOWN = 60

_HERE = os.path.dirname(os.path.abspath(__file__))


class EllwandError(Exception):
    """An input that Ellwand cannot use. The message says what is wrong, what was expected and what to do."""


class WrongType(EllwandError, TypeError):
    """An argument of the wrong type."""


class WrongValue(EllwandError, ValueError):
    """An argument whose value is not allowed."""


class Unsupported(EllwandError):
    """Raise this while preparing an implementation that cannot run here or for this case; give the reason."""


class InProcessWarning(UserWarning):
    """A function was measured in the calling process because no other process can find it."""


def hidden(caught: Any) -> bool:
    """``__tracebackhide__`` of modules that raise to the user: pytest leaves out their lines, unless the error is not Ellwand's."""
    return caught is not None and isinstance(caught.value, EllwandError)


def shown(value: Any) -> str:
    """The value as Python shows it, on one line, shortened if long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}.."


def describe(error: BaseException) -> str:
    """The exception in one line, then the last frames of its traceback that are not Ellwand's."""
    name = type(error).__name__
    # Our own errors are already written for the reader.
    head = str(error) if isinstance(error, EllwandError) else f"{name}: {error}" if str(error) else name
    ours = (_HERE, "<frozen importlib")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    lines = [f"\n  {f.filename}:{f.lineno} in {f.name}: {f.line or ''}".rstrip(": ") for f in frames[-FRAMES:]]
    return head + "".join(lines)
