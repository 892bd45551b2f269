"""Spans in production code, with the interface of common GPU profilers.

    profiler = GPUProfiler(enabled=True)
    with profiler.profile("matmul", device="gpu", size=1024):
        ...
    profiler.print_summary()
    profiler.export_json("profile.json")

The recorder that Rust code uses writes the spans, so work of Ellwand's kernels appears inside them. Spans may nest
and overlap between threads and asyncio tasks; a span ends on the thread that began it. In Jupyter a profiler shows its page.
"""

from __future__ import annotations

import functools
import html
import inspect
import json
import math
import os
import re
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ._device import TRANSFERS, DeviceSpan, TorchGpu
from ._errors import EllwandError, WrongType, WrongValue
from ._errors import hidden as __tracebackhide__
from ._name import inner, name_of
from ._native import Profile, Recorder, Region
from ._options import integer
from ._span_cost import costs

if TYPE_CHECKING:

    def span(operation: str) -> Region:
        """A span of the program's profiler: ``with span("load"): ...``"""
        ...


__all__ = ["GPUProfiler", "ProfileEntry", "ProfileSummary", "get_profiler", "span"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class ProfileEntry:
    """One finished span. Quantities that were not measured are 0.

    ``start_time`` and ``end_time`` are seconds since 1970; a float resolves these only to 0.24 us, so they are equal for short spans.
    ``start_ns`` and ``duration_ms`` are exact.
    """

    operation: str
    start_time: float
    end_time: float
    duration_ms: float
    device: str
    backend: str
    gpu_time_ms: float = 0.0
    cpu_time_ms: float = 0.0
    transfer_time_ms: float = 0.0
    overhead_ms: float = 0.0
    memory_allocated_mb: float = 0.0
    memory_peak_mb: float = 0.0
    gpu_utilization: float = 0.0
    memory_bandwidth_gb_s: float = 0.0
    #: Work that the program declared.
    bytes: int = 0
    items: int = 0
    flops: float = 0.0
    #: Nanoseconds since 1970.
    start_ns: int = 0
    #: Resident memory of the process at the end, with ``measure=["rss"]``.
    memory_resident_mb: float = 0.0


@dataclass
class ProfileSummary:
    """All finished spans of an operation.

    For recursive spans (inside a span of the same operation) the totals count only the outer one, while ``call_count``, mean, minimum
    and maximum cover all of them. The total is then less than ``call_count`` times the mean.
    """

    operation: str
    call_count: int
    total_time_ms: float
    avg_time_ms: float
    min_time_ms: float
    max_time_ms: float
    std_dev_ms: float
    total_gpu_time_ms: float = 0.0
    total_cpu_time_ms: float = 0.0
    avg_memory_mb: float = 0.0
    avg_gpu_utilization: float = 0.0
    #: Work that the program declared, summed over all calls.
    total_bytes: int = 0
    total_items: int = 0
    total_flops: float = 0.0


class GPUProfiler(Recorder):
    """Records spans. ``device_id`` selects one of several GPUs.

    The first ``max_entries`` spans are kept individually; later ones are aggregated by operation. ``measure`` adds ``"cpu"``, the CPU
    time of the thread (1 to 3 us per span), or ``"rss"``, the resident memory of the process at the end of a span (some us). A span
    whose asyncio task was suspended has no CPU time: the thread's clock also counts what ran meanwhile.

    ``__new__`` constructs a profiler. A subclass whose ``__init__`` has other parameters must also override ``__new__``, and its
    ``__init__`` passes no arguments to this class.
    """

    #: By device number. The dictionary is never modified, only replaced.
    _gpus: dict[int, TorchGpu] = {}

    def enable(self) -> None:
        """Records from now on."""
        self.enabled = True

    def disable(self) -> None:
        """Stops recording; the profiler keeps what it has recorded."""
        self.enabled = False

    def reset(self) -> None:
        """Forgets all spans."""
        self.clear()

    @overload
    def profile_function(self, operation: F, /) -> F: ...

    @overload
    def profile_function(self, operation: str | None = None, device: str = "cpu") -> Callable[[F], F]: ...

    def profile_function(self, operation: Any = None, device: str = "cpu") -> Any:
        """A decorator that records a span for every call, or for every resumption of a generator. The operation is the function's name
        unless given. Parentheses are optional."""
        if not isinstance(device, str):
            raise WrongType(f"device: {device!r} is of type {type(device).__name__}; expected a string such as 'cpu' or 'gpu'")
        if operation is None or isinstance(operation, str):
            return self._decorator(operation, device)
        return self._decorator(None, device)(operation)

    def _decorator(self, operation: str | None, device: str) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            if isinstance(function, (staticmethod, classmethod)):
                inside: Any = function
                return type(inside)(decorate(inside.__func__))
            if not callable(function):
                raise WrongType(f"profile_function: {function!r} is not a function; move it below the decorator that made this")
            name = operation or name_of(function)
            code = getattr(inner(function), "__code__", None)
            place = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def wrapped(*args: Any, **kwargs: Any) -> Any:
                    with self.profile(name, device=device):
                        return await function(*args, **kwargs)

                return wrapped
            if inspect.isgeneratorfunction(function):
                return _resumed(function, lambda: self.profile(name, device=device))
            if inspect.isasyncgenfunction(function):
                return _resumed_async(function, lambda: self.profile(name, device=device))
            if device != "cpu":

                @functools.wraps(function)
                def synchronous(*args: Any, **kwargs: Any) -> Any:
                    with self.profile(name, device=device):
                        return function(*args, **kwargs)

                return synchronous
            profiled = functools.update_wrapper(self._function(function, name, place), function)
            # torch.compile and torch.jit read the file and code of `Module.forward`, which only a Python function has.
            is_forward = getattr(function, "__name__", "") == "forward" and "torch" in sys.modules
            return functools.wraps(function)(lambda *args, **kwargs: profiled(*args, **kwargs)) if is_forward else profiled

        return decorate

    def _on_device(self, operation: str, device: str, args: dict[str, Any]) -> Region | DeviceSpan:
        """The span of an operation on another device than the processor."""
        number = re.fullmatch(r"cuda(?::(\d+))?", device)
        if device not in ("gpu", *TRANSFERS) and number is None:
            expected = ", ".join(map(repr, ("cpu", "gpu", "cuda:0", *TRANSFERS)))
            raise WrongValue(f"device: {device!r} is unknown; expected one of {expected}")
        gpu, backend = self._gpu(int(number[1]) if number and number[1] else self.device_id) if self.enabled else (None, "")
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        region = self._region(operation, {**args, "device": device, "backend": backend}, place)
        if gpu is None:
            return region
        return DeviceSpan(gpu, region, operation, device if device in TRANSFERS else "kernel")

    def _gpu(self, number: int) -> tuple[TorchGpu | None, str]:
        """The library that computes on a GPU; only libraries the program has imported are considered."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            with _gpu_lock:
                if number not in self._gpus:
                    self._gpus = {**self._gpus, number: TorchGpu(torch, number, type(self))}
            return self._gpus[number], "pytorch"
        # A GPU was requested but is missing: the span is timed on the host and marked so.
        return None, "cupy" if "cupy" in sys.modules else "unavailable"

    def snapshot(self) -> Profile:
        """What was recorded so far: table rows, the file, and the page."""
        for gpu in self._gpus.values():
            gpu.collect(self)
        return self._snapshot(lambda: costs(self.measure))

    @property
    def entries(self) -> list[ProfileEntry]:
        """The finished spans, ordered by their start."""
        return _entries(self.snapshot())

    def get_summary(self) -> dict[str, ProfileSummary]:
        """A summary by operation, slowest first."""
        return _summaries(self.snapshot())

    def get_bottlenecks(self, top_n: int = 5) -> list[ProfileSummary]:
        """The operations that took the longest time in total."""
        integer("top_n", top_n, 0, math.inf, "an integer of at least 0")
        return list(self.get_summary().values())[:top_n]

    def print_summary(self) -> None:
        """Prints one line per operation. Its share is relative to the time in outermost spans, summed over threads and tasks: more than the
        elapsed time if these overlap. A nested span's time is part of the span around it."""
        profile = self.snapshot()
        rows = profile.summary()
        # Self times add up to the outermost spans; totals would count nested spans twice.
        whole = sum(row["self_ns"] for row in rows)
        print(
            f"{'operation':<28} {'calls':>7} {'total ms':>11} {'mean ms':>10} {'p50 ms':>10} {'p99 ms':>10} "
            f"{'max ms':>10} {'share':>7}"
        )
        for row in rows:
            ms = [row[name] * 1e-6 for name in ("mean_ns", "p50_ns", "p99_ns", "max_ns")]
            share = row["total_ns"] / whole if whole else 0.0
            print(
                f"{_short(_printable(row['operation'])):<28} {row['calls']:>7} {row['total_ns'] * 1e-6:>11.3f} "
                + " ".join(f"{value:>10.4f}" for value in ms)
                + f" {share:>7.1%}"
            )
        if profile.resident_bytes:
            first, most, last = (value / 1e6 for value in profile.resident_bytes)
            print(f"resident memory at span ends: up to {most:.1f} MB, change {last - first:+.1f} MB (from {first:.1f} to {last:.1f} MB)")
        if profile.lost:
            print(f"lost: {profile.lost} spans, because there was no room for their operations")
        if profile.aggregated:
            print(f"aggregated: {profile.aggregated} spans beyond max_entries={self.max_entries}; their percentiles are estimates")

    def print_bottlenecks(self, top_n: int = 5) -> None:
        """Prints the operations that took the longest time."""
        for rank, each in enumerate(self.get_bottlenecks(top_n), 1):
            print(f"[{rank}] {_printable(each.operation)}: {each.total_time_ms:.2f} ms in {each.call_count} calls")
            if each.total_gpu_time_ms:
                print(f"    GPU {each.total_gpu_time_ms:.2f} ms, CPU {each.total_cpu_time_ms:.2f} ms")

    def document(self) -> dict[str, Any]:
        """The profile as a dictionary, as ``export_json`` writes it."""
        document: dict[str, Any] = json.loads(b"".join(_file(self.snapshot())))
        return document

    def export_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the profile to a file (docs/profile-format.md)."""
        parts = _file(self.snapshot())
        try:
            with open(path, "wb") as file:
                file.writelines(parts)
        except OSError as error:
            raise EllwandError(f"{os.fspath(path)}: cannot be written: {error.strerror}") from error

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the page of the profile to a file: timeline, flame graph, tables and findings, without network."""
        self.snapshot().save_page(path)

    def view(self) -> str:
        """Opens the page in the browser, and returns its path."""
        path = Path(tempfile.mkdtemp(prefix="ellwand-")) / "profile.html"
        self.export_html(path)
        webbrowser.open(path.as_uri())
        return str(path)

    def _repr_html_(self) -> str:
        page = html.escape(self.snapshot().page(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0" title="Ellwand profile"></iframe>'


def _resumed(function: Callable[..., Any], span: Callable[[], Any]) -> Callable[..., Any]:
    """A generator function with a span for each time that its body is resumed."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        body = function(*args, **kwargs)
        step, given = body.send, None
        while True:
            with span():
                try:
                    value = step(given)
                except StopIteration as end:
                    return end.value
            try:
                step, given = body.send, (yield value)
            except GeneratorExit:
                body.close()
                raise
            except BaseException as error:
                step, given = body.throw, error

    return wrapped


def _resumed_async(function: Callable[..., Any], span: Callable[[], Any]) -> Callable[..., Any]:
    """The same for an asynchronous generator function."""

    @functools.wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        body = function(*args, **kwargs)
        step, given = body.asend, None
        while True:
            with span():
                try:
                    value = await step(given)
                except StopAsyncIteration:
                    return
            try:
                step, given = body.asend, (yield value)
            except GeneratorExit:
                await body.aclose()
                raise
            except BaseException as error:
                step, given = body.athrow, error

    return wrapped


def _file(profile: Profile) -> tuple[bytes, bytes]:
    """The file in two parts, because a profile of a million spans is large."""
    own = {"summary": {name: asdict(each) for name, each in _summaries(profile).items()}}
    end = f',\n"gpu_profiler":{json.dumps(own, allow_nan=False)}}}\n'
    return profile.json().rstrip().removesuffix(b"}"), end.encode()


def _entries(profile: Profile) -> list[ProfileEntry]:
    overhead = profile.span_cost_ns * 1e-6
    return [_entry(span, overhead) for span in profile.spans()]


def _summaries(profile: Profile) -> dict[str, ProfileSummary]:
    memory = _gpu_memory_mb(profile)
    return {row["operation"]: _summary(row, memory.get(row["operation"], 0.0)) for row in profile.summary()}


def _entry(span: dict[str, Any], overhead_ms: float) -> ProfileEntry:
    args, wall, gpu = span["args"], span["duration_ns"], span["device_ns"]
    start = span["start_ns"] * 1e-9
    return ProfileEntry(
        span["operation"],
        start,
        start + wall * 1e-9,
        wall * 1e-6,
        args.get("device", "cpu"),
        args.get("backend", "cpu"),
        gpu_time_ms=gpu * 1e-6,
        cpu_time_ms=(span["cpu_ns"] or 0) * 1e-6,
        transfer_time_ms=span["transfer_ns"] * 1e-6,
        overhead_ms=overhead_ms,
        memory_allocated_mb=args.get("gpu_allocated_bytes", 0) / 1e6,
        memory_peak_mb=args.get("gpu_peak_bytes", 0) / 1e6,
        gpu_utilization=_share(gpu, wall),
        memory_bandwidth_gb_s=span["bytes"] / wall if wall else 0.0,
        bytes=span["bytes"],
        items=span["items"],
        flops=span["flops"],
        start_ns=span["start_ns"],
        memory_resident_mb=(span["rss_bytes"] or 0) / 1e6,
    )


def _printable(operation: str) -> str:
    """An operation's name on one line, as in Ellwand's tables."""
    text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in operation)
    return text or "(no name)"


def _short(name: str, width: int = 28) -> str:
    """Shortens a long name in its middle, because names differ at both ends."""
    if len(name) <= width:
        return name
    head = (width - 2) // 2
    return f"{name[:head]}..{name[head + 2 - width :]}"


def _share(gpu: float, wall: float) -> float:
    return min(100.0, 100.0 * gpu / wall) if wall > 0 else 0.0


def _summary(row: dict[str, Any], memory_mb: float) -> ProfileSummary:
    return ProfileSummary(
        row["operation"],
        row["calls"],
        row["total_ns"] * 1e-6,
        row["mean_ns"] * 1e-6,
        row["min_ns"] * 1e-6,
        row["max_ns"] * 1e-6,
        row["std_ns"] * 1e-6,
        row["device_ns"] * 1e-6,
        (row["cpu_ns"] or 0) * 1e-6,
        memory_mb,
        _share(row["device_ns"], row["total_ns"]),
        row["bytes"],
        row["items"],
        row["flops"],
    )


def _gpu_memory_mb(profile: Profile) -> dict[str, float]:
    """Mean memory that the spans of each operation allocated on the GPU."""
    found: dict[str, list[float]] = {}
    for span in profile.spans() if profile.has_devices else ():
        if "gpu_allocated_bytes" in span["args"]:
            found.setdefault(span["operation"], []).append(span["args"]["gpu_allocated_bytes"] / 1e6)
    return {operation: sum(values) / len(values) for operation, values in found.items()}


_global: GPUProfiler | None = None
_global_lock = threading.Lock()
_gpu_lock = threading.Lock()


def get_profiler(enabled: bool | None = None, device_id: int = 0) -> GPUProfiler:
    """The profiler of the whole program. The first call creates it for ``device_id``, enabled unless ``enabled`` is False.

    Later calls return it; ``enabled`` switches recording on or off if it is given.
    """
    global _global
    with _global_lock:
        if _global is None:
            _global = GPUProfiler(enabled is not False, device_id)
        elif enabled is not None:
            _global.enabled = enabled
        return _global


def __getattr__(name: str) -> Any:
    # A bound method of the whole program's profiler, so that a call has no extra cost.
    if name == "span":
        return get_profiler().span
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _after_fork() -> None:
    """Replaces the locks in a forked child: another thread may have held one."""
    global _global_lock, _gpu_lock
    _global_lock, _gpu_lock = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
