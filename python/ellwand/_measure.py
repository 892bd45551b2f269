"""``ellwand.bench`` and ``ellwand.compare``: functions of the caller under the instrument, in one line."""

from __future__ import annotations

import functools
import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar, cast

from . import _call, _compile, _load, _native, _registry, _travel
from ._call import Call, Content
from ._errors import EllwandError, InProcessWarning, WrongType, WrongValue, describe, shown
from ._errors import hidden as __tracebackhide__
from ._name import name_of
from ._options import check as check_options
from ._record import read
from ._results import Comparison, Measurement

__all__ = ["bench", "compare"]

EFFORTS = ("quick", "normal", "thorough")
#: Seconds that a command may take to end after Ctrl-C before it is killed.
FAREWELL_S = 10.0


#: Outcomes of this process's measurements, in order: what they returned or raised.
_outcomes: list[tuple[_load.Key, Any]] = []
#: The measurement that is under way.
_key: ContextVar[_load.Key] = ContextVar("key", default=())

F = TypeVar("F", bound=Callable[..., Any])


def _kept(measure: F) -> F:
    """Keeps the outcome for workers of later measurements, which run the script again."""
    kind = measure.__name__
    functions = 1 if kind == "bench" else 2

    @functools.wraps(measure)
    def measured(*args: Any, **kwargs: Any) -> Any:
        key = _load.key(kind, [_name(each) for each in args[:functions]], sys._getframe(1))
        outcome = _load.replay(key)
        if outcome is not None:
            return outcome
        before = _key.set(key)
        try:
            outcome = measure(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            _outcomes.append((key, _load.outcome_of(error)))
            raise
        finally:
            _key.reset(before)
        _outcomes.append((key, outcome))
        return outcome

    return cast(F, measured)


@_kept
def bench(
    function: Callable[..., Any],
    /,
    *args: Any,
    effort: str = "quick",
    time: float | None = None,
    threads: int | None = None,
    setup: Callable[..., Any] | None = None,
    tolerance: tuple[float, float] = (1e-8, 1e-5),
    check: bool = True,
    inplace: bool = False,
    isolated: bool | None = None,
    **kwargs: Any,
) -> Measurement:
    """Measures ``function(*args, **kwargs)``: the median time of a call with its 95 % interval.

    The function runs in fresh worker processes if another process can find it by name; otherwise in this one, with a warning.
    A function that raises makes ``bench`` raise EllwandError. All options except ``effort`` also apply to ``compare``:

    - ``effort``: ``"quick"``, ``"normal"`` or ``"thorough"``: how many samples are taken.
    - ``time``: seconds after which no process starts; a slow function is called fewer times to fit. Three calls come before
      the timed one and one after it, so a time below five calls is an error. Less than 6 s counts as 6 s.
    - ``threads``: how many threads the function uses, and the size of the thread pools of NumPy, PyTorch and others in a worker. If PyTorch
      or JAX is imported, the libraries choose by default; otherwise 1. ``threads=os.cpu_count()`` measures a NumPy product on all cores.
    - ``setup``: makes the arguments of each call, untimed: ``setup(*args, **kwargs)`` returns the argument, or a tuple of arguments. For
      functions that change or consume their arguments: ``bench(list.sort, data, setup=list.copy)``. If the function returns None,
      its result is what it left in its arguments.
    - ``tolerance``: how far the results of two calls may differ, ``(absolute, relative)``.
    - ``check=False`` does not compare results, for functions whose results differ by design (random numbers, objects without equality).
      The measurement then says *not checked*.
    - ``inplace=True`` lets a call change the arguments of later calls. Results are not checked.
    - ``isolated``: True requires fresh processes, False measures in this one.
    """
    if effort not in EFFORTS:
        raise WrongValue(f"effort: {shown(effort)} is unknown; expected one of {', '.join(EFFORTS)}")
    check_options(
        time=time, threads=threads, setup=setup, tolerance=tolerance, check=check, inplace=inplace, isolated=isolated
    )
    call = _call_of([function], args, kwargs, threads, tolerance, inplace, check, setup)
    with tempfile.TemporaryDirectory(prefix="ellwand-") as folder:
        if _in_workers(call, isolated, "the interval does not cover differences between processes"):
            run = ["run", _call.NAME, "--effort", effort, "--no-ceilings", "--no-plot", "-o", f"{folder}/out"]
            _command(call, folder, [*run, *_most(time)])
        else:
            _here(call, f"{folder}/out", ([function], args, kwargs, setup), effort, time)
        measurement: Measurement = read(f"{folder}/out")[0]
    _raise_unless_measured(measurement, args, kwargs)
    again = measurement.readings.get(_compile.LATER)
    notes = (*call.notes(), *([_COMPILES.format(call.names[0], again)] if again else []))
    return replace(measurement, workload="call", warnings=(*notes, *_faults(measurement), *measurement.warnings))


#: A function that calls ``jax.jit`` or ``torch.compile`` inside, or is called with new shapes.
_COMPILES = (
    "{} compiled {:.0f} programs after its first run, so its time includes compilation; "
    "make the compiled function once, outside, and pass arguments of one shape"
)

# With a page fault per this many seconds or less, the faults are a notable part of the time.
_FAULT_EVERY_S = 25e-6


def _faults(measurement: Measurement) -> list[str]:
    """A note on a time that depends on what the process freed before."""
    faults = measurement.readings.get("page-faults") or 0.0
    if measurement.seconds is None or faults < max(1.0, measurement.seconds / _FAULT_EVERY_S):
        return []
    return [
        f"each call has {faults:.0f} page faults: the allocator gives freed memory back to the system. A process that has freed "
        "larger blocks before keeps it and is faster, so other instruments may differ. With MALLOC_TRIM_THRESHOLD_=1000000000 and "
        "MALLOC_MMAP_THRESHOLD_=100000000 in the environment glibc keeps it"
    ]


@_kept
def compare(
    baseline: Callable[..., Any],
    candidate: Callable[..., Any],
    /,
    *args: Any,
    rope: float = 0.01,
    blocks: int | None = None,
    time: float | None = None,
    threads: int | None = None,
    setup: Callable[..., Any] | None = None,
    tolerance: tuple[float, float] = (1e-8, 1e-5),
    check: bool = True,
    inplace: bool = False,
    isolated: bool | None = None,
    **kwargs: Any,
) -> Comparison:
    """Decides whether ``candidate(*args)`` is faster than ``baseline(*args)``, slower, or the same within ``rope``.

    Each block runs the baseline, the candidate and the baseline again in fresh processes, in turns; results must agree within
    ``tolerance`` (absolute, relative). ``time`` is the maximum time for the comparison, in seconds; 20 by default. Functions of PyTorch
    or JAX need 60 or more, because each process imports these libraries, which takes seconds. Functions that no
    other process can find are measured in this one, with a warning: their ratio is a hint, not a verdict. ``threads``, ``setup``,
    ``check``, ``inplace`` and ``isolated`` work as in ``bench``.
    """
    check_options(rope=rope, blocks=blocks, time=time, threads=threads, setup=setup)
    check_options(tolerance=tolerance, check=check, inplace=inplace, isolated=isolated)
    call = _call_of([baseline, candidate], args, kwargs, threads, tolerance, inplace, check, setup)
    with tempfile.TemporaryDirectory(prefix="ellwand-") as folder:
        if not _in_workers(call, isolated, "the ratio is a hint, not a verdict"):
            return _compare_here(call, f"{folder}/out", ([baseline, candidate], args, kwargs, setup), rope, time)
        sides = [f"{_call.NAME}:{name}" for name in call.names]
        most = [*([] if blocks is None else ["--blocks", str(blocks)]), *_most(time)]
        out = _command(call, folder, ["compare", *sides, "--rope", f"{100 * float(rope):g}", *most, "--format", "json"])
    try:
        row = json.loads(out)[0]
    except (ValueError, IndexError) as error:
        raise EllwandError(f"compare printed no verdict: {out.strip() or 'nothing'}") from error
    if row["verdict"] == "none":
        why = _options(str(row.get("reason")))
        advice = _advice(row.get("outcome"), args, kwargs, why)
        raise EllwandError(f"no verdict: {row.get('arm')}: {row.get('outcome')}: {why}{advice}")
    return _comparison(row, call, blocks)


def _most(time: float | None) -> list[str]:
    return [] if time is None else ["--time", f"{float(time)}s"]


#: Command-line time units in seconds.
UNITS_S = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600}


