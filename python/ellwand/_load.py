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
    """Ends the execution of a script that is loaded for its functions, where it would measure again."""


#: Which measurement it is: its kind, the names of its functions, and the lines from which it was called.
Key = tuple[Any, ...]

#: While a script is loaded for its functions: what its measurements returned or raised where it ran first.
replayed: list[tuple[Key, Any]] | None = None
#: The measurement that asked for this process.
asked: Key = ()


def key(kind: str, names: Sequence[str], frame: types.FrameType | None) -> Key:
    """Which measurement ``frame`` makes. It is the same where the script runs again, whatever else runs there."""
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
    """What the measurement that a script begins here returned where it ran first; None if it is the script's first run. Ends a script
    that is loaded where it asked for this process."""
    if replayed is None:
        return None
    found = next((i for i, (known, _) in enumerate(replayed) if known == key), None)
    if found is not None:
        _, outcome = replayed.pop(found)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome
    kind, names, lines = key
    # The script came to what asks first if that stands above, where a guard keeps this process out.
    if key == asked or not lines or not asked or asked[2][-1:] <= lines[-1:]:
        raise Stop
    file, line = lines[0]
    raise EllwandError(
        f"{file}:{line}: {kind}({', '.join(names)}) was not measured where the script ran first, and a worker came to it; "
        'put it under `if __name__ == "__main__":`'
    )


def outcome_of(error: BaseException) -> BaseException:
    """An exception that a script may catch again where it is replayed: of its own type if that is one of Python's or of Ellwand's, and
    without its frames."""
    if type(error).__module__ in ("builtins", EllwandError.__module__):
        try:
            copy: BaseException = pickle.loads(pickle.dumps(error))
            return copy
        except Exception:
            pass
    return EllwandError(str(error))


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


def main_module(path: str, package: str, earlier: list[tuple[Key, Any]], ask: Key) -> None:
    """Runs a script for its functions, under the name that ``multiprocessing`` gives it, so that a guarded main part stays
    out. An unguarded one gets the outcomes of ``earlier`` measurements and ends where it makes the one that asks: what it measures is
    defined by then.
    ``package`` is that of ``python -m``."""
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
