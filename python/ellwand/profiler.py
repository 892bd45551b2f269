"""Spans in production code, with the interface of common GPU profilers.

    profiler = GPUProfiler(enabled=True)
    with profiler.profile("matmul", device="gpu", size=1024):
        ...
    profiler.print_summary()
    profiler.export_json("profile.json")

``export_json`` writes the profile format of Ellwand (docs/profile-format.md), which ``ellwand`` reads; the rows of this module's
dataclasses are in its member ``gpu_profiler``. Spans may nest and overlap between threads and asyncio tasks.
"""

from __future__ import annotations

import contextvars
import functools
import json
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from ._errors import EllwandError

__all__ = ["GPUProfiler", "ProfileEntry", "ProfileSummary", "get_profiler"]

F = TypeVar("F", bound=Callable[..., Any])

DEVICES = ("cpu", "gpu")
#: Spans that a profiler keeps; further ones are counted as lost.
MOST = 1_000_000

_current: contextvars.ContextVar[_Span | None] = contextvars.ContextVar("ellwand_span", default=None)
_all: weakref.WeakSet[GPUProfiler] = weakref.WeakSet()


@dataclass
class ProfileEntry:
    """One finished span. A quantity that was not measured is 0."""

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


@dataclass
class ProfileSummary:
    """All finished spans of an operation."""

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


class _Span:
    """An open or finished span: what ``profile`` returns."""

    __slots__ = (
        "args", "backend", "before", "cpu", "cpu_ns", "device", "duration", "events", "failed", "memory",
        "operation", "parent", "profiler", "start", "thread", "token",
    )  # fmt: skip

    def __init__(self, profiler: GPUProfiler, operation: str, device: str, args: dict[str, Any]) -> None:
        self.profiler, self.operation, self.device, self.args = profiler, operation, device, args
        self.duration: int | None = None
        self.failed = False
        self.events: tuple[Any, Any] | None = None
        self.memory: tuple[float, float] | None = None

    def __enter__(self) -> _Span:
        profiler = self.profiler
        self.parent = _current.get()
        self.token = _current.set(self)
        self.thread = threading.get_ident()
        # Appending is atomic; the limit may be exceeded by as many spans as threads begin at once.
        if len(profiler._spans) < profiler.max_entries:
            profiler._spans.append(self)
        else:
            profiler._lose()
        if self.device == "cpu":
            self.backend = "cpu"
        else:
            self.backend, gpu = profiler._backend()
            self.before = gpu.memory() if gpu else None
            self.events = gpu.begin() if gpu else None
        self.cpu = time.thread_time_ns()
        self.start = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.duration = time.perf_counter_ns() - self.start
        # CPU time is a thread's own; a span that ends on another thread has none.
        same = threading.get_ident() == self.thread
        self.cpu_ns = time.thread_time_ns() - self.cpu if same else 0
        self.failed = kind is not None
        if self.events is not None and self.profiler._gpu is not None:
            self.memory = self.profiler._gpu.end(self.events, self.before)
        try:
            _current.reset(self.token)
        except ValueError:
            # It was opened in another task.
            pass


