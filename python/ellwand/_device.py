"""The GPU that PyTorch drives: the stream whose work is timed, and spans timed by device events. Nothing waits for the events
until a summary is requested."""

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

#: Directions of transfers, as named in profile files.
TRANSFERS = ("host-to-device", "device-to-host")

#: Device-clock time of the first event, in nanoseconds; event times are relative to each other.
ORIGIN = 1_000_000_000

#: CUDA returns the time between two events as a 32-bit float in milliseconds. So a time is read from an event at most this
#: old while the program keeps working; over a second the steps are 61 ns.
ANCHOR_S = 1.0


#: The stream whose work is timed, if any, and the number of its device.
timed: tuple[int, int] | None = None
#: CuPy holds only a weak reference to its current stream.
_held: Any = None


def use(stream: tuple[int, int] | None) -> None:
    """Makes a CUDA stream the current one of PyTorch and CuPy in this thread, if they are imported."""
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
        # Stays current until another stream is used.
        _held = cupy.cuda.ExternalStream(handle, device).use()


class Moment:
    """An event on a device. Its time is computed from that of an earlier event."""

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
            # Earlier events are no longer needed.
            moment.at, moment.anchor = at, None
        return at

    def ns_to(self, later: Moment) -> int:
        """The time from this event to a later one; waits for the later one."""
        later.event.synchronize()
        ms: float = self.event.elapsed_time(later.event)
        return round(ms * 1e6)


class TorchGpu:
    """Events and memory of a CUDA device."""

    def __init__(self, torch: Any, device: int, recorder: type[Recorder]) -> None:
        self.cuda, self.device = torch.cuda, device
        self.lock, self.collecting = threading.Lock(), threading.Lock()
        self.pending: list[tuple[str, str, Cause | None, Moment, Moment]] = []
        #: Open spans, each with its largest memory so far.
        self.open: list[Open] = []
        self.anchor = Moment(self._event(), None, ORIGIN)
        self.anchor.event.synchronize()
        self.renewed = time.monotonic()
        # Clock drift is known from here to the time of a collection.
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
        """Allocated bytes, and the maximum since the last call; every open span takes over the maximum."""
        # `memory_allocated` and similar functions flatten and sort all statistics, which takes longer than a span.
        allocated = self.cuda.memory_stats_as_nested_dict(self.device).get("allocated_bytes", {}).get("all", {})
        now, most = float(allocated.get("current", 0)), float(allocated.get("peak", 0))
        self.cuda.reset_peak_memory_stats(self.device)
        with self.lock:
            for opened in self.open:
                opened.most = max(opened.most, most)
        return now, most

    def collect(self, recorder: Recorder) -> None:
        """Adds the device's work since the last call to the profile."""
        with self.collecting:
            with self.lock:
                pending, self.pending = self.pending, []
            spans = []
            try:
                for name, kind, link, begin, end in pending:
                    at = begin.ns()
                    # Not the difference of two times, since each is rounded.
                    spans.append((name, kind, link, at, at + begin.ns_to(end)))
                if spans:
                    recorder._collect(f"cuda:{self.device}", spans, lambda: self.moment().ns(), self.pairs)
            except RuntimeError as error:
                # A failed device answers no more, but the spans of the host are still good.
                warnings.warn(f"cuda:{self.device}: the times of {len(pending)} spans are lost: {describe(error)}", stacklevel=4)


class Open:
    """An open span: its state at the start, and the most memory since."""

    __slots__ = ("before", "begin", "most")

    def __init__(self, before: float, begin: Moment) -> None:
        self.before, self.begin, self.most = before, begin, before


class DeviceSpan:
    """A span on the host and the work it started on the device: kernels, or a transfer (``kind``). Like a host span, it can be
    reused, nested in itself and used by several threads."""

    def __init__(self, gpu: TorchGpu, region: Region, operation: str, kind: str) -> None:
        self.gpu, self.region, self.operation, self.kind = gpu, region, operation, kind
        self.here = threading.local()

    def __enter__(self) -> DeviceSpan:
        before, _ = self.gpu.memory()
        self.region.__enter__()
        try:
            # Device clock after the host clock: the span is the cause.
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
            # The program's own exception explains the failure.
            if error is None:
                raise
        finally:
            with self.gpu.lock:
                self.gpu.open.remove(opened)
            self.region.__exit__(kind, error, trace)
