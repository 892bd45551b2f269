"""The results of a measurement and of a comparison, as objects that print and display themselves."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Comparison", "Measurement", "human"]


def human(seconds: float | None) -> str:
    """A time with three digits and a unit."""
    if seconds is None or seconds != seconds:
        return "unavailable"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """An HTML table for notebooks."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead>{line(head, 'th')}</thead><tbody>{''.join(line(r, 'td') for r in rows)}</tbody></table>"


@dataclass(frozen=True)
class Measurement:
    """The time of one implementation for one case, with its 95 % interval."""

    workload: str
    implementation: str
    params: Mapping[str, Any]
    #: measured, unsupported, wrong or failed.
    status: str
    reason: str | None
    #: Median time of an iteration and the bounds of its interval, in seconds; None unless measured.
    seconds: float | None
    low: float | None
    high: float | None
    device: str
    what_ran: str
    first_run_s: float | None
    prepare_s: float | None
    #: Medians of all metrics, by id.
    metrics: Mapping[str, float]
    readings: Mapping[str, float | None]
    warnings: tuple[str, ...] = ()
    #: Seconds per iteration, one value per sample, on the same clock as ``seconds``.
    samples: np.ndarray[Any, Any] | None = field(default=None, repr=False, compare=False)
    #: The clock of ``seconds``, ``low``, ``high`` and ``samples``: elapsed time, CPU time (from 1 ms on, if it accounts for the elapsed
    #: time) or device time.
    clock: str = ""
    #: What other programs took; the time and its interval are then upper bounds. None if no such delay was found.
    held_up: str | None = None

    @property
    def ok(self) -> bool:
        """Whether a time was measured."""
        return self.status == "measured"

    @property
    def ms(self) -> float | None:
        """The time in milliseconds."""
        return None if self.seconds is None else self.seconds * 1e3

    def _line(self) -> str:
        if self.seconds is None:
            return f"{self.status}: {self.reason}"
        time = f"{self._time()} {self.clock}"
        end = f"; {self.held_up}" if self.held_up else ""
        if self.low is None:
            return f"{time} (too few samples for an interval){end}"
        return f"{time} (95 % interval {human(self.low)} to {human(self.high)}){end}"

    def _time(self) -> str:
        return f"{'at most ' if self.held_up else ''}{human(self.seconds)}"

    def __repr__(self) -> str:
        notes = "".join(f"\n  {warning}" for warning in self.warnings)
        return f"{self.implementation}: {self._line()}{notes}"

    def _repr_html_(self) -> str:
        return table(_HEAD, [self._row()], "; ".join([*([self.held_up] if self.held_up else []), *self.warnings]))

    def _row(self) -> list[str]:
        interval = f"{human(self.low)} – {human(self.high)}" if self.ok else f"{self.status}: {self.reason}"
        time = f"{self._time()} {self.clock}" if self.ok else self._time()
        return [self.implementation, time, interval, human(self.first_run_s), self.what_ran]


_HEAD = ["implementation", "time", "95 % interval", "first run", "what ran"]


@dataclass(frozen=True)
class Comparison:
    """A verdict on a candidate against a baseline."""

    baseline: str
    candidate: str
    #: faster, slower, same, undecided, slower-beside, withheld, below-resolution, none; or suggests-.. if both ran in one process.
    verdict: str
    #: Time of the candidate divided by that of the baseline, with its 99 % interval; None without a verdict.
    ratio: float | None
    low: float | None
    high: float | None
    #: Relative difference within which times count as the same.
    rope: float
    #: Median iteration times of baseline and candidate.
    seconds: tuple[float, float] | None
    #: Fresh processes per side behind the verdict; 0 if both ran in the calling process.
    blocks: int
    elapsed_s: float
    reason: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def faster(self) -> bool:
        """Whether the candidate was shown to be faster."""
        return self.verdict == "faster"

    @property
    def slower(self) -> bool:
        """Whether the candidate was shown to be slower."""
        return self.verdict in ("slower", "slower-beside")

    @property
    def same(self) -> bool:
        """Whether both were shown to take the same time, within the rope."""
        return self.verdict == "same"

    def _bounds(self) -> tuple[str, str]:
        """The ends of the interval. Beyond a factor of 100 they only mean that too little was measured."""
        ratio, low, high = (float("nan") if value is None else value for value in (self.ratio, self.low, self.high))
        least, most = ratio / 100, ratio * 100
        return (
            f"{low:.3f}" if not low < least else f"below {least:.3g}",
            f"{high:.3f}" if not high > most else f"above {most:.3g}",
        )

    def _line(self) -> str:
        if self.ratio is None or self.low is None or self.high is None:
            return f"no verdict: {self.reason}"
        cost = f"{self.blocks} blocks, {self.elapsed_s:.1f} s" if self.blocks else "one process: no verdict"
        interval = f"99 % interval {' to '.join(self._bounds())}" if self.blocks else "no interval"
        takes = f"{self.candidate} takes {self.ratio:.3f}x the time of {self.baseline} ({interval}, {cost})"
        if self.verdict == "same":
            return f"same within {self.rope:.3g}: {takes}"
        if not self.blocks:
            return f"suggests: {takes}"
        return f"{self.verdict}: {takes}" + (f"; {self.reason}" if self.reason else "")

    def __repr__(self) -> str:
        return self._line() + "".join(f"\n  {note}" for note in self.notes)

    def _repr_html_(self) -> str:
        interval = " – ".join(self._bounds()) if self.blocks and self.ratio is not None else "none"
        times = [human(each) for each in self.seconds] if self.seconds else ["unavailable"] * 2
        ratio = "unavailable" if self.ratio is None else f"{self.ratio:.3f}"
        head = ["verdict", "baseline", "candidate", "candidate / baseline", "99 % interval", "times", "blocks"]
        row = [self.verdict, self.baseline, self.candidate, ratio, interval, " / ".join(times), str(self.blocks)]
        return table(head, [row], "; ".join([*(self.notes), *([self.reason] if self.reason else [])]))
