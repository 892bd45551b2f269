"""The user's files and functions in a worker: ``--load FILE`` and the functions of ``ellwand.bench``."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from typing import Any

from ._errors import EllwandError, describe

__all__ = ["Stop", "load", "main_module", "replay", "take"]

OPTION = "--load"


class Stop(BaseException):
    """Ends the execution of a script that is loaded for its functions, where it would measure again."""


#: While a script is loaded for its functions: what its measurements returned or raised where it ran first, up to the one that asked
#: for this process.
replayed: list[Any] | None = None


def replay() -> Any:
    """What the measurement that a script begins here returned where it ran first; None if it is the script's first run. Ends a script
    that is loaded where it asked for this process."""
    if replayed is None:
        return None
    if not replayed:
        raise Stop
    outcome = replayed.pop(0)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def take(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files after ``--load``, and the other arguments."""
    files: list[str] = []
    rest: list[str] = []
    left = list(args)
    while left:
        word = left.pop(0)
        if word == "--":
            return files, [*rest, word, *left]
        if word == OPTION:
            if not left or left[0].startswith("-"):
                raise EllwandError(f"{OPTION}: no file follows; expected a Python file, as in {OPTION} my.py")
            files.append(left.pop(0))
        elif word.startswith(OPTION + "="):
            files.append(word[len(OPTION) + 1 :])
        else:
            rest.append(word)
    return files, rest


def load(path: str) -> None:
    """Runs a file that registers workloads or implementations."""
    if not os.path.isfile(path):
        raise EllwandError(f"{OPTION} {path}: there is no such file; expected a Python file")
    path = os.path.abspath(path)
    folder, file = os.path.split(path)
    name = "ellwand_loaded_" + "".join(c if c.isalnum() else "_" for c in os.path.splitext(file)[0])
    spec = importlib.util.spec_from_loader(name, importlib.machinery.SourceFileLoader(name, path))
    if spec is None or spec.loader is None:
        raise EllwandError(f"{OPTION} {path}: Python cannot load it; expected a Python file")
    module = importlib.util.module_from_spec(spec)
    # Its neighbours can be imported, as if it were run.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise EllwandError(f"{OPTION} {path}: it raised {describe(error)}") from error


def main_module(path: str, package: str, earlier: list[Any]) -> None:
    """Runs a script for its functions, under the name that ``multiprocessing`` gives it, so that a guarded main part stays
    out. An unguarded one ends where it measures after the ``earlier`` measurements: what it measures is defined by then.
    ``package`` is that of ``python -m``."""
    global replayed
    module = types.ModuleType("__mp_main__")
    module.__file__ = path
    module.__package__ = package
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    replayed = list(earlier)
    try:
        exec(code, module.__dict__)
    except Stop:
        pass
    finally:
        replayed = None
