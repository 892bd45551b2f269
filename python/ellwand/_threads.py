"""Thread pools of other libraries: as many threads as were declared, asleep soon after their work."""

from __future__ import annotations

import os
import sys

__all__ = ["limit", "of_xla", "tame"]

#: Spins before an OpenMP thread sleeps, about 0.1 ms. The default of GNU OpenMP spins for milliseconds, which the implementation
#: that takes the next slot would pay for; no spinning at all would charge each operator a wake-up.
SPINS = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}

#: XLA's CPU client reads NPROC once, when JAX finds its devices.
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NPROC")


def tame() -> None:
    """Called in a worker before any framework is imported. Values that the user set stay."""
    for name, value in SPINS.items():
        os.environ.setdefault(name, value)


def limit(threads: int) -> None:
    """Gives every pool ``threads`` threads, whether its library is loaded or not. XLA's is fixed once JAX has computed."""
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
            # It ended meanwhile.
            continue
    return count or None


def _limit_openblas(threads: int) -> None:
    """The OpenBLAS that NumPy brings reads its variables once, when NumPy is imported."""
    import ctypes

    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            # A path may have spaces; it is the sixth field.
            paths = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps if "openblas" in line and ".so" in line}
    except OSError:
        # Without /proc the pool keeps what the environment says.
        return
    names = [f"{scipy}openblas_set_num_threads{suffix}" for scipy in ("scipy_", "") for suffix in ("64_", "")]
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            # A file that was replaced since it was loaded.
            continue
        function = next((getattr(library, name) for name in names if hasattr(library, name)), None)
        if function is not None:
            function(ctypes.c_int(threads))
