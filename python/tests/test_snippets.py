"""The calls that existing scripts make, one test per snippet: they run unchanged except for the import line.

docs/seeds.md and docs/python.md map the scripts; this file has the same signatures, field names and access patterns.
"""

import dataclasses
import inspect
import json
import math
import random
import time

import numpy as np
import pytest
from conftest import needs_compiler, needs_jax, needs_torch

from ellwand.benchmarks import run_comprehensive_benchmark
from ellwand.lab import (
    benchmark_function,
    identify_bottleneck,
    measure_memory_usage,
    optimize_attention,
    profile_attention_components,
)
from ellwand.profiler import GPUProfiler, ProfileEntry, ProfileSummary, get_profiler

# The profiler.

TIMES = ["duration_ms", "gpu_time_ms", "cpu_time_ms", "transfer_time_ms", "overhead_ms"]
MEMORY = ["memory_allocated_mb", "memory_peak_mb", "gpu_utilization", "memory_bandwidth_gb_s"]


def test_fields_of_an_entry_are_positional_with_defaults():
    entry = ProfileEntry("matmul", 1.0, 1.5, 500.0, "cpu", "cpu")
    assert entry.operation == "matmul" and entry.end_time - entry.start_time == 0.5
    assert [getattr(entry, name) for name in TIMES[1:] + MEMORY] == [0.0] * 8
    given = {"operation", "start_time", "end_time", "device", "backend", *TIMES, *MEMORY}
    # Ellwand's own, after those of the script.
    work = ["bytes", "items", "flops", "start_ns", "memory_resident_mb"]
    assert set(dataclasses.asdict(entry)) == {*given, *work} and [getattr(entry, name) for name in work] == [0] * 5
    assert list(dataclasses.asdict(entry))[-5:] == work


def test_fields_of_a_summary_are_positional_with_defaults():
    summary = ProfileSummary("matmul", 3, 67.3, 22.4, 20.1, 25.1, 2.5)
    assert (summary.call_count, summary.total_time_ms, summary.avg_time_ms) == (3, 67.3, 22.4)
    assert (summary.min_time_ms, summary.max_time_ms, summary.std_dev_ms) == (20.1, 25.1, 2.5)
    more = ["total_gpu_time_ms", "total_cpu_time_ms", "avg_memory_mb", "avg_gpu_utilization"]
    assert [getattr(summary, name) for name in more] == [0.0] * 4


def test_the_context_manager():
    profiler = GPUProfiler(enabled=True)
    with profiler.profile("step", device="gpu", size=1024):
        total = sum(range(1000))
    (entry,) = profiler.entries
    assert total == 499500 and (entry.operation, entry.device) == ("step", "gpu")
    assert entry.backend in ("pytorch", "cupy", "unavailable") and entry.duration_ms > 0


def test_the_decorator():
    profiler = GPUProfiler(enabled=True)

    @profiler.profile_function(operation="doubled", device="gpu")
    def double(x):
        return x * 2

    assert [double(x) for x in (5, 0, 1, 2, 3)] == [10, 0, 2, 4, 6]
    assert profiler.get_summary()["doubled"].call_count == 5


def test_statistics_and_bottlenecks(capsys):
    profiler = GPUProfiler(enabled=True, device_id=0)
    for operation, seconds in [("search", 0.02), ("multiply", 0.002), ("multiply", 0.002), ("xor", 0.0)]:
        with profiler.profile(operation, device="cpu"):
            time.sleep(seconds)
    summary = profiler.get_summary()
    for op, stats in summary.items():
        print(f"{op}: {stats.avg_time_ms:.2f}ms avg, {stats.call_count} calls")
    bottlenecks = profiler.get_bottlenecks(top_n=2)
    assert [each.operation for each in bottlenecks] == ["search", "multiply"] and summary["multiply"].call_count == 2
    profiler.print_summary()
    profiler.print_bottlenecks()
    profiler.print_bottlenecks(top_n=1)
    printed = capsys.readouterr().out
    assert "ms avg, 2 calls" in printed and printed.count("[1] search") == 2 and "[3] xor" in printed


def test_the_export(tmp_path):
    profiler = GPUProfiler()
    for _ in range(3):
        with profiler.profile("op", device="cpu"):
            pass
    profiler.export_json(str(tmp_path / "profiling_data.json"))
    rows = json.loads((tmp_path / "profiling_data.json").read_text())["gpu_profiler"]
    assert set(rows["summary"]) == {"op"} and len(profiler.entries) == 3
    assert set(vars(profiler.entries[0])) == {field.name for field in dataclasses.fields(ProfileEntry)}
    assert set(rows["summary"]["op"]) == {field.name for field in dataclasses.fields(ProfileSummary)}