class _Nothing:
    """The span of a profiler that is off."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return None


_NOTHING = _Nothing()


class _TorchGpu:
    """CUDA events and memory of PyTorch. Nothing waits until a summary is asked for."""

    def __init__(self, torch: Any, device: int) -> None:
        self.cuda, self.device = torch.cuda, device

    def memory(self) -> float:
        self.cuda.reset_peak_memory_stats(self.device)
        return float(self.cuda.memory_allocated(self.device))

    def begin(self) -> tuple[Any, Any]:
        events = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
        events[0].record()
        return events

    def end(self, events: tuple[Any, Any], before: float | None) -> tuple[float, float]:
        events[1].record()
        after = float(self.cuda.memory_allocated(self.device))
        return after - (before or 0.0), float(self.cuda.max_memory_allocated(self.device))

    def elapsed_ms(self, events: tuple[Any, Any]) -> float:
        events[1].synchronize()
        return float(events[0].elapsed_time(events[1]))


class GPUProfiler:
    """Records spans. ``device_id`` chooses among several GPUs."""

    def __init__(self, enabled: bool = True, device_id: int = 0) -> None:
        self.enabled = enabled
        self.device_id = device_id
        self.max_entries = MOST
        self._lock = threading.Lock()
        self._gpu: _TorchGpu | None = None
        self.clear()
        _all.add(self)

    def clear(self) -> None:
        """Forgets all spans."""
        with self._lock:
            self._spans: list[_Span] = []
            self._lost = 0
            self._started = time.perf_counter_ns()
            self._started_unix = time.time_ns()

    reset = clear

    def enable(self) -> None:
        """Records from now on."""
        self.enabled = True

    def disable(self) -> None:
        """Records nothing from now on; what was recorded stays."""
        self.enabled = False

    def profile(self, operation: str, device: str = "cpu", **args: Any) -> _Span | _Nothing:
        """A context manager that records one span. Further arguments are kept with it."""
        if not self.enabled:
            return _NOTHING
        if device not in DEVICES and not device.startswith("cuda"):
            raise EllwandError(f"device: {device!r} is unknown; expected 'cpu' or 'gpu'")
        return _Span(self, operation, device, args)

    def profile_function(self, operation: str | None = None, device: str = "cpu") -> Callable[[F], F]:
        """A decorator that records a span for every call; the function's name is the operation unless given."""

        def decorate(function: F) -> F:
            name = operation or str(getattr(function, "__qualname__", "function"))

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                if not self.enabled:
                    return function(*args, **kwargs)
                with self.profile(name, device=device):
                    return function(*args, **kwargs)

            @functools.wraps(function)
            async def await_call(*args: Any, **kwargs: Any) -> Any:
                with self.profile(name, device=device):
                    return await function(*args, **kwargs)

            import inspect

            wrapped: Any = await_call if inspect.iscoroutinefunction(function) else call
            return wrapped  # type: ignore[no-any-return]

        return decorate

    def _lose(self) -> None:
        with self._lock:
            self._lost += 1

    def _backend(self) -> tuple[str, _TorchGpu | None]:
        """Who computes on the GPU: only what the program imported is asked."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            if self._gpu is None:
                self._gpu = _TorchGpu(torch, self.device_id)
            return "pytorch", self._gpu
        if "cupy" in sys.modules:
            return "cupy", None
        # Asked for and missing: the span is timed on the host, and says so.
        return "unavailable", None

    @property
    def entries(self) -> list[ProfileEntry]:
        """The finished spans, in the order in which they began."""
        with self._lock:
            spans = [span for span in self._spans if span.duration is not None]
        overhead = _overhead_ms() if spans else 0.0
        return [self._entry(span, overhead) for span in spans]

    def _entry(self, span: _Span, overhead: float) -> ProfileEntry:
        assert span.duration is not None
        start = (self._started_unix + span.start - self._started) * 1e-9
        wall, gpu = span.duration * 1e-6, 0.0
        if span.events is not None and self._gpu is not None:
            gpu = self._gpu.elapsed_ms(span.events)
        allocated, peak = span.memory or (0.0, 0.0)
        size = span.args.get("bytes", 0)
        return ProfileEntry(
            span.operation,
            start,
            start + span.duration * 1e-9,
            wall,
            span.device,
            span.backend,
            gpu_time_ms=gpu,
            cpu_time_ms=span.cpu_ns * 1e-6,
            overhead_ms=overhead,
            memory_allocated_mb=allocated / 1e6,
            memory_peak_mb=peak / 1e6,
            gpu_utilization=min(100.0, 100.0 * gpu / wall) if wall > 0 else 0.0,
            memory_bandwidth_gb_s=size / span.duration if isinstance(size, (int, float)) and span.duration else 0.0,
        )

    def get_summary(self) -> dict[str, ProfileSummary]:
        """A summary by operation, the one that took longest first."""
        groups: dict[str, list[ProfileEntry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.operation, []).append(entry)
        made = [_summary(operation, entries) for operation, entries in groups.items()]
        return {each.operation: each for each in sorted(made, key=lambda each: -each.total_time_ms)}

    def get_bottlenecks(self, top_n: int = 5) -> list[ProfileSummary]:
        """The operations that took longest in total."""
        return list(self.get_summary().values())[:top_n]

    def print_summary(self) -> None:
        """Prints a line an operation."""
        summary = self.get_summary()
        total = sum(each.total_time_ms for each in summary.values())
        print(f"{'operation':<28} {'calls':>7} {'total ms':>11} {'mean ms':>10} {'min ms':>10} {'max ms':>10} {'share':>7}")
        for each in summary.values():
            share = each.total_time_ms / total if total else 0.0
            print(
                f"{each.operation:<28.28} {each.call_count:>7} {each.total_time_ms:>11.3f} {each.avg_time_ms:>10.4f} "
                f"{each.min_time_ms:>10.4f} {each.max_time_ms:>10.4f} {share:>7.1%}"
            )
        if self._lost:
            print(f"lost: {self._lost} spans beyond the first {self.max_entries}")

    def print_bottlenecks(self, top_n: int = 5) -> None:
        """Prints the operations that took longest."""
        for rank, each in enumerate(self.get_bottlenecks(top_n), 1):
            print(f"[{rank}] {each.operation}: {each.total_time_ms:.2f} ms in {each.call_count} calls")
            if each.total_gpu_time_ms:
                print(f"    GPU {each.total_gpu_time_ms:.2f} ms, CPU {each.total_cpu_time_ms:.2f} ms")

    def document(self) -> dict[str, Any]:
        """The profile, as ``export_json`` writes it."""
        from ._profile_document import document

        return document(self, _overhead_ms() if self._spans else 0.0)

    def export_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the profile to a file."""
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self.document(), file, allow_nan=False, default=str)
        except OSError as error:
            raise EllwandError(f"{os.fspath(path)}: it cannot be written: {error.strerror}") from error


