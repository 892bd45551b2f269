"""The interfaces of existing scripts: the lab, the layer benchmark, pytest and notebooks."""

import dataclasses
import json
import os
import re

import numpy as np
import pytest
from conftest import needs_compiler, needs_jax, needs_torch

import ellwand
from ellwand import benchmarks, jupyter, lab


def test_a_function_is_called_as_often_as_asked():
    calls = []
    seconds = lab.benchmark_function(calls.append, (1,), warmup=3, iterations=5)
    assert len(calls) == 8 and seconds > 0
    with pytest.raises(ellwand.EllwandError, match="iterations: 0 is out of range"):
        lab.benchmark_function(calls.append, (1,), warmup=1, iterations=0)
    calls.clear()
    assert lab.benchmark_function(calls.append, (1,), warmup=0, iterations=2) > 0 and len(calls) == 2


def test_the_components_of_attention_print_as_a_table():
    profile = lab.profile_attention_components(64, 32, 4, framework="numpy", iterations=2)
    assert tuple(profile) == lab.COMPONENTS and all(ms > 0 for ms in profile.values())
    text = str(profile)
    assert text.startswith("Attention Component Profiling:\n" + "=" * 40) and "\nBottleneck: " in text
    assert f"{'Total':<20}" in text and "100.0%" in text and "Recommendation: " in text
    with pytest.raises(ellwand.EllwandError, match="num_heads: 4 does not divide d_model, 30"):
        lab.profile_attention_components(64, 30, 4)
    with pytest.raises(ellwand.EllwandError, match="iterations: 0 is out of range"):
        lab.profile_attention_components(64, 32, 4, framework="numpy", iterations=0)


def test_one_disturbed_round_does_not_choose_the_bottleneck(monkeypatch):
    calls = iter(range(1, 100))

    def timed(function, arrays, warmup, iterations):
        # The softmax of the second of three rounds meets a long interruption.
        return {8: 1.0}.get(next(calls), 0.001 if function is lab._components("numpy")[0]["softmax"] else 0.002)

    monkeypatch.setattr(lab, "benchmark_function", timed)
    profile = lab.profile_attention_components(64, 32, 4, framework="numpy", iterations=3)
    assert lab.identify_bottleneck(profile) != "Softmax" and max(profile.values()) < 3


def test_the_bottleneck_is_the_largest():
    found = lab.identify_bottleneck({"Softmax": 1.0, "Score Computation": 5.67, "Total": 6.67})
    assert found == "Score Computation" and found.share == pytest.approx(0.85, abs=0.01)
    assert found.recommendation == "Use Flash Attention" and found.bound == "unknown"
    with pytest.raises(ellwand.EllwandError, match="holds no times"):
        lab.identify_bottleneck({})
    with pytest.raises(ellwand.EllwandError, match="not all of its times are finite"):
        lab.identify_bottleneck({"Softmax": float("nan"), "Score Computation": 1.0})


def test_a_bottleneck_is_found_among_all_times():
    found = lab.identify_bottleneck({"a": 1.0, "b": np.float32(5), "c": np.array(2.0), "Total (ms)": 8.0})
    assert found == "b" and found.share == pytest.approx(5 / 8)
    assert lab.identify_bottleneck({"total loss": 2.0, "rest": 1.0}) == "total loss"
    for wrong, words in [({"a": "5"}, "the time of 'a' is '5'"), ({"a": None}, f"of 'a' is {None}"), ([1.0], "it is a list")]:
        with pytest.raises(ellwand.EllwandError, match=words):
            lab.identify_bottleneck(wrong)
    even = lab.AttentionProfile({"Softmax": 1.0, "Weighted Sum": 1.1, "Output Projection": 0.5})
    even.scatter = {"Softmax": (0.9, 1.2), "Weighted Sum": (1.0, 1.3), "Output Projection": (0.5, 0.5)}
    assert lab.identify_bottleneck(even).within_scatter_of == "Softmax"
    assert "Bottleneck: Weighted Sum (42.3%), within the scatter of Softmax" in str(even)
    even.scatter["Softmax"] = (0.9, 0.95)
    assert lab.identify_bottleneck(even).within_scatter_of is None and "scatter" not in str(even)
    idle = lab.AttentionProfile({"Softmax": 0.0, "Weighted Sum": 0.0})
    assert "0.0%" in str(idle) and "0.0%" in idle._repr_html_()


def test_peak_memory_sees_a_temporary():
    usage = lab.measure_memory_usage(lambda n: np.ones(n, np.uint8).sum(), (64 << 20,))
    assert usage > 50 and usage.source


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system does not show peak memory")
def test_peak_memory_is_without_the_work_of_the_first_call():
    starts = iter([64 << 20])

    def call():
        return np.ones(next(starts, 1), np.uint8).sum()

    usage = lab.measure_memory_usage(call)
    assert usage < 10 and usage.source == "the resident set of the process"
    starts = iter([64 << 20])
    usage = lab.measure_memory_usage(call, warmup=0)
    assert usage > 60 and usage.source.endswith("without a warm-up call")
    with pytest.raises(ellwand.EllwandError, match="warmup: -1 is out of range"):
        lab.measure_memory_usage(call, warmup=-1)


