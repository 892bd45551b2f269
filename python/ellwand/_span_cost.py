"""The cost of the profiler's spans, measured in this process."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

from ._native import Recorder

__all__ = ["Costs", "costs"]

#: In ns for each `Way` of `src/spans/recorder.rs`: what a span costs its caller, and what an empty span measures of that. The ways: a
#: function made by `profile_function`, a reused region, a region looked up by name, a region with arguments.
Costs = list[tuple[float, float]]

BATCHES = 31


@functools.cache
def costs(measure: tuple[str, ...] = ()) -> Costs:
    """Medians of batches on a separate thread, with a profiler that measures the same quantities for every span."""
    found: Costs = []

    def run() -> None:
        # Each measurement takes only microseconds.
        calls = 32 if measure else 128
        plain, empty = _per_call(_calls, _nothing, calls), _per_call(_loop, None, calls)
        for way in (_calls, _regions, _named, _with_arguments):
            # With room for all spans and arguments: aggregated spans cost less.
            probe = Recorder(max_entries=16 * BATCHES * calls, measure=measure)
            is_function = way is _calls
            given = probe._function(_nothing, "empty", ("", 0)) if is_function else probe
            cost = _per_call(way, given, calls) - (plain if is_function else empty)
            inside = probe._snapshot(lambda: [(0.0, 0.0)] * 4).summary()[0]["p50_ns"]
            # A function's span also contains the function, whose time does not count as cost.
            found.append((max(cost, 0.0), max(inside - (plain - empty if is_function else 0.0), 0.0)))

    thread = threading.Thread(target=run, name="ellwand")
    thread.start()
    thread.join()
    return found


def _per_call(way: Callable[..., None], given: object, calls: int) -> float:
    times = []
    for _ in range(BATCHES):
        start = time.perf_counter_ns()
        way(given, calls)
        times.append((time.perf_counter_ns() - start) / calls)
    return sorted(times)[BATCHES // 2]


def _nothing() -> None:
    pass


def _loop(_given: None, calls: int) -> None:
    for _ in range(calls):
        pass


def _calls(function: Callable[[], None], calls: int) -> None:
    for _ in range(calls):
        function()


def _regions(probe: Recorder, calls: int) -> None:
    region = probe.profile("empty")
    for _ in range(calls):
        with region:
            pass


def _named(probe: Recorder, calls: int) -> None:
    for _ in range(calls):
        with probe.profile("empty"):
            pass


def _with_arguments(probe: Recorder, calls: int) -> None:
    for _ in range(calls):
        with probe.profile("empty", size=calls):
            pass
