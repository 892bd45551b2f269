"""The benchmark of layer operations over shapes, with the rows that common benchmark scripts write."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

from .__main__ import launch
from ._errors import EllwandError

__all__ = ["run_comprehensive_benchmark"]

OPERATIONS = {
    "LayerNorm": ("layer-norm",),
    "GELU": ("gelu",),
    "Swish": ("swish",),
    "Softmax": ("softmax",),
    "Loss": ("mse-loss", "cross-entropy-loss"),
    "MSELoss": ("mse-loss",),
    "CrossEntropyLoss": ("cross-entropy-loss",),
}
#: Implementations as such scripts name them.
NAMES = {
    "torch": "PyTorch",
    "torch-compile": "PyTorch (torch.compile)",
    "jax": "JAX",
    "numpy": "NumPy",
    "cuda": "CUDA",
    "triton": "Triton",
    "simd": "Ellwand (1 thread)",
    "parallel": "Ellwand",
}


def _default_implementations() -> list[str]:
    import importlib.util

    return ["parallel", *(name for name in ("torch", "jax") if importlib.util.find_spec(name) is not None)]


def _numbers(name: str, values: Iterable[int]) -> str:
    values = list(values)
    if not values or any(not isinstance(value, int) or value < 1 for value in values):
        raise EllwandError(f"{name}: {values} is no list of numbers above 0; expected one such as [16, 32]")
    return ",".join(str(value) for value in values)


def run_comprehensive_benchmark(
    batch_sizes: Sequence[int] = (16, 32, 64, 128),
    sequence_lengths: Sequence[int] = (256, 512, 1024),
    tensor_dimensions: Sequence[int] = (32, 64, 128, 256),
    operations: Sequence[str] = ("LayerNorm", "GELU", "Swish", "Loss"),
    output_file: str | os.PathLike[str] | None = "benchmark_results.json",
    *,
    implementations: Sequence[str] | None = None,
    effort: str = "quick",
) -> list[dict[str, Any]]:
    """Measures the operations in fresh processes, prints a table for each, and writes the rows to ``output_file``."""
    unknown = [name for name in operations if name not in OPERATIONS]
    if unknown:
        raise EllwandError(f"operations: {unknown[0]!r} is unknown; expected some of {', '.join(OPERATIONS)}")
    chosen = list(implementations or _default_implementations())
    workloads = list(dict.fromkeys(each for name in operations for each in OPERATIONS[name]))
    rows: list[dict[str, Any]] = []
    for workload in workloads:
        words = ["run", workload, "-i", ",".join(chosen), "--effort", effort, "--no-plot"]
        words += ["--batch", _numbers("batch_sizes", batch_sizes)]
        words += ["--sequence", _numbers("sequence_lengths", sequence_lengths)]
        words += ["--dimension", _numbers("tensor_dimensions", tensor_dimensions)]
        rows += _run(workload, words + (["--form", "exact"] if workload == "gelu" else []))
    for row in rows:
        row["implementation"] = NAMES.get(row["implementation"], row["implementation"])
    _print(rows)
    if output_file is not None:
        with open(output_file, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
    return rows


def _run(workload: str, words: list[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="ellwand-") as folder:
        command = [*launch([], None)[:-1], *words, "--format", "seed-json", "-o", os.path.join(folder, "out")]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError as error:
        raise EllwandError(f"{workload}: the measurement ended with code {done.returncode}: {done.stderr.strip()}") from error
    return rows


def _cell(value: Any, digits: int) -> str:
    return "unavailable" if value is None else f"{value:.{digits}f}"


def _print(rows: list[dict[str, Any]]) -> None:
    for operation in dict.fromkeys(row["operation"] for row in rows):
        print(f"\n{operation}")
        print(f"{'implementation':<24}{'shape':>16}{'time (ms)':>13}{'memory (MB)':>13}{'speed (1/s)':>14}{'efficiency':>12}")
        for row in (row for row in rows if row["operation"] == operation):
            shape = "x".join(str(row[key]) for key in ("batch_size", "sequence_length", "tensor_dimension"))
            print(
                f"{row['implementation']:<24}{shape:>16}{_cell(row['time_ms'], 4):>13}{_cell(row['memory_mb'], 2):>13}"
                f"{_cell(row['inference_speed'], 1):>14}{_cell(row['gpu_efficiency'], 1):>12}"
            )


if __name__ == "__main__":
    run_comprehensive_benchmark()
