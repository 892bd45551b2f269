"""Spans of ``ellwand.profiler`` on a device, with a mock of CUDA."""

import sys
import time
import types

import numpy as np
import pytest

from ellwand._device import Moment
from ellwand.profiler import GPUProfiler


class FakeCuda:
    """Events of a device whose clock is the host's."""

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self, stream):
            assert stream == "the stream of 0"
            self.at = time.perf_counter()

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return (end.at - self.at) * 1e3

    is_available = staticmethod(lambda: True)
    current_stream = staticmethod(lambda device: f"the stream of {device}")
    reset_peak_memory_stats = staticmethod(lambda _: None)

    @staticmethod
    def statistics(current):
        return {"allocated_bytes": {"all": {"current": current, "peak": 6_000_000}}}


def test_work_of_a_device_is_linked_to_its_span(monkeypatch):
    cuda = FakeCuda()
    sizes = iter([1e6, 5e6, 5e6, 9e6])
    cuda.memory_stats_as_nested_dict = lambda _: cuda.statistics(next(sizes))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    profiler = GPUProfiler()
    with profiler.profile("step"):
        with profiler.profile("kernel", device="gpu"):
            time.sleep(0.005)
    with profiler.profile("copy in", device="host-to-device"):
        time.sleep(0.002)
    copied = next(entry for entry in profiler.entries if entry.operation == "copy in")
    assert copied.gpu_time_ms == 0 and 2 <= copied.transfer_time_ms <= copied.duration_ms
    kernel = next(entry for entry in profiler.entries if entry.operation == "kernel")
    assert kernel.transfer_time_ms == 0
    assert (kernel.device, kernel.backend) == ("gpu", "pytorch") and 5 <= kernel.gpu_time_ms <= kernel.duration_ms
    assert (kernel.memory_allocated_mb, kernel.memory_peak_mb) == (4, 6)
    summary = profiler.get_summary()
    assert summary["kernel"].total_gpu_time_ms == pytest.approx(kernel.gpu_time_ms) == summary["step"].total_gpu_time_ms
    assert summary["kernel"].avg_memory_mb == 4
    document = profiler.document()
    assert [lane["kind"] for lane in document["lanes"]] == ["thread", "stream"]


def test_a_device_that_fails_leaves_the_span_and_the_exception_of_the_program(monkeypatch):
    cuda = FakeCuda()
    cuda.memory_stats_as_nested_dict = lambda _: {}
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    profiler = GPUProfiler()
    with pytest.raises(ValueError, match="of the program"), profiler.profile("fails", device="cuda:0"):
        del cuda.memory_stats_as_nested_dict
        raise ValueError("of the program")
    with profiler.profile("after"):
        pass
    assert [entry.operation for entry in profiler.entries] == ["fails", "after"]
    assert set(profiler.document()["entries"]["parent"]) == {-1}


def test_device_times_stay_exact_for_hours():
    """CUDA returns the time between two events in milliseconds, as a 32-bit float."""
    class Event:
        def __init__(self, ns):
            self.at = ns

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return float(np.float32((end.at - self.at) / 1e6))

    moments = [Moment(Event(0), None, 0)]
    # An event a second for a day, each the anchor of the next.
    for second in range(1, 86_401):
        moments.append(Moment(Event(second * 1_000_000_123), moments[-1]))
    begin, end = moments[-1], Moment(Event(86_400 * 1_000_000_123 + 170_000), moments[-1])
    assert end.ns() - begin.ns() == pytest.approx(170_000, abs=20)
    assert begin.ns() == pytest.approx(86_400 * 1_000_000_123, rel=1e-7)
    assert all(moment.anchor is None for moment in moments), "what came before can be forgotten"