#: No advice names a longer time.
LONGEST_S = 3600.0


def _options(text: str) -> str:
    """A command's advice, with this module's option names."""

    def seconds(found: re.Match[str]) -> float:
        return float(found[1]) * UNITS_S[found[2]]

    advice, smaller = r"--time ([0-9.]+)(ms|s|min|h)\b", "or choose a smaller case"
    asked = re.search(f"give it {advice}, {smaller}", text)
    if asked and seconds(asked) > LONGEST_S:
        return text.replace(asked[0], "that would take more than an hour, so choose a smaller case")
    text = re.sub(advice, lambda found: f"time={seconds(found):g}", text)
    imported = [name for name in ("torch", "jax") if name in sys.modules]
    # If starting the processes takes the time, a smaller case does not help.
    slow = "move slow imports and other work out of the functions' module (each process runs it)"
    if imported:
        slow = f"because each process imports {' and '.join(imported)}, which takes seconds"
    return text.replace(smaller, f"{slow}, {smaller}")


#: Largest difference, as a share of the largest value, for which the advice names a tolerance.
SMALL = 1e-3


def _advice(outcome: str | None, args: tuple[Any, ...], kwargs: dict[str, Any], why: str = "") -> str:
    if outcome != "wrong":
        return ""
    torch = sys.modules.get("torch")
    kinds = (torch.nn.Module, torch.optim.Optimizer) if torch is not None else ()
    trained = [type(each).__name__ for each in (*args, *kwargs.values()) if isinstance(each, kinds)]
    changes = f"a call that trains changes {' and '.join(trained)}:" if trained else "if calls change their arguments,"
    near = accepting(why)
    return (
        f"{'' if near is None else f'; the difference is small: tolerance=({near[0]}, {near[1]}) accepts it'}; "
        f"{changes} make these for each call with setup=.., or pass inplace=True; "
        "if results differ by design (random numbers), pass check=False"
    )


