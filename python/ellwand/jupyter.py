"""``%load_ext ellwand``, then ``%%ellwand`` measures a cell."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, cast

__all__ = ["register"]


def measure_cell(line: str, cell: str | None, namespace: dict[str, Any]) -> Any:
    """Measures a cell (or the rest of the line) in the kernel's own process."""
    from ._errors import EllwandError
    from ._measure import EFFORTS, bench

    words = line.split()
    if cell is not None and (len(words) > 1 or any(word not in EFFORTS for word in words)):
        raise EllwandError(f"%%ellwand: {line.strip()!r} is unknown; expected one of {', '.join(EFFORTS)}, or nothing")
    effort = words[0] if cell is not None and words else "quick"
    source = line if cell is None else cell
    # The cell's names exist only in this process.
    return bench(_function(source, namespace), effort=effort, isolated=False, inplace=True)


def _function(source: str, namespace: dict[str, Any]) -> Callable[[], None]:
    """A cell as a function, as in ``%%timeit``: the notebook's variables are its globals, and its assignments are local."""
    from ._errors import EllwandError

    try:
        body = ast.parse(source, "<ellwand cell>").body
    except SyntaxError as error:
        if re.search(r"^\s*(\w+\s*=\s*)?[%!]", source, re.M):
            raise EllwandError("%ellwand: expected Python; a magic (%..) or a command (!..) cannot be measured") from error
        raise
    if not body:
        raise EllwandError("%ellwand: there is nothing to measure; write an expression after it, or use %%ellwand")
    module = ast.parse("def cell(): pass", "<ellwand cell>")
    # As under `%%timeit`, a cell such as `n += 1` raises UnboundLocalError if it reads a name before it assigns it.
    module.body[0].body = body  # type: ignore[attr-defined]
    scope: dict[str, Any] = {}
    exec(compile(module, "<ellwand cell>", "exec"), namespace, scope)
    return cast(Callable[[], None], scope["cell"])


def register(ipython: Any) -> None:
    """Registers the magics with a shell."""

    def ellwand(line: str, cell: str | None = None) -> Any:
        """Measure a cell: %%ellwand [quick|normal|thorough]"""
        return measure_cell(line, cell, ipython.user_ns)

    ipython.register_magic_function(ellwand, magic_kind="line_cell", magic_name="ellwand")
