"""``ellwand.bench`` and ``ellwand.compare``."""

import copy
import functools
import importlib.util
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

import ellwand
from conftest import needs_torch
from ellwand import _arguments, _arrays, _measure
from ellwand._prepared import loop_of

X = np.random.default_rng(0).random(20_000)


def once(x):
    return np.sqrt(x)


def many(x):
    for _ in range(5):
        y = np.sqrt(x)
    return y


def wrong(x):
    return np.sqrt(x) + 1e-2


def raises(x):
    raise ValueError("no luck")


def leaves():
    os._exit(3)


def changes(x):
    x += 1
    return x


def sorts(xs):
    xs.sort()
    return xs


def inner(given):
    given["x"][0] += 1


def spectrum(x):
    return np.fft.rfft(x)


def another_spectrum(x):
    y = np.fft.rfft(x)
    y[-2] += 1
    return y


async def waits(x):
    return x


def yields(x):
    yield x


def objects(x):
    return np.array([1, "a", None], object)


def test_the_time_of_a_comparison_is_checked():
    with pytest.raises(ellwand.EllwandError, match="100ms"):
        ellwand.compare(once, many, X, time=0)


@pytest.mark.parametrize(
    ("option", "kind", "expected"),
    [
        *(({"threads": wrong}, TypeError, "an integer of at least 1") for wrong in (1.5, True)),
        *(({"threads": wrong}, ValueError, "an integer of at least 1") for wrong in (0, -1, "2")),
        *(({"tolerance": wrong}, TypeError, "absolute, relative") for wrong in (0, 1e-3, None, ("1", 0))),
        *(({"tolerance": wrong}, ValueError, "absolute, relative") for wrong in ((np.nan, 0), (-1, 0), (0, 0, 0), ())),
        ({"rope": None}, TypeError, "a share"),
        *(({"rope": wrong}, ValueError, "a share above 0 and up to 1") for wrong in ("x", -1, 0, 0.0, np.nan, 2)),
        *(({"blocks": wrong}, ValueError, "from 2 to 1000") for wrong in (0, 1)),
        ({"blocks": 2.0}, TypeError, "from 2 to 1000"),
        ({"time": 0}, ValueError, "seconds from 0.1"),
        ({"time": "20s"}, ValueError, "seconds from 0.1"),
        ({"isolated": "x"}, TypeError, "True, False or None"),
        ({"inplace": 1}, TypeError, "True nor False"),
        ({"check": 0}, TypeError, "True nor False"),
        ({"setup": 3}, TypeError, "returns the arguments"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(option, kind, expected):
    (name,) = option
    with pytest.raises(kind, match=f"^{name}: .*{expected}") as caught:
        ellwand.compare(once, once, X, **option)
    assert isinstance(caught.value, ellwand.EllwandError)
    if name not in ("rope", "blocks"):
        with pytest.raises(kind, match=f"^{name}: "):
            ellwand.bench(once, X, **option)


def test_options_may_be_numbers_of_numpy():
    found = ellwand.compare(once, once, X, rope=np.float32(0.5), blocks=np.int64(2), threads=np.int32(1), tolerance=[0, np.float64(0)])
    assert found.blocks == 2


def test_a_comparison_without_enough_time_says_how_much_it_needs():
    with pytest.raises(ellwand.EllwandError, match="no verdict: .*give it time="):
        ellwand.compare(once, many, X, time=0.1)


def test_errors_name_options_of_python(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    text = "give it --time 3min, or choose a smaller case; --time 1.5s, --time 2h"
    assert _measure._options(text).startswith("give it time=180, move slow imports")
    assert _measure._options(text).endswith("time=1.5, time=7200")
    monkeypatch.setitem(sys.modules, "torch", sys)
    expected = "give it time=180, because each process imports torch, which takes seconds, or choose a smaller case;"
    assert _measure._options(text).startswith(expected)


def test_no_advice_names_a_time_of_hours():
    text = "which take about 19 h; give it --time 23h, or choose a smaller case"
    assert _measure._options(text) == "which take about 19 h; that would take more than an hour, so choose a smaller case"


def test_an_undecided_comparison_says_what_would_decide_it():
    row = {"blocks": [1] * 6, "more_blocks": 94, "needed_s": 30.5, "elapsed_s": 4.0, "ended": "its time was up"}
    assert _measure._needed(row, 6) == "about 94 more blocks needed: blocks=100"
    assert _measure._needed(row, 25) == _measure._needed(row, None) == "its time was up; more time needed: time=37"
    paused = {**row, "needed_s": 1.0, "elapsed_s": 1.0, "given_s": 20.0}
    assert _measure._needed(paused, None) == "its time was up, although about 2 s would do: compare again"
    longer = _measure._needed({**row, "needed_s": 81_853.0}, None)
    assert longer == "its time was up; more than an hour would be needed: choose a larger rope= or a smaller case"
    assert _measure._needed({**row, "needed_s": None}, None) == "its time was up; more time would hardly decide it"


def test_ends_of_an_interval_that_say_nothing_are_no_numbers():
    seconds = (4e-3, 4e-3)
    wide = ellwand.Comparison("a", "b", "undecided", 0.997, 0.001, 669.963, 0.01, seconds, 2, 2.7)
    assert "interval below 0.00997 to above 99.7, 2 blocks" in repr(wide) and "below 0.00997 – above 99.7" in wide._repr_html_()
    close = ellwand.Comparison("a", "b", "faster", 0.5, 0.4, 0.6, 0.01, seconds, 8, 2.7)
    assert "interval 0.400 to 0.600, 8 blocks" in repr(close)


def test_a_measurement_has_a_time_an_interval_and_samples():
    found = ellwand.bench(once, X)
    assert found.ok and 0 < found.low <= found.seconds <= found.high
    assert len(found.samples) >= 3 and found.ms == found.seconds * 1e3
    assert repr(found).startswith("once: ") and "95 % interval" in repr(found)
    assert "<table>" in found._repr_html_()


def test_page_faults_of_each_call_are_named():
    measured = ellwand.Measurement("call", "f", {}, "measured", None, 2e-3, 1.9e-3, 2.1e-3, "cpu", "", None, None, {}, {"page-faults": 500.0})
    [note] = _measure._faults(measured)
    assert note.startswith("each call has 500 page faults") and "MALLOC_TRIM_THRESHOLD_" in note
    for few in (70.0, 0.0, None):
        assert _measure._faults(replace(measured, readings={"page-faults": few})) == []


def test_a_slower_function_is_shown_to_be_slower():
    found = ellwand.compare(once, many, X, time=60)
    assert found.slower and found.low > 2 and found.blocks >= 4, found
    assert repr(found).startswith("slower: many takes ") and "x the time of once" in repr(found)
    assert "slower" in found._repr_html_()


def test_the_opposite_is_faster():
    assert ellwand.compare(many, once, X, time=60).faster


def test_results_that_mix_arrays_of_a_framework_and_numbers_are_waited_for():
    class Later:
        ready = False

        def block_until_ready(self):
            self.ready = True

    first, second = Later(), Later()
    wait = _arrays.waiter({"y": first, "count": 1.0})
    wait({"y": second, "count": 2.0})
    assert second.ready and _arrays.waiter({"count": 1.0}) is None


def test_functions_that_disagree_get_no_verdict():
    with pytest.raises(ellwand.EllwandError, match="wrong"):
        ellwand.compare(once, wrong, X)


@pytest.mark.parametrize("empty", [[], {}, (), set(), "", [[], []], {"x": []}, np.zeros(0), np.zeros((0, 3)), np.array([], "U3")])
def test_empty_results_are_equal(empty):
    assert ellwand.bench(functools.partial(copy.copy, empty)).ok


def test_an_empty_result_equals_no_other():
    for other in ([0.0], [[]], {}, np.zeros((0, 3)), None):
        with pytest.raises(ellwand.EllwandError, match="wrong"):
            ellwand.compare(list, functools.partial(copy.copy, other), blocks=2)
    with pytest.raises(ellwand.EllwandError, match="wrong"):
        ellwand.compare(functools.partial(dict, a=1), functools.partial(dict, a=1, b=2), blocks=2)


def test_an_exception_is_an_error_with_the_traceback():
    with pytest.raises(ellwand.EllwandError, match="ValueError: no luck.*(\n.*)*in raises"):
        ellwand.bench(raises, X)


def test_a_function_that_ends_its_worker_is_an_error():
    with pytest.raises(ellwand.EllwandError, match="leaves: failed: .*exited with code 3"):
        ellwand.bench(leaves)


def test_a_function_that_ends_the_only_process_ends_the_program(script):
    body = """
import os, ellwand
def leaves():
    os._exit(3)
if __name__ == "__main__":
    print("begins", flush=True)
    ellwand.bench(leaves, isolated=False)
    print("goes on")
"""
    done = script(body, check=False)
    assert (done.code, done.out, done.err) == (3, "begins\n", "")


def test_a_function_that_changes_its_argument_must_say_so():
    with pytest.raises(ellwand.EllwandError, match="changed its argument 0.*inplace=True"):
        ellwand.bench(changes, X)
    assert ellwand.bench(changes, X, inplace=True).ok


def adds_a_row(frame):
    frame.loc[len(frame)] = 1.0


def doubles(frame):
    frame *= 2


def test_frames_of_pandas_that_change_are_noticed():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for change, value in [(adds_a_row, pandas.DataFrame({"a": [1.0, 2.0]})), (doubles, pandas.Series([1.0, 2.0]))]:
        with pytest.raises(ellwand.EllwandError, match="changed its argument 0"):
            ellwand.bench(change, value)
    lists = pandas.DataFrame({"a": [[1], [2]]})
    assert _arguments.frozen(lists) == _arguments.frozen(lists)
    assert _arguments.frozen(pandas.DataFrame({"a": [1]})) != _arguments.frozen(pandas.DataFrame({"b": [1]}))
    with pytest.raises(ellwand.EllwandError, match="sorts changed its argument xs"):
        ellwand.bench(sorts, xs=[3, 1, 2])
    with pytest.raises(ellwand.EllwandError, match="changed its argument 0"):
        ellwand.bench(inner, {"x": [X]})


def test_what_no_other_process_can_find_is_measured_here_with_a_warning():
    lock = __import__("threading").Lock()
    with pytest.warns(ellwand.InProcessWarning, match="cannot be pickled"):
        found = ellwand.bench(lambda x: (lock.locked(), x.sum())[1], X)
    assert found.ok
    advice = "leave out what" if importlib.util.find_spec("cloudpickle") else "pip install cloudpickle"
    with pytest.raises(ellwand.EllwandError, match=f"no other process can find it.*{advice}"):
        ellwand.bench(lambda x: lock.locked(), X, isolated=True)


def test_two_local_functions_give_a_hint_and_no_verdict():
    lock = __import__("threading").Lock()

    def one(x):
        return lock.locked() or np.sqrt(x)

    with pytest.warns(ellwand.InProcessWarning):
        found = ellwand.compare(one, one, X)
    assert found.verdict == "suggests" and found.blocks == 0 and "no verdict" in repr(found)


def test_complex_numbers_are_compared_one_by_one():
    assert ellwand.compare(spectrum, spectrum, X, blocks=2).verdict != "none"
    with pytest.raises(ellwand.EllwandError, match="wrong"):
        ellwand.compare(spectrum, another_spectrum, X, blocks=2)
    assert ellwand.bench(objects, X).ok


@needs_torch
def test_small_floats_are_compared_as_numbers():
    import torch

    from ellwand._call import flat

    ones = torch.ones(3, dtype=torch.bfloat16)
    assert flat(ones)["result"].tolist() == [1, 1, 1] and flat(2 * ones)["result"].tolist() == [2, 2, 2]


def test_work_that_has_not_run_is_refused():
    with pytest.raises(ellwand.EllwandError, match="waits returned a coroutine that has not run.*asyncio.run"):
        ellwand.bench(waits, X)
    with pytest.raises(ellwand.EllwandError, match="yields returned a generator that has not run"):
        ellwand.bench(yields, X)


def test_what_is_no_function_is_refused():
    with pytest.raises(ellwand.EllwandError, match="is not a function"):
        ellwand.bench(7)
    with pytest.raises(ellwand.EllwandError, match="effort"):
        ellwand.bench(once, X, effort="max")


def test_functions_that_return_nothing_and_built_in_ones_can_be_measured():
    assert ellwand.bench(len, [1, 2, 3]).ok
    assert ellwand.bench(np.sqrt, X).ok


def test_a_script_without_a_guard_measures_once(script):
    body = """
import numpy as np, ellwand
print("begins")
def f(x): return np.sqrt(x)
found = ellwand.bench(f, np.ones(1000))
print(found.ok, found.implementation)
"""
    assert script(body).out == "begins\nTrue f\n"


def test_a_script_without_a_guard_may_print_before_it_compares(script):
    body = """
import os, threading, ellwand
def f(): return 1
print("starting")
os.write(1, b"and more\\n")
threading.Timer(0.5, print, ["later"]).start()
print(ellwand.compare(f, f, blocks=2).verdict != "none")
"""
    assert sorted(script(body).out.split("\n")) == ["", "True", "and more", "later", "starting"]


def test_a_worker_has_the_arguments_and_the_names_of_the_call_that_asked_for_it(script):
    body = """
import sys, ellwand
sys.argv.append("given")
def f(expected): assert (N, sys.argv[1]) == (expected, "given")
N = 1
print(ellwand.bench(f, 1).ok)
N = 2
try:
    ellwand.bench(f, 1)
except ellwand.EllwandError:
    print("refused")
N = 3
def g(expected): f(expected)
print(ellwand.bench(g, 3).ok)
"""
    assert script(body).out == "True\nrefused\nTrue\n"


def test_a_worker_finds_a_measurement_by_its_place(script, tmp_path):
    body = """
import ellwand
def small(): return 1
def large(): return sum(range(10_000))
def go(f): return ellwand.bench(f)
if __name__ == "__main__":
    print(go(small).implementation)
    print(go(large).implementation)
first = go(large)
second = ellwand.bench(small)
with open("log", "a") as log: print(first.implementation, second.implementation, file=log)
if __name__ == "__main__":
    print(go(small).implementation)
"""
    assert script(body).out == "small\nlarge\nsmall\n"
    lines = set((tmp_path / "log").read_text().splitlines())
    assert lines == {"large small"}, "workers of the last measurement run it too"


def test_a_measurement_that_the_script_did_not_make_first_is_an_error(script):
    body = """
import ellwand
def f(): return 1
if __name__ != "__main__":
    ellwand.bench(f)
ellwand.bench(f)
"""
    done = script(body, check=False)
    assert "script.py:5: bench(f) was not measured in the script's first run" in done.err, done.err


def test_an_exception_that_a_script_caught_has_its_type_in_workers(script):
    body = """
import ellwand
def f(): return 1
for wrong in ({"rope": "x"}, {"blocks": object()}):
    try: ellwand.compare(f, f, **wrong)
    except (ValueError, TypeError): print("caught")
try: ellwand.bench()
except TypeError: print("caught")
print(ellwand.bench(f).ok)
"""
    assert script(body).out == "caught\ncaught\ncaught\nTrue\n"


def test_functions_of_a_prompt_travel_with_cloudpickle(run):
    pytest.importorskip("cloudpickle")
    body = "import ellwand\ndef f(x): return x + 1\nprint(ellwand.bench(f, 1, isolated=True).ok)"
    assert run("-c", body, command=[sys.executable]).out == "True\n"


def test_a_module_that_is_run_by_name_keeps_its_relative_imports(tmp_path, run):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/other.py").write_text("def double(x):\n    return 2 * x\n")
    body = "from .other import double\nimport ellwand\ndef f(): return double(4)\nif __name__ == '__main__':\n    print(ellwand.bench(f).ok)\n"
    (tmp_path / "pack/main.py").write_text(body)
    done = run("-m", "pack.main", command=[sys.executable])
    assert done.out == "True\n", done.err


def test_a_record_is_read_as_rows_arrays_and_text(loaded, tmp_path):
    loaded("")
    record = ellwand.read(tmp_path / "out")
    assert len(record) == 2 and record[0].workload == "total"
    row = record.rows()[0]
    assert row["n"] == 100 and row["seconds"] > 0
    assert "total" in record.text("markdown") and "numpy" in repr(record) and "<table>" in record._repr_html_()
    with pytest.raises(ellwand.EllwandError, match="unknown"):
        record.text("pdf")
    with pytest.raises(ellwand.EllwandError, match="no such record"):
        ellwand.read(tmp_path / "absent")


def test_a_record_as_a_frame(loaded, tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    loaded("")
    frame = ellwand.read(tmp_path / "out/record.jsonl").to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame["implementation"]) == ["reference", "numpy"]


def test_an_interrupt_ends_the_measurement_and_its_workers(script, tmp_path):
    body = """
import os, signal, threading, time, ellwand
def slow():
    time.sleep(0.2)
if __name__ == "__main__":
    threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        ellwand.bench(slow, effort="thorough")
    except KeyboardInterrupt:
        print("interrupted")
    try:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        ellwand.bench(slow, effort="thorough", isolated=False)
    except KeyboardInterrupt:
        print("again")
"""
    assert script(body).out == "interrupted\nagain\n"


_callers = set()


def seen(x, *, scale):
    _callers.add(sys._getframe(1).f_code.co_filename)
    return x * scale


def test_calls_are_made_by_a_compiled_loop():
    calls = []
    loop = loop_of(lambda x, *, scale: calls.append((x, scale)) or len(calls), (1,), {"scale": 2})
    assert loop(3) == 3 and calls == [(1, 2)] * 3
    assert loop_of(lambda **given: given, (), {"class": 1, "a b": 2})(2) == {"class": 1, "a b": 2}, "no names of Python"
    _callers.clear()
    ellwand.bench(seen, 2, scale=3, isolated=False)
    assert "<ellwand>" in _callers


def test_a_child_of_a_fork_leaves_the_loop():
    """Otherwise a function that forks would double its processes with each call."""
    calls, parent, (read, write) = [], os.getpid(), os.pipe()

    def step():
        calls.append(1)
        if len(calls) == 2 and (child := os.fork()):
            os.waitpid(child, 0)

    loop_of(step, (), {})(5)
    if os.getpid() != parent:
        os.write(write, str(len(calls)).encode())
        os._exit(0)
    assert len(calls) == 5 and os.read(read, 9) == b"2"