def test_peak_memory_sees_what_the_heap_could_serve_from_freed_memory():
    # glibc keeps blocks below 32 MiB once one of them was freed.
    usages = [lab.measure_memory_usage(np.ones, (3_500_000,)) for _ in range(4)]
    assert min(usages) > 25, usages


def test_peak_memory_is_without_what_looks_at_the_result():
    given = [0] * 5_000_000
    assert lab.measure_memory_usage(lambda each: each, (given,)) < 10, "a list of its elements has 40 MB"


@needs_jax
def test_the_lab_works_on_arrays_of_jax():
    import jax
    import jax.numpy as jnp

    profile = lab.profile_attention_components(32, 16, 2, framework="jax", iterations=2)
    assert profile.framework == "jax" and tuple(profile) == lab.COMPONENTS and profile.total > 0
    x = jnp.ones((64, 64))
    assert lab.benchmark_function(jax.jit(jnp.matmul), (x, x), warmup=1, iterations=2) > 0
    usage = lab.measure_memory_usage(lambda each: jnp.outer(each, each), (jnp.ones(4000),))
    assert usage > 50 and "resident set" in usage.source, "the CPU of JAX keeps no statistics"
    attention = lab.optimize_attention(x[None], x[None], x[None], 0)
    assert isinstance(attention, jax.Array)
    np.testing.assert_allclose(attention[0], x, rtol=1e-5)
    with pytest.raises(ellwand.EllwandError, match="need PyTorch tensors; Q is a jax"):
        lab.optimize_attention(x, x, x, 2)


class FakeJaxDevice:
    """A device that keeps statistics, whose peak never falls."""

    def __init__(self):
        self.used, self.peak = 5_000_000, 20_000_000

    def memory_stats(self):
        return {"bytes_in_use": self.used, "peak_bytes_in_use": self.peak}

    def compute(self, size):
        self.peak = max(self.peak, self.used + size)


class FakeJaxArray:
    def __init__(self, device):
        self.device = device

    def devices(self):
        return {self.device}

    def block_until_ready(self):
        return self


def test_memory_on_a_device_of_jax_is_that_of_its_allocator():
    device = FakeJaxDevice()
    array = FakeJaxArray(device)
    usage = lab.measure_memory_usage(lambda each: device.compute(30_000_000) or each, (array,))
    assert usage == 30.0 and usage.before_mb == 5.0 and usage.source == "the allocator of JAX"
    usage = lab.measure_memory_usage(lambda each: device.compute(1_000_000) or each, (array,))
    assert usage == 30.0 and "upper bound" in usage.source


@needs_torch
@pytest.mark.parametrize("level", [pytest.param(1, marks=needs_compiler), 2, 3])
def test_every_level_of_attention_gives_the_same(level):
    import torch

    q, k, v = torch.randn(3, 1, 2, 32, 16)
    want = lab.optimize_attention(q, k, v, 0)
    torch.testing.assert_close(lab.optimize_attention(q, k, v, level), want, rtol=1e-4, atol=1e-5)


@needs_torch
def test_an_unknown_level_is_refused():
    import torch

    q, k, v = torch.randn(3, 1, 2, 32, 16)
    with pytest.raises(ellwand.EllwandError, match="optimization_level"):
        lab.optimize_attention(q, k, v, 9)


def test_the_layer_benchmark_writes_the_rows_of_its_guide(tmp_path, capsys):
    file = tmp_path / "results.json"
    rows = benchmarks.run_comprehensive_benchmark(
        batch_sizes=[2],
        sequence_lengths=[8],
        tensor_dimensions=[16, 32],
        operations=["LayerNorm", "Loss"],
        output_file=file,
        implementations=["simd", "parallel"],
    )
    assert rows == json.loads(file.read_text()) and len(rows) == 2 * 2 * 3
    assert {row["operation"] for row in rows} == {"LayerNorm", "MSELoss", "CrossEntropyLoss"}
    assert {"implementation", "time_ms", "memory_mb", "inference_speed", "gpu_efficiency", "throughput_gbps"} <= set(rows[0])
    assert all(row["gpu_efficiency"] > 0 for row in rows), "a share of the ceilings of this machine"
    assert "LayerNorm" in capsys.readouterr().out
    with pytest.raises(ellwand.EllwandError, match="'Conv' is unknown"):
        benchmarks.run_comprehensive_benchmark(operations=["Conv"])
    with pytest.raises(ellwand.EllwandError, match="batch_sizes"):
        benchmarks.run_comprehensive_benchmark(batch_sizes=[0])
    with pytest.raises(ellwand.EllwandError, match="output_file: .*cannot be written"):
        benchmarks.run_comprehensive_benchmark(output_file=tmp_path / "absent" / "results.json")