def _summary(operation: str, entries: list[ProfileEntry]) -> ProfileSummary:
    times = [entry.duration_ms for entry in entries]
    count, total = len(times), math.fsum(times)
    mean = total / count
    return ProfileSummary(
        operation,
        count,
        total,
        mean,
        min(times),
        max(times),
        math.sqrt(math.fsum((t - mean) ** 2 for t in times) / count),
        math.fsum(entry.gpu_time_ms for entry in entries),
        math.fsum(entry.cpu_time_ms for entry in entries),
        math.fsum(entry.memory_allocated_mb for entry in entries) / count,
        math.fsum(entry.gpu_utilization for entry in entries) / count,
    )


@functools.cache
def _overhead_ms() -> float:
    """What an empty span costs its caller, measured once: the median of a few."""
    probe = GPUProfiler()
    costs = []
    for _ in range(64):
        start = time.perf_counter_ns()
        with probe.profile("empty"):
            pass
        costs.append(time.perf_counter_ns() - start)
    return sorted(costs)[len(costs) // 2] * 1e-6


_global: GPUProfiler | None = None
_global_lock = threading.Lock()


def get_profiler(enabled: bool = True, device_id: int = 0) -> GPUProfiler:
    """The profiler of the whole program. The first call decides its arguments."""
    global _global
    with _global_lock:
        if _global is None:
            _global = GPUProfiler(enabled, device_id)
        return _global


def _after_fork() -> None:
    """A child begins with no spans: those of its parent are the parent's to report."""
    global _global_lock
    _global_lock = threading.Lock()
    _current.set(None)
    for profiler in list(_all):
        profiler._lock = threading.Lock()
        profiler.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
