"""The GPU that PyTorch drives: the stream on which work is timed, and spans of its events, which nothing waits for until a
summary is asked for."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import Cause, Recorder, Region

__all__ = ["TRANSFERS", "DeviceSpan", "TorchGpu", "use"]

#: Directions of transfers, as files of profiles name them.
TRANSFERS = ("host-to-device", "device-to-host")

#: Nanoseconds on the device's clock at its first event; times of events are relative to each other.
ORIGIN = 1_000_000_000


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


class TorchGpu:
    """Events and memory of a CUDA device."""

    def __init__(self, torch: Any, device: int, recorder: type[Recorder]) -> None:
        self.cuda, self.device = torch.cuda, device
        self.lock = threading.Lock()
        self.pending: list[tuple[str, str, Cause | None, Any, Any]] = []
        self.first = self.event()
        self.first.synchronize()
        # The drift of the two clocks is known from here to the time of a collection.
        self.pairs = [self.pair(recorder) for _ in range(4)]

    def event(self) -> Any:
        """An event on the current stream."""
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return event

    def ns(self, event: Any) -> int:
        """The time of an event on the device's clock; waits for it."""
        event.synchronize()
        ms: float = self.first.elapsed_time(event)
        return ORIGIN + round(ms * 1e6)

    def pair(self, recorder: type[Recorder]) -> tuple[int, int, int]:
        """One moment on both clocks."""
        before = recorder._ticks()
        return before, self.ns(self.event()), recorder._ticks()

    def collect(self, recorder: Recorder) -> None:
        """Adds what the device did since the last call to the profile."""
        with self.lock:
            pending, self.pending = self.pending, []
        spans = [(name, kind, link, self.ns(begin), self.ns(end)) for name, kind, link, begin, end in pending]
        if spans:
            recorder._collect(f"cuda:{self.device}", spans, lambda: self.ns(self.event()), self.pairs)


class DeviceSpan:
    """A span on the host and what it started on the device: kernels, or a transfer (``kind``)."""

    def __init__(self, gpu: TorchGpu, region: Region, operation: str, kind: str) -> None:
        self.gpu, self.region, self.operation, self.kind = gpu, region, operation, kind

    def __enter__(self) -> DeviceSpan:
        self.region.__enter__()
        self.gpu.cuda.reset_peak_memory_stats(self.gpu.device)
        self.before = float(self.gpu.cuda.memory_allocated(self.gpu.device))
        self.begin = self.gpu.event()
        return self

    def add(self, **args: Any) -> None:
        """Adds arguments to the open span."""
        self.region.add(**args)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end, cuda, device = self.gpu.event(), self.gpu.cuda, self.gpu.device
        after, peak = float(cuda.memory_allocated(device)), float(cuda.max_memory_allocated(device))
        self.region.add(gpu_allocated_bytes=after - self.before, gpu_peak_bytes=peak)
        link = self.region._link()
        with self.gpu.lock:
            self.gpu.pending.append((self.operation, self.kind, link, self.begin, end))
        self.region.__exit__(kind, error, trace)
