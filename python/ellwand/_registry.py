"""What Python adds to the command line's registry: workloads and implementations, as rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union

from . import _arrays
from ._axis import Axis, Size
from ._case import Case, Value
from ._errors import EllwandError
from ._errors import hidden as __tracebackhide__
from ._prepared import Ready, ready

__all__ = ["IMPLEMENTATIONS", "WORKLOADS", "Implementation", "Workload", "implementation", "workload"]

#: Cores available to this process: the thread count of ``parallel``, and the default of every framework.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

Prepare = Callable[[Case, "dict[str, Any]"], Any]
F = TypeVar("F", bound=Prepare)
C = TypeVar("C", bound=type)
Work = Mapping[str, Union[int, float, str]]


@dataclass
class Implementation:
    """One way of computing a workload."""

    workload: str
    name: str
    about: str
    device: str
    threads: int
    function: Prepare
    what_ran: Callable[[], str] = lambda: ""
    #: Names of the workload's outputs; filled in before the instrument starts.
    outputs: tuple[str, ...] = ()
    #: True for code of another library: `check` reports the hard inputs on which it is right.
    foreign: bool = False

    def prepare(self, case: Case, inputs: dict[str, Any], stream: tuple[int, int] | None) -> Ready:
        """Called by the Rust half in the measuring process; ``stream`` is the CUDA stream whose events time the work, and its
        device number."""
        from . import _device
        from ._threads import limit

        limit(self.threads)
        _device.use(stream)
        made = ready(self, case, inputs)
        # The preparation may have imported PyTorch.
        _device.use(stream)
        return made


@dataclass
class Workload:
    """A mathematical task with inputs and a reference."""

    name: str
    about: str
    axes: list[Axis]
    sizes: list[Size]
    groups: list[str]
    baseline: str
    outputs: list[str]
    task: Any = field(repr=False)


WORKLOADS: list[Workload] = []
IMPLEMENTATIONS: list[Implementation] = []


def _known_name(kind: str, name: str) -> str:
    if not name or any(mark in name for mark in ":,* \t\n"):
        raise EllwandError(f"{kind} {name!r}: expected a name without spaces, commas, colons or asterisks")
    return name


def implementation(
    workload: str, name: str, *, device: str = "cpu", threads: int | None = None, about: str = "", foreign: bool = False
) -> Callable[[F], F]:
    """Registers a function ``(case, inputs) -> prepared`` as an implementation.

    ``inputs`` holds NumPy arrays that must not be changed. ``prepared`` is a function of no arguments that returns the
    outputs, or an object with ``run()`` and ``output()`` and, if it needs them, ``sync()``, ``poison()``, ``readings()``. Only
    ``run`` and ``sync`` are timed. ``threads`` is how many threads a run uses, by default all cores. ``foreign`` marks code of
    another library: a hard input that it computes wrongly is reported but does not fail a check.

    With ``device="cuda"`` PyTorch's and CuPy's current stream is one whose events time the work; ``run`` enqueues its work
    there and must not wait. Work that waits, or runs on other streams, is timed on the host. The outputs may be on the device,
    and are overwritten between runs. The prepared object's ``launches`` is the number of kernels in a run; the default is 24.
    """
    if device not in ("cpu", "cuda"):
        raise EllwandError(f"device: {device!r} is unknown; expected 'cpu' or 'cuda'")
    if threads is not None and threads < 1:
        raise EllwandError(f"threads: {threads} is too few; expected at least 1")
    if not isinstance(workload, str) or not isinstance(name, str):
        raise EllwandError("implementation: expected two names, as in @ellwand.implementation('layer-norm', 'mine')")

    def register(function: F) -> F:
        if not callable(function):
            raise EllwandError(f"{workload}:{name}: {function!r} is not a function; expected a function of (case, inputs)")
        doc = (getattr(function, "__doc__", None) or "").strip().splitlines()
        row = Implementation(
            _known_name("workload", workload),
            _known_name("implementation", name),
            about or (doc[0] if doc else "a Python function"),
            device,
            threads or CORES,
            function,
            foreign=foreign,
        )
        earlier = next((k for k in IMPLEMENTATIONS if (k.workload, k.name) == (workload, name)), None)
        if earlier is not None and _is_ours(earlier) and not _is_ours(row):
            raise EllwandError(_TAKEN.format(workload=workload, name=name))
        IMPLEMENTATIONS[:] = [k for k in IMPLEMENTATIONS if (k.workload, k.name) != (workload, name)] + [row]
        return function

    return register


#: Records and reports would confuse a replacement with Ellwand's own implementation.
_TAKEN = "{workload}:{name}: Ellwand already has an implementation of this name; choose another name"


def _is_ours(row: Implementation) -> bool:
    module = getattr(getattr(row.function, "func", row.function), "__module__", None) or ""
    return module.startswith("ellwand._frameworks")


class _Task:
    """Wraps a workload's methods for the Rust half, with plain results."""

    def __init__(self, made: Any, name: str, outputs: tuple[str, ...]) -> None:
        self.made, self.name, self.names = made, name, outputs

    def inputs(self, case: Case, seed: int) -> dict[str, Any]:
        import numpy as np

        return self._arrays("inputs", self.made.inputs(case, np.random.default_rng(seed)))

    def _arrays(self, method: str, made: Any) -> dict[str, Any]:
        if not isinstance(made, Mapping):
            raise EllwandError(f"{method} returned a {type(made).__name__}; expected a dictionary of arrays")
        return {str(name): _arrays.plain(str(name), array) for name, array in made.items()}

    def reference(self, case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
        return _arrays.named(self.made.reference(case, inputs), self.names)

    def work(self, case: Case) -> tuple[str, int, float, int, int]:
        given: Work = self.made.work(case) if hasattr(self.made, "work") else {}
        known = {"item", "items", "flops", "bytes_read", "bytes_written"}
        unknown = sorted(set(given) - known)
        if unknown:
            raise EllwandError(f"work: {unknown[0]!r} is unknown; expected {', '.join(sorted(known))}")
        return (
            str(given.get("item", "calls")),
            int(given.get("items", 1)),
            float(given.get("flops", 0.0)),
            int(given.get("bytes_read", 0)),
            int(given.get("bytes_written", 0)),
        )

    def tolerance(self, case: Case) -> tuple[float, float] | None:
        given: Any = getattr(self.made, "tolerance", (1e-5, 1e-5))
        given = given(case) if callable(given) else given
        return None if given is None else (float(given[0]), float(given[1]))


def workload(
    name: str,
    *,
    axes: Iterable[Axis] = (),
    sizes: Mapping[str, Mapping[str, Value | Sequence[Value]]] | None = None,
    groups: Sequence[str] = (),
    outputs: Sequence[str] = ("y",),
    baseline: str = "",
    about: str = "",
) -> Callable[[C], C]:
    """Registers a class as a workload.

    The class has ``inputs(case, rng) -> dict`` with a seeded ``numpy.random.Generator``, ``reference(case, inputs)`` (computed
    in float64 in the most obvious way), and optionally ``work(case) -> dict`` (item, items, flops, bytes_read, bytes_written)
    and ``tolerance``: (absolute, relative), a function of the case, or None for equal bits.
    """
    axes = list(axes)
    if any(not isinstance(axis, Axis) for axis in axes):
        raise EllwandError(f"workload {name}: its axes are {axes!r}; expected a list of ellwand.Axis")

    def register(made: C) -> C:
        task = made()
        for method in ("inputs", "reference"):
            if not callable(getattr(task, method, None)):
                raise EllwandError(f"workload {name}: {made.__name__} has no {method}; expected inputs and reference")
        doc = (made.__doc__ or "").strip().splitlines()
        row = Workload(
            _known_name("workload", name),
            about or (doc[0] if doc else ""),
            list(axes),
            [Size(size, values) for size, values in (sizes or {}).items()],
            list(groups),
            baseline or "reference",
            list(outputs),
            _Task(task, name, tuple(outputs)),
        )
        WORKLOADS[:] = [known for known in WORKLOADS if known.name != name] + [row]
        _add_reference(row)
        return made

    return register


def _add_reference(row: Workload) -> None:
    def prepare(case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
        return lambda: row.task.made.reference(case, inputs)

    implementation(row.name, "reference", about="the definition that judges the others", threads=CORES)(prepare)


def rows() -> tuple[list[Workload], list[Implementation]]:
    """All rows, once every implementation knows the names of its outputs."""
    from ._native import built_in, did_you_mean, outputs

    ours = set(built_in())
    names = {name: tuple(ports) for name, ports in outputs()}
    names.update((row.name, tuple(row.outputs)) for row in WORKLOADS)
    for row in IMPLEMENTATIONS:
        if row.workload not in names:
            hint = did_you_mean(row.workload, list(names)) or "`ellwand list` shows them"
            raise EllwandError(f"implementation {row.name}: there is no workload '{row.workload}'; {hint}")
        if (row.workload, row.name) in ours:
            raise EllwandError(_TAKEN.format(workload=row.workload, name=row.name))
        row.outputs = names[row.workload]
    return WORKLOADS, IMPLEMENTATIONS