def accepting(why: str) -> tuple[str, str] | None:
    """Absolute and relative tolerance that accept the difference of a wrong row, if it is small."""
    found = re.search(r"\+ (\S+) \|reference\| \(largest difference (\S+), largest \|reference\| ([^)\s]+)\)", why)
    relative, difference, largest = map(float, found.groups()) if found else (0.0, 0.0, 0.0)
    if not 0 < difference < SMALL * largest:
        return None
    # One digit, rounded up, with some room for other processes.
    room = 1.1 * difference
    step = 10.0 ** math.floor(math.log10(room))
    absolute, kept = (re.sub(r"\.0e-0?", "e-", f"{each:.1e}") for each in (math.ceil(room / step) * step, relative))
    return absolute, kept


def _raise_unless_measured(side: Measurement, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not side.ok:
        why = f"{_options(str(side.reason))}{_advice(side.status, args, kwargs, str(side.reason))}"
        raise EllwandError(f"{side.implementation}: {side.status}: {why}")


def _needed(row: dict[str, Any], planned: int | None) -> str:
    """What would decide an undecided comparison: more blocks if the requested number were taken, else more time than it was given."""
    taken, more, seconds = len(row["blocks"]), row.get("more_blocks"), row.get("needed_s")
    if more and planned is not None and taken >= planned:
        return f"about {more} more blocks needed: blocks={taken + more}"
    if seconds is not None and seconds > LONGEST_S:
        return f"{row['ended']}; more than an hour would be needed: choose a larger rope= or a smaller case"
    if seconds is None:
        return f"{row['ended']}; more time would hardly decide it"
    needed = 1.2 * max(seconds, row["elapsed_s"])
    # A pause of the machine used up the time, or the user interrupted.
    if needed <= row.get("given_s", 0.0):
        return f"{row['ended']}, although about {math.ceil(needed)} s would do: compare again"
    return f"{row['ended']}; more time needed: time={math.ceil(needed)}"


def _comparison(row: dict[str, Any], call: Call, blocks: int | None) -> Comparison:
    reason = _needed(row, blocks) if row["verdict"] == "undecided" else None
    if row.get("unsettled"):
        reason = f"the fastest times are the same, but the {row['unsettled']} of the slots has not settled"
    if reason and row.get("excluded"):
        reason = f"{row['excluded']}; {reason}"
    disturbed = row.get("disturbed") or 0.0
    contended = (f"contended: {disturbed:.0%} of the slots met a context switch",) if disturbed > 0.5 else ()
    return Comparison(
        call.names[0],
        call.names[1],
        row["verdict"],
        row["ratio"],
        row["low"],
        row["high"],
        row["rope"],
        (row["seconds"][0], row["seconds"][1]),
        len(row["blocks"]),
        row["elapsed_s"],
        reason,
        (*call.notes(), *contended),
    )


def _name(function: Callable[..., Any]) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "", name_of(function).split(".<locals>.")[-1]) or "function"


