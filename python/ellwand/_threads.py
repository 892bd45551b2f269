"""Thread pools of other libraries: sets the declared number of threads, and lets them sleep soon after their work."""

from __future__ import annotations

import os
import sys

__all__ = ["limit", "tame"]

#: Spins before an OpenMP thread sleeps, about 0.1 ms. By default GNU OpenMP spins for milliseconds, which would slow the
#: implementation in the next slot; without any spinning, each operator would pay for a wake-up.
SPINS = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}

_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def tame() -> None:
    """Call in a worker before any framework is imported. Keeps values that the user set."""
    for name, value in SPINS.items():
        os.environ.setdefault(name, value)


def limit(threads: int) -> None:
    """Gives every pool ``threads`` threads, whether its library is loaded or not."""
    for name in _POOLS:
        os.environ[name] = str(threads)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
    _limit_openblas(threads)


def _limit_openblas(threads: int) -> None:
    """The OpenBLAS that NumPy brings reads its variables once, when NumPy is imported."""
    import ctypes

    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split()[-1] for line in maps if "openblas" in line and ".so" in line}
    except OSError:
        # Without /proc the pool keeps the setting of the environment.
        return
    names = [f"{scipy}openblas_set_num_threads{suffix}" for scipy in ("scipy_", "") for suffix in ("64_", "")]
    for path in paths:
        library = ctypes.CDLL(path)
        function = next((getattr(library, name) for name in names if hasattr(library, name)), None)
        if function is not None:
            function(ctypes.c_int(threads))
