"""The benchmark of layer operations over shapes, with the rows that common benchmark scripts write."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .__main__ import launch
from ._errors import EllwandError
from ._errors import hidden as __tracebackhide__
from ._measure import accepting, ended
from ._record import read
from ._results import Measurement

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
#: Axes by their names in such scripts.
AXES = {"batch_size": "batch", "sequence_length": "sequence", "tensor_dimension": "dimension"}
#: The exact GELU of PyTorch is off by up to 1.2e-6, more than the workload accepts.
TOLERANCES = {"gelu": ("--atol", "2e-6", "--rtol", "1e-6")}
#: Implementations by their names in such scripts.
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


def _strings(name: str, values: Sequence[str] | None) -> list[str]:
    values = [] if values is None else values
    if isinstance(values, str) or not all(isinstance(each, str) for each in values):
        raise EllwandError(f"{name}: {values!r} is not a list of names; expected a list such as ['parallel', 'PyTorch']")
    return list(values)


def _numbers(name: str, values: Iterable[int]) -> str:
    values = list(values)
    if not values or any(not isinstance(value, int) or value < 1 for value in values):
        raise EllwandError(f"{name}: {values} is not a list of numbers above 0; expected a list such as [16, 32]")
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
    rtol: float | None = None,
    atol: float | None = None,
) -> list[dict[str, Any]]:
    """Measures the operations in fresh processes, prints a table after each operation, and writes the rows so far to ``output_file``.

    A row without a time (wrong, unsupported, failed) has ``time_ms`` None, and ``status`` and ``reason``. Ctrl-C raises
    KeyboardInterrupt after the rows so far are printed and written. ``rtol`` and ``atol`` accept ``|got - reference| <= atol + rtol
    |reference|`` instead of each operation's own tolerance; GELU has an absolute 2e-6 here, because PyTorch is off by up to 1.2e-6. The
    ``reason`` of a wrong row with a small difference names the tolerance that accepts it. ``implementations`` also takes the names
    that the rows have. ``memory_mb`` is what the implementation reports, and None for
    libraries that report nothing, such as PyTorch and JAX.
    """
    unknown = [name for name in operations if name not in OPERATIONS]
    if unknown:
        raise EllwandError(f"operations: {unknown[0]!r} is unknown; expected {', '.join(OPERATIONS)}")
    names = {shown.lower(): name for name, shown in NAMES.items()}
    chosen = [names.get(name.lower(), name) for name in _strings("implementations", implementations) or _default_implementations()]
    workloads = list(dict.fromkeys(each for name in operations for each in OPERATIONS[name]))
    axes = ["--batch", _numbers("batch_sizes", batch_sizes)]
    axes += ["--sequence", _numbers("sequence_lengths", sequence_lengths)]
    axes += ["--dimension", _numbers("tensor_dimensions", tensor_dimensions)]
    axes += [word for name, value in (("--rtol", rtol), ("--atol", atol)) if value is not None for word in (name, f"{float(value)!r}")]
    file = None if output_file is None else _writable(output_file)
    rows: list[dict[str, Any]] = []
    for workload in workloads:
        words = ["run", workload, "-i", ",".join(chosen), "--effort", effort, "--no-plot", *axes]
        words += ["--form", "exact"] if workload == "gelu" else []
        words += TOLERANCES.get(workload, ()) if rtol is None and atol is None else ()
        with tempfile.TemporaryDirectory(prefix="ellwand-") as folder:
            try:
                _run(workload, words, folder)
            finally:
                # Also after Ctrl-C.
                found = _rows(folder)
                _print(found)
                rows += found
                if file is not None:
                    file.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    if all(row["time_ms"] is None for row in rows):
        raise EllwandError(f"no row has a time; the first one is {rows[0]['status']}: {rows[0]['reason']}")
    return rows


def _writable(output_file: str | os.PathLike[str]) -> Path:
    path = Path(output_file)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise EllwandError(f"output_file: {path} cannot be written; expected a file in a folder that exists")
    return path


def _run(workload: str, words: list[str], folder: str) -> None:
    """Runs the command; its progress appears on stderr."""
    command = [*launch([], None)[:-1], *words, "--format", "jsonl", "-o", f"{folder}/out"]
    code, _, _ = ended(command, env={**os.environ, "ELLWAND_TEMPORARY": "1"})
    # A wrong or failed row also gives a non-zero exit code.
    if not os.path.exists(f"{folder}/out/record.jsonl"):
        raise EllwandError(f"{workload}: the measurement ended with code {code}; see stderr for the reason")


def _rows(folder: str) -> list[dict[str, Any]]:
    """The rows of a record; those without a time come last."""
    if not os.path.exists(f"{folder}/out/record.jsonl"):
        return []
    record = read(f"{folder}/out")
    rows: list[dict[str, Any]] = json.loads(record.text("seed-json"))
    stated = {_key(each.implementation, each.params, AXES.values()): each.readings.get("total-memory") for each in record}
    for row in rows:
        # Not the growth of the process, which would include the compiler's and cannot be compared.
        memory = stated[_key(row["implementation"], row, AXES)]
        row["memory_mb"] = None if memory is None else memory / 1e6
    rows += [_missing(each) for each in record if each.seconds is None]
    for row in rows:
        row["implementation"] = NAMES.get(row["implementation"], row["implementation"])
    return rows


def _key(implementation: str, values: Mapping[str, Any], axes: Iterable[str]) -> tuple[Any, ...]:
    return implementation, *(values[axis] for axis in axes)


def _missing(measurement: Measurement) -> dict[str, Any]:
    reason = measurement.reason or "its time is below the timer resolution"
    near = accepting(reason) if measurement.status == "wrong" else None
    if near is not None:
        reason += f"; the difference is small: atol={near[0]}, rtol={near[1]} accept it"
    operation = next(name for name, those in OPERATIONS.items() if those == (measurement.workload,))
    values = ("time_ms", "memory_mb", "inference_speed", "gpu_efficiency", "throughput_gbps")
    return {
        "operation": operation,
        "workload": measurement.workload,
        "implementation": measurement.implementation,
        **{key: measurement.params[axis] for key, axis in AXES.items()},
        **dict.fromkeys(values),
        "device": measurement.device,
        "status": measurement.status,
        "reason": reason,
    }


def _cell(value: Any, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _print(rows: list[dict[str, Any]]) -> None:
    for operation in dict.fromkeys(row["operation"] for row in rows):
        print(f"\n{operation}")
        print(f"{'implementation':<24}{'shape':>16}{'time (ms)':>13}{'memory (MB)':>13}{'speed (1/s)':>14}{'efficiency':>12}")
        for row in (row for row in rows if row["operation"] == operation):
            shape = "x".join(str(row[key]) for key in ("batch_size", "sequence_length", "tensor_dimension"))
            if row["time_ms"] is None:
                print(f"{row['implementation']:<24}{shape:>16}  {row['status']}: {row['reason']}")
                continue
            time = ("<= " if "held_up" in row else "") + _cell(row["time_ms"], 4)
            print(
                f"{row['implementation']:<24}{shape:>16}{time:>13}{_cell(row['memory_mb'], 2):>13}"
                f"{_cell(row['inference_speed'], 1):>14}{_cell(row['gpu_efficiency'], 1):>12}"
            )


if __name__ == "__main__":
    try:
        run_comprehensive_benchmark()
    except EllwandError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("interrupted: the rows so far are in benchmark_results.json", file=sys.stderr)
        sys.exit(130)
