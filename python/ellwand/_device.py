"""The GPU that PyTorch drives: the stream on which work is timed, and spans of its events, which nothing waits for until a
summary is asked for."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._errors import describe

if TYPE_CHECKING:
    from ._native import Cause, Recorder, Region

__all__ = ["TRANSFERS", "DeviceSpan", "TorchGpu", "use"]

#: Directions of transfers, as files of profiles name them.
TRANSFERS = ("host-to-device", "device-to-host")

#: Nanoseconds on the device's clock at its first event; times of events are relative to each other.
ORIGIN = 1_000_000_000

#: The time between two events is a float of 32 bits in milliseconds, so it is read from an event that is at most this old
#: where the program works on; a second has steps of 61 ns.
ANCHOR_S = 1.0


#: The stream on which work is timed, if there is one, and the number of its device.
timed: tuple[int, int] | None = None
#: CuPy refers to its current stream weakly.
_held: Any = None


def use(stream: tuple[int, int] | None) -> None:
    """Makes a CUDA stream the current one of PyTorch and CuPy in this thread, as far as they are imported."""
    global timed, _held
    timed = stream
    if stream is None:
        return
    handle, device = stream
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.set_stream(torch.cuda.ExternalStream(handle, device=device))
    if cupy is not None:
        cupy.cuda.Device(device).use()
        # Current until another one is used.
        _held = cupy.cuda.ExternalStream(handle, device).use()


class Moment:
    """An event on a device, whose time follows from that of an earlier one."""

    __slots__ = ("anchor", "at", "event")

    def __init__(self, event: Any, anchor: Moment | None, at: int | None = None) -> None:
        self.event, self.anchor, self.at = event, anchor, at

    def ns(self) -> int:
        """Its time on the device's clock; waits for it."""
        moments: list[Moment] = [self]
        while moments[-1].at is None and moments[-1].anchor is not None:
            moments.append(moments[-1].anchor)
        at = moments.pop().at
        assert at is not None
        for moment in reversed(moments):
            assert moment.anchor is not None
            at += moment.anchor.ns_to(moment)
            # What came before is not needed any more.
            moment.at, moment.anchor = at, None
        return at

    def ns_to(self, later: Moment) -> int:
        """The time from here to a later moment; waits for it."""
        later.event.synchronize()
        ms: float = self.event.elapsed_time(later.event)
        return round(ms * 1e6)


class TorchGpu:
    """Events and memory of a CUDA device."""

    def __init__(self, torch: Any, device: int, recorder: type[Recorder]) -> None:
        self.cuda, self.device = torch.cuda, device
        self.lock, self.collecting = threading.Lock(), threading.Lock()
        self.pending: list[tuple[str, str, Cause | None, Moment, Moment]] = []
        #: Spans that are open, each with its largest memory so far.
        self.open: list[Open] = []
        self.anchor = Moment(self._event(), None, ORIGIN)
        self.anchor.event.synchronize()
        self.renewed = time.monotonic()
        # The drift of the two clocks is known from here to the time of a collection.
        self.pairs = [self.pair(recorder) for _ in range(4)]

    def _event(self) -> Any:
        event = self.cuda.Event(enable_timing=True)
        event.record(self.cuda.current_stream(self.device))
        return event

    def moment(self) -> Moment:
        """An event on the device's current stream."""
        moment, now = Moment(self._event(), self.anchor), time.monotonic()
        if now - self.renewed > ANCHOR_S:
            self.anchor, self.renewed = moment, now
        return moment

    def pair(self, recorder: type[Recorder]) -> tuple[int, int, int]:
        """One moment on both clocks."""
        before = recorder._ticks()
        return before, self.moment().ns(), recorder._ticks()

    def memory(self) -> tuple[float, float]:
        """The bytes that are allocated, and the most since the last call, which every open span takes over."""
        # `memory_allocated` and its like flatten and sort all statistics, which takes longer than a span.
        allocated = self.cuda.memory_stats_as_nested_dict(self.device).get("allocated_bytes", {}).get("all", {})
        now, most = float(allocated.get("current", 0)), float(allocated.get("peak", 0))
        self.cuda.reset_peak_memory_stats(self.device)
        with self.lock:
            for opened in self.open:
                opened.most = max(opened.most, most)
        return now, most

    def collect(self, recorder: Recorder) -> None:
        """Adds what the device did since the last call to the profile."""
        with self.collecting:
            with self.lock:
                pending, self.pending = self.pending, []
            spans = []
            try:
                for name, kind, link, begin, end in pending:
                    at = begin.ns()
                    # Not the difference of two times, each of which is rounded.
                    spans.append((name, kind, link, at, at + begin.ns_to(end)))
                if spans:
                    recorder._collect(f"cuda:{self.device}", spans, lambda: self.moment().ns(), self.pairs)
            except RuntimeError as error:
                # A device that failed answers no more, and the spans of the host are good.
                warnings.warn(f"cuda:{self.device}: the times of {len(pending)} spans are lost: {describe(error)}", stacklevel=4)


class Open:
    """A span that is open: what it found, and the most memory since."""

    __slots__ = ("before", "begin", "most")

    def __init__(self, before: float, begin: Moment) -> None:
        self.before, self.begin, self.most = before, begin, before


class DeviceSpan:
    """A span on the host and what it started on the device: kernels, or a transfer (``kind``). Like a span of the host, it may be
    used again, inside itself and by several threads."""

    def __init__(self, gpu: TorchGpu, region: Region, operation: str, kind: str) -> None:
        self.gpu, self.region, self.operation, self.kind = gpu, region, operation, kind
        self.here = threading.local()

    def __enter__(self) -> DeviceSpan:
        before, _ = self.gpu.memory()
        self.region.__enter__()
        try:
            # On the device's clock after the host's: the span is the cause.
            opened = Open(before, self.gpu.moment())
        except BaseException:
            self.region.__exit__(*sys.exc_info())
            raise
        self.here.__dict__.setdefault("opened", []).append(opened)
        with self.gpu.lock:
            self.gpu.open.append(opened)
        return self

    def add(self, **args: Any) -> None:
        """Adds arguments to the open span."""
        self.region.add(**args)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened: Open = self.here.opened.pop()
        try:
            end = self.gpu.moment()
            after, _ = self.gpu.memory()
            self.region.add(gpu_allocated_bytes=after - opened.before, gpu_peak_bytes=opened.most)
            link = self.region._link()
            with self.gpu.lock:
                self.gpu.pending.append((self.operation, self.kind, link, opened.begin, end))
        except Exception:
            # The program's own exception says what failed.
            if error is None:
                raise
        finally:
            with self.gpu.lock:
                self.gpu.open.remove(opened)
            self.region.__exit__(kind, error, trace)
