"""Records as Python objects: ``ellwand.read("record.jsonl")``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _native
from ._errors import EllwandError
from ._errors import hidden as __tracebackhide__
from ._results import _HEAD, Measurement, table

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Record", "read"]

PathLike = Union[str, "os.PathLike[str]"]


class Record(Sequence[Measurement]):
    """The measurements of a record. The report computes the statistics, so they equal those of every other format."""

    def __init__(self, path: Path, report: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        self.path = path
        #: The whole report model, as ``ellwand report --format json`` prints it.
        self.report = report
        #: The lines of the record, parsed: facts and raw samples.
        self.lines = lines
        self.measurements = [_measurement(row, lines) for each in report["workloads"] for row in each["rows"]]

    def __getitem__(self, index: Any) -> Any:
        return self.measurements[index]

    def __len__(self) -> int:
        return len(self.measurements)

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements)

    @property
    def environment(self) -> dict[str, Any]:
        """The machine."""
        environment: dict[str, Any] = self.report["runs"][0]["environment"]
        return environment

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary per measurement: parameters, status, metrics, readings."""
        return [
            {
                "workload": m.workload,
                **m.params,
                "implementation": m.implementation,
                "device": m.device,
                "status": m.status,
                "reason": m.reason,
                "seconds": m.seconds,
                "low": m.low,
                "high": m.high,
                "held_up": m.held_up,
                "first_run_s": m.first_run_s,
                **{name: value for name, value in m.metrics.items() if name != "time"},
                **m.readings,
            }
            for m in self.measurements
        ]

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return _frame("pandas", self.rows())

    def to_polars(self) -> Any:
        """The rows as a polars DataFrame."""
        return _frame("polars", self.rows())

    def text(self, format: str = "table") -> str:
        """The report in any format: table, markdown, csv, json, jsonl, seed-json."""
        return _native.report([str(self.path)], format)

    def __repr__(self) -> str:
        return self.text("table")

    def _repr_html_(self) -> str:
        rows = [[m.workload, *(str(v) for v in m.params.values()), *m._row()] for m in self.measurements]
        axes = list(self.measurements[0].params) if self.measurements else []
        same = all(list(m.params) == axes for m in self.measurements)
        if not same:
            rows = [[m.workload, ", ".join(f"{k}={v}" for k, v in m.params.items()), *m._row()] for m in self]
            axes = ["case"]
        return table(["workload", *axes, *_HEAD], rows)


def _frame(library: str, rows: list[dict[str, Any]]) -> Any:
    import importlib

    try:
        module = importlib.import_module(library)
    except ImportError as error:
        raise EllwandError(f"{library} is not installed: `pip install {library}`, or use .rows()") from error
    return module.DataFrame(rows)


#: The clocks of a time, by the basis that the report names.
_CLOCKS = {"cpu": "CPU time", "shortest-cpu": "CPU time"}


def _samples(lines: list[dict[str, Any]], row: dict[str, Any]) -> tuple[np.ndarray[Any, Any] | None, str]:
    """The samples of a row, on the same clock as its median; and the name of the clock."""
    import numpy as np

    key = row["case"], row["implementation"], row["device"]
    for line in lines:
        if line.get("kind") != "measurement" or not line["samples"]:
            continue
        if (line["case"]["id"], line["implementation"], line["device"]) == key:
            samples, basis = line["samples"], row.get("basis")

            def column(name: str) -> np.ndarray[Any, Any]:
                return np.asarray(samples.get(name) or [None] * len(samples["wall_ns"]), float)

            iterations = np.maximum(column("iterations"), 1)
            on_device = column("device_ns")
            elapsed = np.where(np.isnan(on_device), column("wall_ns"), on_device) / iterations
            parts = {"fastest": column("fastest_ns") / (iterations / column("parts")), "cpu": column("cpu_ns") / iterations}
            judged = parts.get(str(basis), elapsed)
            seconds: np.ndarray[Any, Any] = np.where(np.isnan(judged), elapsed, judged) * 1e-9
            clock = "elapsed time" if np.isnan(on_device).all() else "device time"
            return seconds, _CLOCKS.get(str(basis), clock)
    return None, ""


def _measurement(row: dict[str, Any], lines: list[dict[str, Any]]) -> Measurement:
    time = row["metrics"].get("time") or {}
    samples, clock = _samples(lines, row)
    median = {name: value["median"] for name, value in row["metrics"].items() if "median" in value}
    return Measurement(
        workload=row["case"].split("/")[0],
        implementation=row["implementation"],
        params=row["params"],
        status=row["status"]["word"],
        reason=row["status"]["reason"],
        seconds=time.get("median"),
        low=time.get("low"),
        high=time.get("high"),
        device=row["device"],
        what_ran=row["what_ran"],
        first_run_s=row["first_run_s"],
        prepare_s=row["prepare_s"],
        metrics=median,
        readings={reading["id"]: reading["value"] for reading in row.get("readings", [])},
        warnings=tuple(row.get("warnings", ())),
        samples=samples,
        clock=clock,
        held_up=_held_up(row.get("held_up")),
    )


def _held_up(held: dict[str, float] | None) -> str | None:
    return None if held is None else f"held up ({held['busy']:.2f} of {held['could_use']:.0f} CPUs)"


def read(path: PathLike) -> Record:
    """Reads a record: a ``record.jsonl``, or the directory that holds one."""
    file = Path(path)
    if file.is_dir():
        file = file / "record.jsonl"
    if not file.is_file():
        raise EllwandError(f"{path}: there is no such record; expected a record.jsonl, or a directory that holds one")
    report = json.loads(_native.report([str(file)], "json"))
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            # The last, incomplete line of a killed run; the report skipped it too.
            continue
    return Record(file, report, lines)
