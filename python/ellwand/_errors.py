"""The exceptions of the package, and exceptions of others as text."""

from __future__ import annotations

import os
import traceback

__all__ = ["EllwandError", "InProcessWarning", "Unsupported", "WrongType", "WrongValue", "describe"]

#: Frames of a traceback that a row keeps: the last ones are nearest to the cause.
FRAMES = 4

_HERE = os.path.dirname(os.path.abspath(__file__))


class EllwandError(Exception):
    """An input that Ellwand cannot use. The message says what is wrong, what was expected and what to do."""


class WrongType(EllwandError, TypeError):
    """An argument of another type."""


class WrongValue(EllwandError, ValueError):
    """An argument with a value that it cannot have."""


class Unsupported(EllwandError):
    """Raise it in the preparation of an implementation that cannot run here or for this case, with the reason."""


class InProcessWarning(UserWarning):
    """A function was measured in the calling process, because no other process can find it."""


def describe(error: BaseException) -> str:
    """The exception in one line, then the last frames of its traceback that are not Ellwand's."""
    name = type(error).__name__
    # An error of our own is written for the reader already.
    head = str(error) if isinstance(error, EllwandError) else f"{name}: {error}" if str(error) else name
    ours = (_HERE, "<frozen importlib")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    lines = [f"\n  {f.filename}:{f.lineno} in {f.name}: {f.line or ''}".rstrip(": ") for f in frames[-FRAMES:]]
    return head + "".join(lines)
