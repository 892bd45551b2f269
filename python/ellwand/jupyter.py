"""``%load_ext ellwand``, then ``%%ellwand`` measures a cell."""

from __future__ import annotations

from typing import Any

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
    if not source.strip():
        raise EllwandError("%ellwand: there is nothing to measure; write an expression after it, or use %%ellwand")
    code = compile(source, "<ellwand cell>", "exec")

    def cell_body() -> None:
        exec(code, namespace)

    # The cell's names live in this process alone.
    return bench(cell_body, effort=effort, isolated=False, inplace=True)


def register(ipython: Any) -> None:
    """Adds the magic to a shell."""

    def ellwand(line: str, cell: str | None = None) -> Any:
        """Measure a cell: %%ellwand [quick|normal|thorough]"""
        return measure_cell(line, cell, ipython.user_ns)

    ipython.register_magic_function(ellwand, magic_kind="line_cell", magic_name="ellwand")
