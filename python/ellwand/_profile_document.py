"""A profile of ``ellwand.profiler`` as a document in the project's format (docs/profile-format.md)."""

from __future__ import annotations

import math
import os
import platform
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .profiler import GPUProfiler, ProfileSummary
    from .profiler import _Span as Span

__all__ = ["document"]


def document(profiler: GPUProfiler, overhead_ms: float) -> dict[str, Any]:
    """The profile in the project's format."""
    with profiler._lock:
        recorded = list(profiler._spans)
    wall = time.perf_counter_ns() - profiler._started
    lanes = list(dict.fromkeys(span.thread for span in recorded))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lane = {thread: at for at, thread in enumerate(lanes)}
    operation = {name: at for at, name in enumerate(dict.fromkeys(span.operation for span in recorded))}
    spans = sorted(recorded, key=lambda span: (lane[span.thread], span.start))
    place = {id(span): at for at, span in enumerate(spans)}
    details = [_detail(span) for span in spans]
    kept = [detail for detail in details if detail]
    numbers = iter(range(len(kept)))
    summary = profiler.get_summary()
    return {
        "format": "ellwand profile",
        "version": 1,
        "name": os.path.basename(sys.argv[0] or "python"),
        "started_unix_ns": profiler._started_unix,
        "wall_ns": float(wall),
        "clock": {"kind": "python perf_counter", "ns_per_tick": 1.0},
        "environment": {
            "cpu": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "os": platform.system().lower(),
            "program": f"python {platform.python_version()}",
        },
        "cost": {"span_ns": overhead_ms * 1e6},
        "losses": {"spans": profiler._lost, "open": sum(span.duration is None for span in recorded)},
        "operations": [{"name": name, "kind": "cpu"} for name in operation],
        "lanes": [{"name": names.get(ident) or f"thread {ident}", "kind": "thread"} for ident in lanes],
        "entries": {
            "operation": [operation[span.operation] for span in spans],
            "lane": [lane[span.thread] for span in spans],
            "parent": [_parent(span, place) for span in spans],
            "start_ns": [span.start - profiler._started for span in spans],
            "duration_ns": [span.duration for span in spans],
            "link": [0] * len(spans),
            "detail": [next(numbers) if detail else -1 for detail in details],
        },
        "details": kept,
        "totals": [],
        "tracks": [],
        "summary": [_summary_row(each, spans, wall) for each in summary.values()],
        "gpu_profiler": {
            "entries": [asdict(entry) for entry in profiler.entries],
            "summary": {name: asdict(each) for name, each in summary.items()},
        },
    }


def _parent(span: Span, place: dict[int, int]) -> int:
    """The enclosing span on the same lane; a task that another thread began has none there."""
    parent = span.parent
    if parent is None or parent.profiler is not span.profiler or parent.thread != span.thread:
        return -1
    return place.get(id(parent), -1)


def _detail(span: Span) -> dict[str, Any]:
    detail: dict[str, Any] = {}
    if span.duration is not None:
        detail["cpu_ns"] = span.cpu_ns
    if span.memory is not None:
        detail["allocated_bytes"], detail["peak_bytes"] = (int(value) for value in span.memory)
    if isinstance(span.args.get("bytes"), int):
        detail["bytes"] = span.args["bytes"]
    args = {**span.args, **({"device": span.device, "backend": span.backend} if span.device != "cpu" else {})}
    if span.failed:
        args["raised"] = True
    if args:
        detail["args"] = args
    return detail


def _summary_row(each: ProfileSummary, spans: Iterable[Span], wall: int) -> dict[str, Any]:
    own = [span for span in spans if span.operation == each.operation]
    ids = {id(span) for span in own}
    inner = sum(
        span.duration or 0 for span in spans if span.parent is not None and id(span.parent) in ids and span.thread == span.parent.thread
    )
    times = sorted(span.duration for span in own if span.duration is not None)

    def quantile(share: float) -> float:
        return float(times[min(len(times) - 1, math.ceil(share * len(times)) - 1)])

    total = each.total_time_ms * 1e6
    return {
        "operation": each.operation,
        "calls": each.call_count,
        "open": sum(span.duration is None for span in own),
        "total_ns": total,
        "self_ns": max(0.0, total - inner),
        "mean_ns": each.avg_time_ms * 1e6,
        "min_ns": each.min_time_ms * 1e6,
        "max_ns": each.max_time_ms * 1e6,
        "std_ns": each.std_dev_ms * 1e6,
        "p50_ns": quantile(0.5),
        "p90_ns": quantile(0.9),
        "p99_ns": quantile(0.99),
        "share_of_wall": total / wall if wall else 0.0,
        "cpu_ns": each.total_cpu_time_ms * 1e6,
    }
