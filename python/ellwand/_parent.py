"""Ends a measurement's command when the script that started it is gone, and deletes its folder."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Iterator

__all__ = ["followed"]

PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def followed(call: str) -> Iterator[None]:
    """Asks the system for SIGTERM when the parent ends, which ends the command and its workers. Only Linux offers this: on other
    systems the measurement runs to its end."""
    with open(f"{call}.parent", encoding="ascii") as file:
        parent = int(file.read())
    # Until the command has its own handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    try:
        if os.getppid() == parent:
            yield
        else:
            sys.exit(128 + signal.SIGTERM)
    finally:
        if os.getppid() != parent:
            shutil.rmtree(os.path.dirname(call), ignore_errors=True)
