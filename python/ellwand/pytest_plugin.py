"""The pytest fixture ``measure``: budgets of time and memory as assertions.

    def test_budget(measure):
        measure(my_function, data).takes_at_most(5e-3)

    def test_regression(measure):
        measure.compare(old, new, data).is_not_slower()
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest

from ._errors import WrongValue
from ._errors import hidden as __tracebackhide__
from ._options import is_number
from ._results import Comparison, Measurement, human

__all__ = ["Measure", "measure"]


class Budget:
    """A measurement to compare with limits."""

    def __init__(self, measurement: Measurement, memory_mb: Callable[[], float]) -> None:
        self.measurement = measurement
        self._memory = memory_mb

    def takes_at_most(self, seconds: float) -> Budget:
        """Fails only if the whole interval is above the limit, so noise alone does not fail a test. The time is that of
        ``measurement.clock``: elapsed time, or from 1 ms on CPU time if it accounts for the elapsed time."""
        _limit("takes_at_most", seconds, "seconds")
        low, samples = self.measurement.low, self.measurement.samples
        if low is None and samples is not None:
            # Too few samples for an interval: then the fastest one must be above the limit.
            low = float(samples.min())
        if low is not None and low > seconds:
            pytest.fail(f"it takes longer than {human(seconds)}: {self.measurement!r}", pytrace=False)
        return self

    def needs_at_most(self, megabytes: float) -> Budget:
        """Fails if peak memory exceeds the limit in all three of three runs."""
        _limit("needs_at_most", megabytes, "megabytes")
        peaks = []
        for _ in range(3):
            peaks.append(self._memory())
            if peaks[-1] <= megabytes:
                return self
        raise pytest.fail.Exception(f"it needs {min(peaks):.1f} MB, above the limit of {megabytes:g} MB", pytrace=False)


def _limit(name: str, value: Any, unit: str) -> None:
    if not is_number(value) or not 0 <= float(value) < math.inf:
        raise WrongValue(f"{name}: {value!r} is not a limit; expected {unit}, such as {name}(0.5)")


class Verdict:
    """A comparison to assert on."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def is_not_slower(self, by: float = 0.1) -> Verdict:
        """Fails if the candidate is shown to be slower. An undecided comparison passes if it excludes a slow-down of more than the
        share ``by``; a comparison without a verdict fails."""
        _limit("is_not_slower", by, "a share")
        found = self.comparison
        if found.slower:
            pytest.fail(repr(found), pytrace=False)
        if found.faster or found.same:
            return self
        if found.verdict != "undecided" or found.high is None:
            pytest.fail(f"a slow-down is not excluded, because there is no verdict: {found!r}", pytrace=False)
        if found.high > 1 + by:
            how = "give it more time or blocks, or allow more with is_not_slower(by=..)"
            pytest.fail(f"a slow-down by more than {by:.3g} is not excluded; {how}: {found!r}", pytrace=False)
        return self

    def is_faster(self) -> Verdict:
        """Fails unless the candidate is shown to be faster."""
        if not self.comparison.faster:
            pytest.fail(f"not shown to be faster: {self.comparison!r}", pytrace=False)
        return self


class Measure:
    """Calls of the fixture."""

    def __call__(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Budget:
        from ._call import made
        from ._measure import bench
        from .lab import measure_memory_usage

        measurement = bench(function, *args, **options)
        # Memory is measured for the same call: keywords that are not options of `bench` go to the function.
        parameters = inspect.signature(bench).parameters.values()
        known = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        kwargs = {name: value for name, value in options.items() if name not in known}
        setup = options.get("setup")

        def memory() -> float:
            if setup is not None:
                # The call that warms up has separate arguments.
                function(*made(setup, args, kwargs))
                return float(measure_memory_usage(function, made(setup, args, kwargs), warmup=0))
            return float(measure_memory_usage(functools.partial(function, **kwargs), args))

        return Budget(measurement, memory)

    def compare(self, baseline: Callable[..., Any], candidate: Callable[..., Any], /, *args: Any, **options: Any) -> Verdict:
        """Compares as ``ellwand.compare``."""
        from ._measure import compare

        return Verdict(compare(baseline, candidate, *args, **options))


@pytest.fixture
def measure() -> Measure:
    """Measures functions in fresh processes."""
    return Measure()