def _call_of(
    functions: list[Callable[..., Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    threads: int | None,
    tolerance: tuple[float, float],
    inplace: bool,
    check: bool,
    setup: Callable[..., Any] | None,
) -> Call:
    for function in functions:
        if not callable(function):
            given = f"{shown(function)} of type {type(function).__name__}"
            raise WrongType(f"{given} is not a function; expected {'a function' if len(functions) == 1 else 'two functions'}, then the arguments")
    names = [_name(function) for function in functions]
    if len(set(names)) < len(names):
        names = [names[0], f"{names[1]}-2"]
    pools = threads
    if threads is None:
        # These libraries use all cores by default, or all except hyperthreads.
        threads, pools = (_registry.CORES, None) if {"torch", "jax"} & set(sys.modules) else (1, 1)
    package = getattr(sys.modules.get("__main__"), "__package__", None) or ""
    main = _travel.main_file()
    absolute, relative = map(float, tolerance)
    call = Call(names, b"", int(threads), (absolute, relative), inplace, list(sys.path), main, package, list(sys.argv), [], _key.get())
    call = replace(call, pools=None if pools is None else int(pools), check=check)
    try:
        blob, travels = _travel.pickled((functions, args, kwargs, setup))
        # Only a script that is run again needs the earlier outcomes.
        return replace(call, blob=blob, travels=travels, earlier=list(_outcomes) if main and b"__main__" in blob else [])
    except Exception as error:
        return replace(call, refused=describe(error).splitlines()[0])


def _in_workers(call: Call, isolated: bool | None, price: str) -> bool:
    """Whether fresh processes can run the call."""
    if call.travels:
        return isolated is not False
    why = "it was typed at a prompt" if call.blob else f"it cannot be pickled ({call.refused})"
    how = "define it at the top level of a file"
    how += " and leave out what cannot be pickled" if _travel.has_cloudpickle() else ", or `pip install cloudpickle`"
    if isolated:
        raise EllwandError(f"{' and '.join(call.names)}: no other process can find it: {why}; {how}")
    if isolated is None:
        message = f"{' and '.join(call.names)} ran in this process, because {why}: {price}; {how}"
        warnings.warn(InProcessWarning(message), stacklevel=4)
    return False


def _command(call: Call, folder: str, words: list[str]) -> str:
    """Runs an ``ellwand`` command on the call and returns its output."""
    file = f"{folder}/call"
    with open(file, "wb") as out:
        pickle.dump(call, out)
    with open(f"{file}.parent", "w", encoding="ascii") as parent:
        parent.write(str(os.getpid()))
    from .__main__ import CALL, launch

    command = [*launch([], file)[:-1], *words]
    assert CALL in command
    # A separate process group, so that Ctrl-C reaches the command once, through us.
    code, out_text, err_text = ended(command, stderr=subprocess.PIPE, start_new_session=True)
    # 3 to 6 are verdicts: regression, undecided, wrong, nothing.
    if code not in (0, 3, 4, 5, 6, 1) or (code == 1 and not _wrote(folder, out_text)):
        raise EllwandError(f"the measurement ended with code {code}: {err_text.strip()[-2000:]}")
    return out_text


def ended(command: list[str], **options: Any) -> tuple[int, str, str]:
    """Runs a command to its end; returns its exit code and output."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options)
    try:
        out_text, err_text = process.communicate()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    return process.returncode, out_text, err_text or ""


def _wrote(folder: str, out: str) -> bool:
    return os.path.exists(f"{folder}/out/record.jsonl") or bool(out.strip())


def _here(call: Call, path: str, content: Content, effort: str, time: float | None) -> None:
    os.makedirs(path)
    rows = _call.rows(replace(call, content=content))
    _native.measure(f"{path}/record.jsonl", _call.NAME, *rows, effort, 42, time)


def _compare_here(call: Call, path: str, content: Content, rope: float, time: float | None) -> Comparison:
    _here(call, path, content, "normal", time)
    sides = list(read(path))
    for side in sides:
        _raise_unless_measured(side, content[1], content[2])
    a, b = (side.seconds or float("nan") for side in sides)
    names = call.names
    held = tuple(f"{side.implementation}: at most this time: {side.held_up}" for side in sides if side.held_up)
    return Comparison(names[0], names[1], "suggests", b / a, b / a, b / a, rope, (a, b), 0, 0.0, notes=(*call.notes(), *held))
