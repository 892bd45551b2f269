"""Options of ``ellwand.bench`` and ``ellwand.compare``, what their results say, and the verdicts of the pytest fixture."""

import os

import numpy as np
import pytest

import ellwand
from ellwand import _record
from ellwand.pytest_plugin import Verdict

X = np.random.default_rng(0).random(20_000)


def once(x):
    return np.sqrt(x)


def first(x):
    return float(x[0])


def doubled(x):
    return 2 * x


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system does not show peak memory")
@pytest.mark.parametrize("isolated", [True, False])
def test_peak_memory_is_without_the_copies_of_the_arguments(isolated):
    x = np.ones(4_000_000)
    peaks = [ellwand.bench(each, x, isolated=isolated).readings["peak-memory"] for each in (first, doubled)]
    assert peaks[0] < 16e6 and 24e6 < peaks[1] < 48e6, peaks


def line(**samples):
    return {
        "kind": "measurement", "case": {"id": "c"}, "implementation": "f", "device": "cpu",
        "samples": {"iterations": [4, 4], "wall_ns": [8, 12], **samples},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("basis", "columns", "ns", "clock"),
    [
        ("wall", {}, [2, 3], "elapsed time"),
        (None, {"device_ns": [4, None]}, [1, 3], "device time"),
        ("cpu", {"cpu_ns": [4, None]}, [1, 3], "CPU time"),
        ("fastest", {"parts": [2, 2], "fastest_ns": [3, 5]}, [1.5, 2.5], "elapsed time"),
        ("fastest", {}, [2, 3], "elapsed time"),
    ],
)
def test_samples_are_on_the_clock_of_the_median(basis, columns, ns, clock):
    row = {"case": "c", "implementation": "f", "device": "cpu", "basis": basis}
    samples, name = _record._samples([line(**columns)], row)
    assert (samples * 1e9).tolist() == pytest.approx(ns) and name == clock


def test_a_measurement_names_its_clock():
    found = ellwand.bench(once, X)
    assert found.clock in repr(found) and found.clock in ("elapsed time", "CPU time")


def comparison(verdict, low, high):
    return Verdict(ellwand.Comparison("a", "b", verdict, 1.0, low, high, 0.01, (1.0, 1.0), 2, 1.0))


def test_a_comparison_that_excludes_no_slow_down_fails_a_test():
    for verdict, high in (("faster", 0.9), ("same", 1.005), ("undecided", 1.05)):
        assert comparison(verdict, 0.8, high).is_not_slower()
    comparison("undecided", 0.1, 1.4).is_not_slower(by=0.5)
    for verdict, high, why in [
        ("undecided", 20.0, "a slow-down by more than 0.1 is not excluded"),
        ("undecided", None, "not shown"),
        ("suggests", 1.0, "not shown"),
        ("withheld", 1.0, "not shown"),
        ("slower", 1.3, "slower: b takes"),
    ]:
        with pytest.raises(pytest.fail.Exception, match=why):
            comparison(verdict, 0.1, high).is_not_slower()