def test_the_singleton_and_the_sampling_of_requests(tmp_path):
    profiler = get_profiler()
    assert get_profiler() is profiler
    rng, kept = random.Random(1), 0
    for request in range(300):
        if rng.random() < 0.01:
            profiler = get_profiler(enabled=True)
            kept += 1
        else:
            profiler = get_profiler(enabled=False)
        with profiler.profile(f"sampled {request}", device="cpu"):
            pass
    names = [name for name in profiler.get_summary() if name.startswith("sampled ")]
    assert 0 < kept == len(names) < 10
    profiler.export_json(tmp_path / "request.json")
    get_profiler(enabled=True)


@needs_torch
def test_a_span_around_a_product_of_pytorch():
    import torch

    a = b = torch.randn(64, 64)
    profiler = GPUProfiler(enabled=True, device_id=0)
    with profiler.profile("matrix_multiply", device="gpu", size=64):
        torch.mm(a, b)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    assert profiler.get_summary()["matrix_multiply"].total_time_ms > 0


# The benchmark of layer operations.


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    file = tmp_path_factory.mktemp("layers") / "my_results.json"
    results = run_comprehensive_benchmark(
        batch_sizes=[1, 2],
        sequence_lengths=[8, 16],
        tensor_dimensions=[32, 64],
        operations=["LayerNorm", "GELU", "Swish", "Loss"],
        output_file=str(file),
        implementations=["simd"],
    )
    assert json.loads(file.read_text()) == results
    return results


def test_the_defaults_are_those_of_the_script():
    defaults = {name: each.default for name, each in inspect.signature(run_comprehensive_benchmark).parameters.items()}
    assert defaults["operations"] == ("LayerNorm", "GELU", "Swish", "Loss")
    assert defaults["output_file"] == "benchmark_results.json" and 512 in defaults["sequence_lengths"]


def test_one_configuration_with_the_implementations_that_are_installed(tmp_path):
    results = run_comprehensive_benchmark(
        batch_sizes=[4],
        sequence_lengths=[16],
        tensor_dimensions=[32],
        operations=["LayerNorm"],
        output_file=str(tmp_path / "specific_test.json"),
    )
    from importlib.util import find_spec

    expected = {"Ellwand", *(["PyTorch"] if find_spec("torch") else []), *(["JAX"] if find_spec("jax") else [])}
    assert {row["implementation"] for row in results} == expected
    fastest = min(results, key=lambda row: row["time_ms"])
    print(f"Fastest: {fastest['implementation']} ({fastest['time_ms']:.3f} ms)")


def test_every_row_has_every_field(rows):
    kinds = {"operation": str, "implementation": str, "batch_size": int, "sequence_length": int, "tensor_dimension": int}
    numbers = ["time_ms", "memory_mb", "inference_speed", "gpu_efficiency", "throughput_gbps"]
    for row in rows:
        assert all(isinstance(row[name], kind) for name, kind in kinds.items())
        assert all(isinstance(row[name], float) and row[name] >= 0 for name in numbers), row
        assert math.isclose(row["inference_speed"], 1000 / row["time_ms"], rel_tol=1e-6)


def test_rows_are_filtered_by_operation_and_implementation(rows):
    layer_norm = [r for r in rows if r["operation"] == "LayerNorm"]
    for name in {r["implementation"] for r in layer_norm}:
        of_it = [r for r in layer_norm if r["implementation"] == name]
        assert sum(r["time_ms"] for r in of_it) / len(of_it) > 0
    assert len(layer_norm) == 8 and len(rows) == 5 * 8, "two losses"


@pytest.mark.parametrize(
    ("axis", "values"), [("batch_size", (1, 2)), ("sequence_length", (8, 16)), ("tensor_dimension", (32, 64))]
)
def test_rows_are_filtered_by_each_axis(rows, axis, values):
    first, second = ([r for r in rows if r[axis] == value] for value in values)
    assert len(first) == len(second) == 20 and first[0][axis] == values[0]


@needs_torch
def test_a_kernel_inside_the_profiler_of_pytorch():
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    from ellwand import nn

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as prof:
        with record_function("layernorm"):
            result = nn.layer_norm(torch.randn(8, 16), torch.ones(16), torch.zeros(16))
    assert result.shape == (8, 16) and "layernorm" in prof.key_averages().table(sort_by="cpu_time_total")


# The lab.


def test_timing_a_function():
    calls = []
    assert benchmark_function(calls.append, (1,), 10, 100) > 0 and len(calls) == 110
    assert benchmark_function(fn=np.sqrt, args=(np.ones(10),), warmup=1, iterations=2) > 0


