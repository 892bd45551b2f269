"""Thread pools of other libraries: they get the declared number of threads, which sleep soon after their work."""

from __future__ import annotations

import os
import sys

__all__ = ["limit", "of_xla", "tame"]

#: Spins before an OpenMP thread sleeps, about 0.1 ms. GNU OpenMP by default spins for milliseconds, which would slow down the
#: implementation in the next slot; without spinning, each operator would pay for a wake-up.
SPINS = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}

#: XLA's CPU client reads NPROC once, when JAX finds its devices.
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NPROC")


def tame() -> None:
    """Called in a worker before it imports any framework. Values set by the user stay."""
    for name, value in SPINS.items():
        os.environ.setdefault(name, value)


def limit(threads: int) -> None:
    """Gives every pool ``threads`` threads, whether its library is loaded or not. XLA's pool is fixed once JAX has computed."""
    for name in _POOLS:
        os.environ[name] = str(threads)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
    _limit_openblas(threads)


def of_xla() -> int | None:
    """Threads in XLA's pool for operations on the CPU, counted; None if the system does not name threads."""
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        return None
    count = 0
    for task in tasks:
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as name:
                count += name.read().startswith("tf_XLAEigen")
        except OSError:
            # The thread has ended meanwhile.
            continue
    return count or None


def _limit_openblas(threads: int) -> None:
    """Sets the thread count of NumPy's own OpenBLAS, which reads its variables only once, when NumPy is imported."""
    import ctypes

    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            # The path is the sixth field and may contain spaces.
            paths = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps if "openblas" in line and ".so" in line}
    except OSError:
        # Without /proc the pool keeps the size from the environment.
        return
    names = [f"{scipy}openblas_set_num_threads{suffix}" for scipy in ("scipy_", "") for suffix in ("64_", "")]
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            # The file was replaced after it was loaded.
            continue
        function = next((getattr(library, name) for name in names if hasattr(library, name)), None)
        if function is not None:
            function(ctypes.c_int(threads))
