"""An implementation prepared for one case: turns what the user's function returned into what the instrument calls."""

from __future__ import annotations

import collections
import functools
import itertools
import keyword
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from . import _arrays, _compile
from ._case import Case
from ._errors import EllwandError

if TYPE_CHECKING:
    from ._registry import Implementation

__all__ = ["Ready", "loop_of", "ready", "readings_of"]

#: Launches per run on a device, unless the implementation declares a number. A queue holds about a thousand.
LAUNCHES = 24

#: id, title, unit, better, value (None: unavailable), about.
Reading = tuple[str, str, str, str, "float | None", str]


@dataclass
class Ready:
    """What the Rust half calls. It times ``run`` and the function that ``waiter`` finds, if any."""

    run: Callable[[], Any]
    keeps: bool
    waiter: Callable[[Any], Callable[[Any], None] | None]
    poison: Callable[[Any, int], object]
    output: Callable[[Any], dict[str, Any]]
    readings: Callable[[], list[Reading]]
    what_ran: str
    #: Launches per run on a device, as far as known.
    launches: int = LAUNCHES
    #: True if the object has a ``sync`` method, whose time is part of its work.
    syncs: bool = False
    #: Makes what the given number of runs consumes; and the largest such number.
    load: Callable[[int], object] | None = None
    most: int = (1 << 64) - 1
    #: Runs a given number of times and returns the last result: a Python loop makes calls faster than native code.
    many: Callable[[int], Any] | None = None

    def __post_init__(self) -> None:
        if self.many is None:
            self.many = loop_of(self.run, (), {})


#: The loop that is running.
_iterations: Iterator[None] = iter(())


def _times(times: int) -> Iterator[None]:
    global _iterations
    _iterations = itertools.repeat(None, times)
    return _iterations


def _after_fork() -> None:
    """Ends the loop in a forked child, which would otherwise fork again in each iteration if the function forks."""
    collections.deque(_iterations, maxlen=0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def loop_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[int], Any]:
    """A function that calls ``function(*args, **kwargs)`` a given number of times and returns the last result: a compiled loop, like
    that of ``timeit``."""
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in kwargs):
        function, args, kwargs = functools.partial(function, *args, **kwargs), (), {}
    given = {f"a{i}": value for i, value in enumerate(args)}
    named = {f"k{i}": value for i, value in enumerate(kwargs.values())}
    passed = ", ".join([*given, *(f"{name}={local}" for name, local in zip(kwargs, named))])
    scope: dict[str, Any] = {"function": function, "counted": _times, **given, **named}
    # Locals of the loop, because they are faster than globals.
    source = f"""def loop(times, {", ".join(f"{name}={name}" for name in scope)}):
    for _ in counted(times):
        result = function({passed})
    return result
"""
    exec(compile(source, "<ellwand>", "exec"), scope)
    return cast(Callable[[int], Any], scope["loop"])


def _changed(before: dict[str, bytes], inputs: dict[str, Any]) -> str | None:
    return next((name for name, array in inputs.items() if before[name] != _digest(array)), None)


def _digest(array: Any) -> bytes:
    import hashlib

    return hashlib.blake2b(memoryview(array).cast("B"), digest_size=16).digest() if array.size else b""


def ready(row: Implementation, case: Case, inputs: dict[str, Any]) -> Ready:
    """Prepares ``row`` for ``case``. ``inputs`` is this implementation's own copy."""
    before = {name: _digest(array) for name, array in inputs.items()}
    _compile.save(*case.id.split("/"), row.name)
    watch = _compile.Watch()
    # The peak should not count the copies in `inputs`. Imported here, so that declaring a row needs no native code.
    from . import _native

    _native.restart_peak()
    made = row.function(case, inputs)
    # The task reports only its own compilations, not those of other work in its preparation.
    own = getattr(made, "watch", None)
    watch = own if isinstance(own, _compile.Watch) else watch

    def output(result: Any) -> dict[str, Any]:
        watch.checked()
        name = _changed(before, inputs)
        if name is not None:
            raise EllwandError(f"it changed its argument '{name}'; copy what you write to")
        return _arrays.named(_arrays.fetched(result) if row.device == "cuda" else result, row.outputs)

    what_ran = str(getattr(made, "what_ran", "") or row.what_ran())
    rows = readings_of(getattr(made, "readings", None), watch)
    if callable(made) and not hasattr(made, "run"):
        return Ready(made, True, _arrays.waiter, _spoil(row, inputs), output, rows, what_ran, _launches(row, made))
    return _object(made, row, output, _spoil(row, inputs), rows, what_ran)


def _spoil(row: Implementation, inputs: dict[str, Any]) -> Callable[[Any, int], None]:
    """The function that overwrites a result."""
    if row.device == "cuda":
        return _arrays.spoil_on_device
    keep = list(inputs.values())
    return lambda result, byte: _arrays.spoil(result, keep, byte)


def _launches(row: Implementation, made: Any) -> int:
    given = getattr(made, "launches", LAUNCHES) if row.device == "cuda" else LAUNCHES
    if not isinstance(given, int) or given < 1:
        raise EllwandError(f"{row.workload}:{row.name}: launches is {given!r}; expected the number of kernels that a run launches")
    return given


def _object(
    made: Any,
    row: Implementation,
    output: Callable[[Any], dict[str, Any]],
    overwrite: Callable[[Any, int], None],
    rows: Callable[[], list[Reading]],
    what_ran: str,
) -> Ready:
    missing = [name for name in ("run", "output") if not callable(getattr(made, name, None))]
    if missing:
        raise EllwandError(
            f"{row.workload}:{row.name} prepared a {type(made).__name__} without {' and '.join(missing)}; "
            "expected a function of no arguments that returns the outputs, or an object with run() and output()"
        )
    sync: Callable[[], Any] | None = getattr(made, "sync", None)
    poison: Callable[[], Any] | None = getattr(made, "poison", None)

    given: list[Any] = []

    def give(_result: Any) -> dict[str, Any]:
        given[:] = [made.output()]
        return output(given[0])

    def spoil(_result: Any, byte: int) -> None:
        """Overwrites the arrays that the object returned as well: most objects return the ones they write to."""
        if poison:
            poison()
        overwrite(given, byte)
        given.clear()

    def waiter(_result: Any) -> Callable[[Any], None] | None:
        if sync is None:
            return None
        wait = sync
        return lambda _nothing: wait()

    return Ready(
        run=made.run,
        keeps=False,
        waiter=waiter,
        poison=spoil,
        output=give,
        readings=rows,
        what_ran=what_ran,
        launches=_launches(row, made),
        syncs=sync is not None,
    )


def readings_of(function: Callable[[], Any] | None, watch: _compile.Watch) -> Callable[[], list[Reading]]:
    """The readings of an implementation and of the compilers it used."""
    return lambda: [_reading(each) for each in [*(function() if function else ()), *watch.readings()]]


def _reading(given: Any) -> Reading:
    """A reading from a dictionary with at least id and value."""
    try:
        name, value = str(given["id"]), given["value"]
        return (
            name,
            str(given.get("title", name)),
            str(given.get("unit", "")),
            str(given.get("better", "neither")),
            None if value is None else float(value),
            str(given.get("about", "")),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EllwandError(
            f"readings: {given!r} is not a reading ({type(error).__name__}: {error}); "
            "expected a dictionary such as {'id': 'cache-size', 'value': 3.0, 'unit': 'B'}"
        ) from error
