"""The user's files and functions in a worker: ``--load FILE`` and the functions of ``ellwand.bench``."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pickle
import sys
import types
from collections.abc import Sequence
from typing import Any

from ._errors import EllwandError, describe

__all__ = ["Key", "Stop", "key", "load", "main_module", "outcome_of", "replay", "take"]

OPTION = "--load"


class Stop(BaseException):
    """Ends a script that a worker loads for its functions at the point where it would measure again."""


#: Identifies a measurement: its kind, the names of its functions, and the lines from which it was called.
Key = tuple[Any, ...]

#: While a script is loaded for its functions: the outcomes of its measurements in the first run.
replayed: list[tuple[Key, Any]] | None = None
#: The measurement that started this process.
asked: Key = ()


def key(kind: str, names: Sequence[str], frame: types.FrameType | None) -> Key:
    """The identity of the measurement that ``frame`` makes. A re-run of the script gives the same key, whatever else it runs."""
    lines: list[tuple[str, int]] = []
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<frozen importlib"):
            lines.append((os.path.basename(name), frame.f_lineno))
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") in ("__main__", "__mp_main__"):
            break
        frame = frame.f_back
    return (kind, tuple(names), tuple(lines))


def replay(key: Key) -> Any:
    """The outcome that this measurement had in the script's first run; None during that first run. Ends a loaded script at the
    measurement that started this process."""
    if replayed is None:
        return None
    found = next((i for i, (known, _) in enumerate(replayed) if known == key), None)
    if found is not None:
        _, outcome = replayed.pop(found)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome
    kind, names, lines = key
    # Past the line of the measurement that started this process, a guard has kept this process from it.
    if key == asked or not lines or not asked or asked[2][-1:] <= lines[-1:]:
        raise Stop
    file, line = lines[0]
    raise EllwandError(
        f"{file}:{line}: {kind}({', '.join(names)}) was not measured in the script's first run, but a worker reached it; "
        'put it under `if __name__ == "__main__":`'
    )


def outcome_of(error: BaseException) -> BaseException:
    """An exception that a replayed script can catch again: without frames, and of its original type if that is Python's or Ellwand's."""
    if type(error).__module__ in ("builtins", EllwandError.__module__):
        try:
            copy: BaseException = pickle.loads(pickle.dumps(error))
            return copy
        except Exception:
            pass
    return EllwandError(str(error))


def take(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the files after ``--load`` from the other arguments."""
    files: list[str] = []
    rest: list[str] = []
    left = list(args)
    while left:
        word = left.pop(0)
        if word == "--":
            return files, [*rest, word, *left]
        if word == OPTION:
            if not left or left[0].startswith("-"):
                raise EllwandError(f"{OPTION}: it needs a file; expected a Python file, as in {OPTION} my.py")
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
    # Lets the file import its neighbours, as if it were run.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise EllwandError(f"{OPTION} {path}: it raised {describe(error)}") from error


def main_module(path: str, package: str, earlier: list[tuple[Key, Any]], ask: Key) -> None:
    """Runs a script for its functions under the name ``__mp_main__``, as ``multiprocessing`` does, so a guarded main part does
    not run. In an unguarded script, ``earlier`` measurements return their outcomes, and the script ends at the measurement that
    started this process: everything it measures is defined by then. ``package`` is that of ``python -m``."""
    global replayed, asked
    module = types.ModuleType("__mp_main__")
    module.__file__ = path
    module.__package__ = package
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    replayed, asked = list(earlier), ask
    try:
        exec(code, module.__dict__)
    except Stop:
        pass
    finally:
        replayed = None
