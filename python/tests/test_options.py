"""Options of ``ellwand.bench`` and ``ellwand.compare``, the text of their results, and the verdicts of the pytest fixture."""

import os
import re
import sys
import time
import types

import numpy as np
import pytest

import ellwand
from ellwand import _measure, _record
from ellwand.pytest_plugin import Budget, Verdict

X = np.random.default_rng(0).random(20_000)


def once(x):
    return np.sqrt(x)


def raises(x):
    raise ValueError("no luck")


def changes(x):
    x += 1
    return x


def sorts_once(x):
    assert x[0] == X[0], "sorted already"
    x.sort()


def halves(x):
    x /= 2


def numbers(n):
    return iter(range(n)), n - 1


def uses_up(numbers, last):
    next(numbers)
    assert list(numbers)[-1] == last


def once_more(x):
    return x


def draws():
    return np.random.default_rng().random(10)


def naps():
    time.sleep(0.1)


def has_threads(expected):
    assert [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS")] == [expected] * 2


def first(x):
    return float(x[0])


def doubled(x):
    return 2 * x


def doubled_twice(x):
    y = 2 * x
    return 2 * y


def halved(x):
    return x / 2


@pytest.mark.parametrize("isolated", [True, False])
def test_setup_makes_the_arguments_of_each_call(isolated):
    assert ellwand.bench(sorts_once, X, setup=np.copy, isolated=isolated).ok
    assert ellwand.bench(uses_up, n=1000, setup=numbers, isolated=isolated).ok
    with pytest.raises(ellwand.EllwandError, match="uses_up: failed.*StopIteration"):
        ellwand.bench(uses_up, iter(range(1000)), 999, isolated=False)


def test_what_a_function_left_in_its_arguments_is_its_result():
    assert ellwand.compare(np.sort, sorts_once, X, setup=np.copy, blocks=2).verdict != "none"
    with pytest.raises(ellwand.EllwandError, match="wrong"):
        ellwand.compare(np.sort, halves, X, setup=np.copy, blocks=2)


def test_a_setup_that_makes_nothing_new_or_raises_is_an_error():
    with pytest.raises(ellwand.EllwandError, match="changed its argument 0"):
        ellwand.bench(changes, X, setup=once_more)
    with pytest.raises(ellwand.EllwandError, match="ValueError: no luck"):
        ellwand.bench(changes, X, setup=raises)


def test_results_that_differ_by_design_are_not_checked_and_every_output_says_so():
    with pytest.raises(ellwand.EllwandError, match="wrong.*check=False"):
        ellwand.bench(draws)
    with pytest.raises(ellwand.EllwandError, match="wrong.*check=False"):
        ellwand.compare(draws, draws, blocks=2)
    assert "setup=.., or pass inplace=True" in _measure._advice("wrong", (), {})
    found = ellwand.bench(draws, check=False)
    for text in (repr(found), found._repr_html_(), found.what_ran, repr(ellwand.bench(changes, X, inplace=True))):
        assert "not checked" in text
    both = ellwand.compare(draws, draws, check=False, blocks=2)
    assert "not checked" in repr(both) and "not checked" in both._repr_html_()
    assert "not checked" not in repr(ellwand.bench(once, X))
    with pytest.raises(ellwand.EllwandError, match="changed its argument 0"):
        ellwand.bench(changes, X, check=False)


def test_a_step_of_training_names_what_it_changes(monkeypatch):
    # PyTorch itself would stay imported, which changes the threads of later tests.
    linear, sgd = type("Linear", (), {}), type("SGD", (), {})
    torch = types.SimpleNamespace(nn=types.SimpleNamespace(Module=linear), optim=types.SimpleNamespace(Optimizer=sgd))
    monkeypatch.setitem(sys.modules, "torch", torch)
    advice = _measure._advice("wrong", (linear(),), {"optimizer": sgd(), "x": 1.0})
    assert advice.startswith("; a call that trains changes Linear and SGD: make these")


def test_the_pools_of_a_worker_have_the_threads_of_the_function():
    assert ellwand.bench(has_threads, "1").ok and ellwand.bench(has_threads, "3", threads=3).ok
    assert ellwand.compare(has_threads, has_threads, "1", blocks=2).verdict != "none"


@pytest.mark.parametrize("isolated", [True, False])
def test_a_time_bounds_how_often_a_slow_function_is_called(isolated):
    few, usual = (ellwand.bench(naps, isolated=isolated, time=most).samples for most in (0.4, None))
    assert len(few) <= len(usual)


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system does not show peak memory")
@pytest.mark.parametrize("isolated", [True, False])
def test_peak_memory_is_without_the_copies_of_the_arguments(isolated):
    x = np.ones(4_000_000)
    peaks = [ellwand.bench(each, x, isolated=isolated).readings["peak-memory"] for each in (first, doubled)]
    assert peaks[0] < 16e6 and 24e6 < peaks[1] < 48e6, peaks


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system does not show peak memory")
def test_working_memory_is_what_the_result_does_not_hold():
    x = np.ones(4_000_000, np.float32)
    working = [ellwand.bench(each, x).readings["peak-working-memory"] for each in (doubled, doubled_twice)]
    assert working[0] < 8e6 < working[1] < 24e6, working


def nearly(x):
    return np.sqrt(x).astype(np.float32) * 1e-3


def as_nearly(x):
    return (np.sqrt(x) * (1e-3 + 4e-8)).astype(np.float32)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_small_difference_is_refused_with_the_tolerance_that_accepts_it(isolated):
    with pytest.raises(ellwand.EllwandError, match="wrong.*the difference is small: ") as refused:
        ellwand.compare(nearly, as_nearly, X, isolated=isolated)
    tolerance = re.search(r": tolerance=\((\S+), (\S+)\) accepts it; if calls change", str(refused.value))
    assert tolerance.groups() == ("5e-8", "1e-5")
    given = tuple(map(float, tolerance.groups()))
    assert ellwand.compare(nearly, as_nearly, X, tolerance=given, blocks=2, isolated=isolated).ratio
    for large in ("difference 1.10e-3, largest |reference| 1.00e0)", "difference 0.00e0, largest |reference| 1.00e0)", ""):
        assert _measure.accepting(f"allowed 1e-8 + 1e-5 |reference| (largest {large}") is None


def test_results_in_two_precisions_are_compared():
    for functions in ((np.float32, np.float64), (np.float64, np.float32)):
        assert ellwand.compare(*functions, X[0], blocks=2).verdict != "none"
    with pytest.raises(ellwand.EllwandError, match="wrong"):
        ellwand.compare(np.float32, halved, X[0], blocks=2)


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
    assert f"{found._time()} {found.clock}" in found._repr_html_()
    assert found.clock in repr(found) and found.clock in ("elapsed time", "CPU time")


def test_an_upper_bound_is_called_one_everywhere():
    row = {
        "case": "c", "implementation": "f", "device": "cpu", "basis": "wall", "params": {}, "what_ran": "", "first_run_s": None,
        "prepare_s": None, "status": {"word": "measured", "reason": None}, "metrics": {"time": {"median": 2e-9, "low": 1e-9, "high": 3e-9}},
        "held_up": {"busy": 0.5, "could_use": 2.0, "least_s": 1e-9},
    }  # fmt: skip
    report = {"workloads": [{"rows": [row, {**row, "held_up": None}]}]}
    record = _record.Record(None, report, [])
    held, free = record
    assert held.held_up == "held up (0.50 of 2 CPUs)" and free.held_up is None
    assert "at most 2 ns" in repr(held) and "held up (0.50 of 2 CPUs)" in repr(held) and "at most" not in repr(free)
    assert "at most 2 ns" in held._repr_html_() and held.held_up in held._repr_html_() and "at most 2 ns" in record._repr_html_()
    assert [row["held_up"] for row in record.rows()] == [held.held_up, None]


def test_a_limit_that_is_none_is_refused():
    found = Budget(None, lambda: 1.0)
    for wrong in (float("nan"), float("inf"), -1.0, "5ms", None, True):
        with pytest.raises(ellwand.EllwandError, match="takes_at_most: .* is not a limit; expected seconds"):
            found.takes_at_most(wrong)
        with pytest.raises(ellwand.EllwandError, match="needs_at_most: .* is not a limit; expected megabytes"):
            found.needs_at_most(wrong)
    assert found.needs_at_most(np.float32(2)) is found


def comparison(verdict, low, high):
    return Verdict(ellwand.Comparison("a", "b", verdict, 1.0, low, high, 0.01, (1.0, 1.0), 2, 1.0))


@pytest.mark.parametrize("unsettled", [None, "p90"])
def test_an_undecided_comparison_says_what_is_excluded(unsettled):
    row = {"verdict": "undecided", "unsettled": unsettled, "excluded": "no difference above 2.1 %, at 99 %", "blocks": [1] * 6}
    row |= {"ratio": 1.0, "low": 0.99, "high": 1.02, "rope": 0.01, "seconds": [1e-3, 1e-3], "elapsed_s": 4.0, "ended": "its time was up"}
    call = types.SimpleNamespace(names=["a", "b"], notes=tuple)
    assert str(_measure._comparison(row, call, None).reason).startswith("no difference above 2.1 %, at 99 %; ")


def test_a_comparison_that_excludes_no_slow_down_fails_a_test():
    for verdict, high in (("faster", 0.9), ("same", 1.005), ("undecided", 1.05)):
        assert comparison(verdict, 0.8, high).is_not_slower()
    comparison("undecided", 0.1, 1.4).is_not_slower(by=0.5)
    for verdict, high, why in [
        ("undecided", 20.0, "a slow-down by more than 0.1 is not excluded"),
        ("undecided", None, "no verdict"),
        ("suggests", 1.0, "no verdict"),
        ("withheld", 1.0, "no verdict"),
        ("slower", 1.3, "slower: b takes"),
    ]:
        with pytest.raises(pytest.fail.Exception, match=why):
            comparison(verdict, 0.1, high).is_not_slower()