SMALL = {"batch_sizes": [2], "sequence_lengths": [8], "tensor_dimensions": [16]}


def test_the_layer_benchmark_says_which_rows_have_no_time(tmp_path, capsys):
    file = tmp_path / "results.json"
    options = {**SMALL, "operations": ["LayerNorm"], "output_file": file}
    rows = benchmarks.run_comprehensive_benchmark(implementations=["simd", "cupy"], **options)
    missing = next(row for row in rows if row["implementation"] == "cupy")
    assert rows == json.loads(file.read_text()) and len(rows) == 2
    assert missing["time_ms"] is None and missing["status"] == "unsupported" and missing["tensor_dimension"] == 16
    assert f"unsupported: {missing['reason']}" in capsys.readouterr().out
    with pytest.raises(ellwand.EllwandError, match="no row has a time; the first one is unsupported: "):
        benchmarks.run_comprehensive_benchmark(implementations=["cupy"], **options)


@needs_torch
def test_memory_of_a_row_is_what_its_implementation_states(capfd):
    options = {**SMALL, "operations": ["GELU"], "output_file": None, "rtol": 1e-3, "atol": 1e-3}
    (alone,) = benchmarks.run_comprehensive_benchmark(implementations=["simd"], **options)
    beside, torch = benchmarks.run_comprehensive_benchmark(implementations=["simd", "torch"], **options)
    assert alone["memory_mb"] == beside["memory_mb"] > 0 and torch["memory_mb"] is None
    captured = capfd.readouterr()
    assert "written to" not in captured.err + captured.out
    with pytest.raises(ellwand.EllwandError, match="the first one is wrong: .*allowed 0e0"):
        benchmarks.run_comprehensive_benchmark(implementations=["simd"], **{**options, "rtol": 0.0, "atol": 0.0})


def test_an_interrupted_layer_benchmark_keeps_its_rows(tmp_path, capsys, monkeypatch):
    ended, calls = benchmarks.ended, []

    def interrupted(command, **options):
        calls.append(command)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return ended(command, **options)

    monkeypatch.setattr(benchmarks, "ended", interrupted)
    file = tmp_path / "results.json"
    with pytest.raises(KeyboardInterrupt):
        benchmarks.run_comprehensive_benchmark(output_file=file, implementations=["simd"], **SMALL)
    assert [row["operation"] for row in json.loads(file.read_text())] == ["LayerNorm"]
    assert "LayerNorm" in capsys.readouterr().out


@pytest.mark.parametrize(("given", "expected"), [({}, ["2e-6", "1e-6"]), ({"atol": 1e-3}, ["0.001"])])
def test_the_tolerance_of_gelu_allows_for_the_error_of_pytorch(monkeypatch, given, expected):
    def ended(command, **_options):
        assert [command[i + 1] for i, word in enumerate(command) if word in ("--atol", "--rtol")] == expected
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmarks, "ended", ended)
    with pytest.raises(KeyboardInterrupt):
        benchmarks.run_comprehensive_benchmark(operations=["GELU"], output_file=None, implementations=["simd"], **SMALL, **given)


@needs_torch
def test_the_layer_benchmark_has_a_time_of_the_gelu_of_pytorch():
    shape = {"batch_sizes": [16], "sequence_lengths": [256], "tensor_dimensions": [32]}
    (row,) = benchmarks.run_comprehensive_benchmark(operations=["GELU"], output_file=None, implementations=["PyTorch"], **shape)
    assert row["implementation"] == "PyTorch" and row["time_ms"] > 0


def test_names_of_rows_are_accepted_and_other_types_refused():
    given = {**SMALL, "operations": ["Swish"], "output_file": None}
    rows = benchmarks.run_comprehensive_benchmark(implementations=["Ellwand (1 thread)", "ellwand"], **given)
    assert {row["implementation"] for row in rows} == {"Ellwand (1 thread)", "Ellwand"}
    for wrong in ("simd", [1]):
        with pytest.raises(ellwand.EllwandError, match="implementations: .* is not a list of names"):
            benchmarks.run_comprehensive_benchmark(implementations=wrong, **given)