def test_the_report_of_the_components(capsys):
    results = profile_attention_components(seq_len=32, d_model=64, num_heads=4)
    print(results)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Attention Component Profiling:", "=" * 40] and lines[2].split() == ["Component", "Time", "(ms)", "%", "Total"]
    rows = ["QKV Projection", "Score Computation", "Softmax", "Weighted Sum", "Output Projection"]
    assert [line[:20].strip() for line in lines[4:9]] == rows == list(results)
    bottleneck = identify_bottleneck(results)
    assert lines[-2].startswith(f"Bottleneck: {bottleneck} (") and lines[-1].startswith("Recommendation: ")
    assert bottleneck.bound in ("memory", "compute") and results[bottleneck] == max(results.values())


@needs_torch
@pytest.mark.parametrize("optimization_level", [0, pytest.param(1, marks=needs_compiler), 2, 3])
def test_attention_at_a_level(optimization_level):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    Q, K, V = torch.randn(3, 2, 2, 16, 8)
    seconds = benchmark_function(optimize_attention, (Q, K, V, optimization_level), 1, 2)
    got = optimize_attention(Q, K, V, optimization_level=optimization_level)
    torch.testing.assert_close(got, scaled_dot_product_attention(Q, K, V), rtol=1e-4, atol=1e-5)
    assert seconds > 0


def test_peak_memory():
    peak = measure_memory_usage(np.ones, (5_000_000,))
    assert 30 < peak < 1000 and f"{peak:.1f} MB"


@needs_torch
@needs_compiler
def test_a_compiled_model_under_autocast_with_checkpoints():
    import torch
    from torch.utils.checkpoint import checkpoint

    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU())
    x = torch.randn(4, 16, requires_grad=True)
    assert benchmark_function(torch.compile(model), (x,), 1, 3) > 0
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        assert benchmark_function(model, (x,), 1, 3) > 0
    assert benchmark_function(lambda each: checkpoint(model, each, use_reentrant=False).sum().backward(), (x,), 1, 3) > 0


# The clusterless decoder.


@pytest.fixture(scope="module")
def decoder():
    from ellwand.kde import ClusterlessDecoder

    rng = np.random.default_rng(0)
    at = np.linspace(0, 10, 100)
    spikes = [np.sort(rng.random(30)) * 10 for _ in range(4)]
    marks = [rng.standard_normal((30, 4)) * 50 for _ in spikes]
    made = ClusterlessDecoder(at, np.abs(at - 5)[:, None] * 20, np.arange(0.0, 100.0, 2.0), spikes, marks, waveform_std=24.0)
    return made, (np.linspace(0, 10, 40), spikes, marks)


@pytest.mark.parametrize("options", [{"block_size": 50}, {"block_size": 200}, {"pos_tile_size": 500}, {"pos_tile_size": 7}], ids=str)
def test_blocks_and_tiles_never_change_the_likelihood(decoder, options):
    made, (edges, spikes, marks) = decoder
    result = made.predict(edges, spikes, marks)
    tuned = made.predict(edges, spikes, marks, **options)
    assert result.shape == (40, made.bins) and np.isfinite(result).all()
    assert np.allclose(tuned, result, rtol=1e-4, atol=1e-5)


@needs_jax
def test_warming_up_a_jitted_function_and_reading_its_lowered_text():
    import jax

    jitted = jax.jit(lambda x, w: (x @ w).sum())
    arrays = (np.ones((4, 8), np.float32), np.ones((8, 2), np.float32))
    for _ in range(2):
        jitted(*arrays).block_until_ready()
    lowered = jitted.lower(*arrays)
    assert "stablehlo" in lowered.as_text() and "ENTRY" in lowered.compile().as_text()
    assert benchmark_function(jitted, arrays, 2, 5) > 0 and str(jax.devices()[0])


@needs_jax
def test_a_trace_of_jax_around_our_measurement(tmp_path):
    import jax

    jax.profiler.start_trace(str(tmp_path))
    try:
        benchmark_function(jax.jit(lambda x: x + 1), (np.ones(8, np.float32),), 1, 2)
    finally:
        jax.profiler.stop_trace()
    assert any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "words",
    [
        ["run", "lattice-encode", "--lattice", "D4", "--q", "4", "--M", "2", "--batch-sizes", "1,10", "--output-dir", "out"],
        ["run", "lattice-decode", "--lattice", "Z2", "--batch-sizes", "10", "--output-dir", "out"],
        ["run", "kde-predict", "--size", "tiny", "--block", "50", "--tile", "200", "-o", "out"],
    ],
    ids=lambda words: words[1],
)
def test_options_of_the_profiling_scripts(run, tmp_path, words):
    done = run(*words, "-i", "simd,parallel", "--effort", "quick", "--no-ceilings", "--no-plot")
    assert done.code == 0 and words[1] in done.out, done.err
    assert (tmp_path / "out/run.json").is_file() and (tmp_path / "out/summary.csv").is_file()


def test_the_check_of_the_profilers(run):
    done = run("check", "lattice", "--batch", "10", "-i", "simd,parallel")
    assert done.code == 0 and " right" in done.out and " 0 wrong" in done.out, done.out + done.err
