"""Framework compilers: how many programs they compiled in this process, how long that took, and the programs' text.

JAX reports through ``jax.monitoring``, PyTorch through dynamo's counters. Neither is imported here.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["LATER", "LOWERED", "Watch", "listen", "save", "uncounted"]

#: Names the folder for the text of the programs that JAX and torch.compile compile.
LOWERED = "ELLWAND_LOWERED"

#: Tracing, lowering and compiling; each program reports the last one once.
_STAGES = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_COUNT = "compiled programs; more than one for a case is a recompilation, for example after a change of shape"
_TIME = "time in the compiler in this process, in preparation and runs; disk caches shorten it"

#: The reading of a function that is compiled again in later runs, and the least number of programs: a single one may be a
#: specialisation after the first run.
LATER, LEAST_LATER = "compiled-later", 2
_LATER = "programs compiled after the first run was checked: the times include the compiler's"

_jax = {"programs": 0, "seconds": 0.0}
_listening = False
#: Programs and seconds that belong to no implementation.
_excluded = (0, 0.0)


def _heard(event: str, seconds: float, **_more: Any) -> None:
    if event in _STAGES:
        _jax["seconds"] += seconds
        _jax["programs"] += event == _STAGES[-1]


def listen() -> None:
    """Counts the programs that JAX compiles from now on, if it is imported."""
    global _listening
    jax = sys.modules.get("jax")
    if jax is not None and not _listening:
        jax.monitoring.register_event_duration_secs_listener(_heard)
        _listening = True


def _totals() -> tuple[int, float]:
    """Programs and seconds of both compilers so far."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    programs, seconds = int(_jax["programs"]), _jax["seconds"]
    if utils is not None:
        programs += utils.counters["stats"].get("unique_graphs", 0)
        seconds += sum(utils.compilation_time_metrics.get("_compile.compile_inner", ()))
    return programs - _excluded[0], seconds - _excluded[1]


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Counts no compilation inside, such as that of the reference."""
    global _excluded
    listen()
    before, had = _totals(), _excluded
    try:
        yield
    finally:
        programs, seconds = _totals()
        _excluded = had[0] + programs - before[0], had[1] + seconds - before[1]


class Watch:
    """Counts the programs compiled since its creation."""

    def __init__(self) -> None:
        listen()
        self.before = _totals()
        #: Programs up to the first checked run.
        self.first: int | None = None

    def checked(self) -> None:
        """A run was checked: what is compiled after the first one is compiled again."""
        if self.first is None:
            self.first = self.programs

    @property
    def programs(self) -> int:
        """Programs compiled since then."""
        return _totals()[0] - self.before[0]

    def readings(self) -> list[dict[str, Any]]:
        """Number of programs and compile time, and the programs of later runs; nothing if nothing was compiled."""
        programs, seconds = (now - then for now, then in zip(_totals(), self.before))
        if not programs:
            return []
        later = 0 if self.first is None else programs - self.first
        rows = [
            {"id": "compiled-graphs", "title": "compiled graphs", "value": programs, "about": _COUNT},
            {"id": "compile-time", "title": "compiled in", "unit": "s", "better": "lower", "value": seconds, "about": _TIME},
        ]
        again = {"id": LATER, "title": "compiled later", "better": "lower", "value": later, "about": _LATER}
        return [*rows, again] if later >= LEAST_LATER else rows


def save(*names: str) -> None:
    """Makes the compilers write the text of the next programs, if ``ELLWAND_LOWERED`` names a folder.

    JAX writes the lowered text of each program, inductor its graphs and the code it generates. ``names`` (workload, case and
    implementation) are the subfolders.
    """
    folder = os.environ.get(LOWERED)
    if not folder:
        return
    path = os.path.join(os.path.abspath(folder), *(re.sub(r"[^\w.,=+-]+", "_", name) for name in names))
    os.makedirs(path, exist_ok=True)
    jax = sys.modules.get("jax")
    if jax is not None:
        jax.config.update("jax_dump_ir_to", path)
    if "torch" in sys.modules:
        from torch._dynamo import config as dynamo
        from torch._inductor import config as inductor

        dynamo.debug_dir_root = path
        inductor.trace.enabled = True
        # A graph from the cache is not compiled and has no text.
        inductor.force_disable_caches = True