def test_a_wrong_row_names_the_tolerance_that_accepts_it():
    why = "output y[3] is 1e0, the reference 2e0, allowed 1e-6 + 1e-6 |reference| (largest difference {}, largest |reference| 3.00e0)"
    params = dict.fromkeys(("batch", "sequence", "dimension"), 1)
    row = ellwand.Measurement("gelu", "torch", params, "wrong", why.format("1.04e-6"), *[None] * 3, "cpu", "", None, None, {}, {})
    assert benchmarks._missing(row)["reason"].endswith("; the difference is small: atol=2e-6, rtol=1e-6 accept it")
    far = dataclasses.replace(row, reason=why.format("1.00e0"))
    assert benchmarks._missing(far)["reason"] == far.reason


def test_an_upper_bound_is_printed_as_one(capsys):
    row = dict.fromkeys(("memory_mb", "inference_speed", "gpu_efficiency", "batch_size", "sequence_length", "tensor_dimension"))
    benchmarks._print([{**row, "operation": "GELU", "implementation": "a", "time_ms": 1.5, "held_up": "held up"}])
    assert "<= 1.5000" in capsys.readouterr().out


def test_the_fixture_holds_budgets(tmp_path, script):
    import subprocess
    import sys

    (tmp_path / "work.py").write_text(
        """
def quick():
    return sum(range(100))

def long(times=20):
    return [sum(range(100)) for _ in range(times)][0]

def big(*, megabytes=80):
    return len(b"x" * (megabytes << 20))
"""
    )
    (tmp_path / "test_it.py").write_text(
        """
import work

def test_passes(measure):
    measure(work.quick).takes_at_most(10.0).needs_at_most(1000)

def test_time(measure):
    measure(work.quick).takes_at_most(1e-9)

def test_memory(measure):
    measure(work.big).needs_at_most(20)

def test_keywords_reach_the_function_and_options_do_not(measure):
    measure(work.big, megabytes=1, effort="quick", threads=1).takes_at_most(10.0).needs_at_most(20)

def test_keywords_count_for_memory(measure):
    measure(work.big, megabytes=40, inplace=True).needs_at_most(20)

def test_setup_makes_the_arguments_for_memory_too(measure):
    measure(len, 3, setup=range).needs_at_most(1000)

def test_faster(measure):
    measure.compare(work.long, work.quick, time=60).is_not_slower().is_faster()

def test_slower(measure):
    measure.compare(work.quick, work.long, time=60).is_not_slower()
"""
    )
    # In CI, pytest repeats each message in its summary.
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "ellwand.pytest_plugin", "test_it.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "4 failed, 4 passed" in done.stdout, done.stdout
    assert "takes longer than" in done.stdout and done.stdout.count("above the limit of 20 MB") == 2, done.stdout
    # With other programs running, copies of the baseline may differ; the verdict then reports that.
    assert re.search("^slower(-beside)?: long takes ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("inside", ["tests", "tests/deep"])
def test_functions_of_a_test_that_cannot_be_imported_travel_by_value(tmp_path, inside):
    pytest.importorskip("cloudpickle")
    import subprocess
    import sys

    (tmp_path / inside).mkdir(parents=True)
    (tmp_path / inside / "test_it.py").write_text(
        """
import numpy as np

class Kept:
    def __init__(self, x):
        self.x = x

def work(kept):
    return Kept(np.sqrt(kept.x)).x

def test_it(measure):
    measure(work, Kept(np.ones(9))).takes_at_most(10.0)
"""
    )
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "ellwand.pytest_plugin", "-W", "error", "--import-mode=importlib"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=env)
    assert "1 passed" in done.stdout, done.stdout


def test_a_cell_is_measured_with_the_names_of_the_notebook():
    IPython = pytest.importorskip("IPython", reason="IPython is not installed")
    shell = IPython.core.interactiveshell.InteractiveShell.instance()
    shell.run_line_magic("load_ext", "ellwand")
    shell.user_ns["numbers"] = list(range(50))
    found = shell.run_cell_magic("ellwand", "quick", "total = sum(numbers)")
    assert found.ok and "<table>" in found._repr_html_()
    # As under %%timeit: assignments are local to the function.
    shell.user_ns["n"] = 5
    found = shell.run_cell_magic("ellwand", "quick", "m = n\nfor _ in range(9):\n    m += 1")
    assert found.ok and shell.user_ns["n"] == 5 and not {"m", "total", "cell"} & set(shell.user_ns)
    with pytest.raises(ellwand.EllwandError, match="its run raised UnboundLocalError"):
        jupyter.measure_cell("", "n += 1", shell.user_ns)
    for cell in ("!ls", "x = !ls", "a = 1\n%time a"):
        with pytest.raises(ellwand.EllwandError, match="a magic .* cannot be measured"):
            jupyter.measure_cell("", cell, shell.user_ns)
    with pytest.raises(ellwand.EllwandError, match="nothing to measure"):
        jupyter.measure_cell("", "# nothing", shell.user_ns)
    with pytest.raises(ellwand.EllwandError, match="expected one of quick, normal, thorough"):
        jupyter.measure_cell("thorogh", "total = 1", shell.user_ns)
