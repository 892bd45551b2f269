"""Cost of a span in Python, next to other profilers: CPU time of the thread, in turns of random order.

    python peers/python/spans.py [rounds]

The package must be installed. The empty context manager is compiled with `cc`; PyTorch and nvtx are included if installed
(`pip install nvtx`). Without an attached profiler, nvtx only checks for one.
"""

import cProfile
import contextlib
import importlib.util
import os
import platform
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from ellwand.profiler import GPUProfiler

USES = 5000


def empty_manager():
    """A context manager in C that does nothing."""
    folder = tempfile.mkdtemp(prefix="ellwand-")
    path = os.path.join(folder, "empty.so")
    source = Path(__file__).with_name("empty.c")
    include = sysconfig.get_paths()["include"]
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", path], check=True)
    spec = importlib.util.spec_from_file_location("empty", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Empty


def use(manager):
    """Enters and leaves one object repeatedly."""

    def run(count):
        for _ in range(count):
            with manager:
                pass

    return run


def make(factory, *args):
    """Makes a manager for each use."""

    def run(count):
        for _ in range(count):
            with factory(*args):
                pass

    return run


def call(function):
    def run(count):
        for _ in range(count):
            function()

    return run


def loop(count):
    for _ in range(count):
        pass


def nothing():
    pass


@contextlib.contextmanager
def seed_style(spans):
    start = time.perf_counter()
    try:
        yield
    finally:
        spans.append((start, time.perf_counter()))


def profiled(count):
    with cProfile.Profile():
        call(nothing)(count)


def rows():
    """The participants: name, body, and what to do between turns."""
    profiler, off = GPUProfiler(max_entries=4 * USES), GPUProfiler(enabled=False)
    spans: list = []
    Empty = empty_manager()
    yield "loop", loop, None
    yield "Python function, called", call(nothing), None
    yield "empty C manager, reused", use(Empty()), None
    yield "empty C manager, new", make(Empty), None
    yield "ellwand, function", call(profiler.profile_function()(nothing)), profiler.clear
    yield "ellwand, reused `with`", use(profiler.profile("reused")), profiler.clear
    yield "ellwand, new `with span(name)`", make(profiler.span, "new"), profiler.clear
    yield "ellwand, new `with profile(name)`", make(profiler.profile, "new"), profiler.clear
    yield "ellwand off, function", call(off.profile_function()(nothing)), None
    yield "ellwand off, reused `with`", use(off.profile("reused")), None
    yield "contextlib and a list", make(seed_style, spans), spans.clear
    yield "cProfile, function", profiled, None
    if importlib.util.find_spec("nvtx"):
        import nvtx

        yield "nvtx annotate, new", make(nvtx.annotate, "new"), None
        yield "nvtx annotate, function", call(nvtx.annotate("nothing")(nothing)), None
    if importlib.util.find_spec("torch"):
        import torch

        yield "torch record_function", make(torch.profiler.record_function, "new"), None


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    table = list(rows())
    costs: dict[str, list[float]] = {name: [] for name, _, _ in table}
    for _ in range(rounds):
        for name, body, after in random.sample(table, len(table)):
            start = time.thread_time_ns()
            body(USES)
            costs[name].append((time.thread_time_ns() - start) / USES)
            if after:
                after()
    bare = statistics.median(costs.pop("loop"))
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"CPython {platform.python_version()}, load {load}, asyncio {'imported' if 'asyncio' in sys.modules else 'absent'}")
    print(f"{'CPU time per use, loop subtracted':<36} {'median':>10} {'least':>10}")
    for name, values in costs.items():
        print(f"{name:<36} {statistics.median(values) - bare:>7.0f} ns {min(values) - bare:>7.0f} ns")


if __name__ == "__main__":
    main()
