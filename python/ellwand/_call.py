"""Two functions of the user as implementations of a workload named ``call``."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from . import _arguments, _arrays, _compile, _fresh, _load, _native, _registry, _threads
from ._case import Case
from ._errors import EllwandError
from ._memory import give_back
from ._prepared import Ready, loop_of, readings_of

__all__ = ["NAME", "Call", "Content", "register", "register_file"]

NAME = "call"

#: Results that are work to be done, what they are called, and what runs them.
UNFINISHED = (
    (types.CoroutineType, "a coroutine", "lambda: asyncio.run(main())"),
    (types.AsyncGeneratorType, "an asynchronous generator", "one that runs an event loop"),
    (types.GeneratorType, "a generator", "lambda: list(numbers())"),
)


#: Functions, positional arguments, keyword arguments, and what makes the arguments of each call from these.
Content = tuple[list[Callable[..., Any]], tuple[Any, ...], dict[str, Any], "Callable[..., Any] | None"]
#: Bytes of arguments that are made before a slot, and the most calls that they are made for.
LOADED_BYTES, MOST_LOADED = 256 << 20, 1 << 16
NOT_CHECKED = "not checked: results were not compared"


@dataclass
class Call:
    """Functions with their arguments, and how their results are compared."""

    names: list[str]
    #: Pickled content: each process, and each arm, gets its own.
    blob: bytes
    threads: int
    tolerance: tuple[float, float]
    inplace: bool
    path: list[str]
    main: str | None
    package: str
    #: The arguments of the script, what its earlier measurements returned or raised, and which measurement this is: a script that
    #: runs again in a worker goes on to the one that asked.
    argv: list[str]
    earlier: list[tuple[_load.Key, Any]]
    key: _load.Key = ()
    #: Threads of the pools of NumPy and others in a worker, which runs on one processor if the functions use one thread.
    pools: int | None = None
    #: Whether results are compared, unless ``inplace``.
    check: bool = True
    #: Whether another process can find what the blob names.
    travels: bool = False
    #: Why the content cannot be pickled.
    refused: str = ""
    #: The functions and arguments themselves, if they are measured in the process that has them.
    content: Content | None = None

    def fresh(self) -> Content:
        """Functions with arguments that nobody else has, if that is possible."""
        if self.content is None:
            return cast(Content, pickle.loads(self.blob))
        functions, args, kwargs, setup = self.content
        try:
            return functions, *copy.deepcopy((args, kwargs)), setup
        except Exception:
            return self.content

    def outputs(self, result: Any) -> dict[str, Any]:
        """A result for the judge. What depends on earlier calls cannot be compared."""
        return flat(result if self.check and not self.inplace else None)

    def notes(self) -> tuple[str, ...]:
        """What every output says of the measurement."""
        return () if self.check and not self.inplace else (NOT_CHECKED,)


def register_file(path: str) -> None:
    """Registers the call that a file holds, in a process that the caller of ``bench`` started."""
    with open(path, "rb") as file:
        call: Call = pickle.load(file)
    sys.path[:], sys.argv[:] = call.path, call.argv
    if call.main and b"__main__" in call.blob:
        _load.main_module(call.main, call.package, call.earlier, call.key)
    if call.pools is not None:
        _threads.limit(call.pools)
    register(call)


def register(call: Call) -> None:
    """Makes the call the workload ``call`` of this process, with one implementation a function."""
    _registry.WORKLOADS[:], _registry.IMPLEMENTATIONS[:] = rows(call)


def rows(call: Call) -> tuple[list[_registry.Workload], list[_registry.Implementation]]:
    """The workload of a call and its implementations."""
    implementations: list[_registry.Implementation] = [
        _Function(NAME, name, "a Python function", "cpu", call.threads, _unused, call=call, index=index)
        for index, name in enumerate(call.names)
    ]
    return [_workload(call)], implementations


def _unused(_case: Case, _inputs: dict[str, Any]) -> Any:
    raise NotImplementedError


def _workload(call: Call) -> _registry.Workload:
    return _registry.Workload(NAME, "functions of the caller", [], [], [], call.names[0], [], _Task(call))


class _Task:
    def __init__(self, call: Call) -> None:
        self.call = call

    def inputs(self, _case: Case, _seed: int) -> dict[str, Any]:
        # The arguments travel pickled: they need not be arrays.
        return {}

    def reference(self, _case: Case, _inputs: dict[str, Any]) -> dict[str, Any]:
        functions, args, kwargs, setup = self.call.fresh()
        given, kwargs = (args, kwargs) if setup is None else (made(setup, args, kwargs), {})
        result = finished(functions[0](*given, **kwargs), self.call.names[0])
        wait = _arrays.waiter(result)
        if wait is not None:
            wait(result)
        return self.call.outputs(_left(given) if setup is not None and result is None else result)

    def work(self, _case: Case) -> tuple[str, int, float, int, int]:
        return ("calls", 1, 0.0, 0, 0)

    def tolerance(self, _case: Case) -> tuple[float, float]:
        return self.call.tolerance


@dataclass
class _Function(_registry.Implementation):
    call: Call | None = None
    index: int = 0

    def prepare(self, case: Case, inputs: dict[str, Any], stream: tuple[int, int] | None) -> Ready:
        call = self.call
        assert call is not None
        functions, args, kwargs, setup = call.fresh()
        _compile.save(NAME, self.name)
        watch = _compile.Watch()
        function: Callable[..., Any] = functions[self.index]
        loaded = None if setup is None else _Loaded(function, functools.partial(made, setup, args, kwargs))
        run = loaded or (functools.partial(function, *args, **kwargs) if args or kwargs else function)
        given = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
        before = {} if call.inplace else {name: _arguments.frozen(value) for name, value in given.items()}

        def output(result: Any) -> dict[str, Any]:
            finished(result, self.name)
            for name, content in before.items():
                if _arguments.frozen(given[name]) != content:
                    raise EllwandError(
                        f"{self.name} changed its argument {name}, so that every iteration computes something else; "
                        "copy what you write to, make the arguments of each call with setup=.., or pass inplace=True"
                    )
            return call.outputs(_left(loaded.used[-1]) if loaded and result is None else result)

        keep = list(_arguments.arrays(given))
        rows = readings_of(None, watch)
        give_back()
        _native.restart_peak()
        what_ran = ", ".join(call.notes())
        ready = Ready(run, True, _arrays.waiter, _fresh.spoiler(keep), output, rows, what_ran)
        if loaded:
            return replace(ready, load=loaded.load, most=loaded.most)
        return replace(ready, many=loop_of(function, args, kwargs))


def made(setup: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call."""
    given = setup(*args, **kwargs)
    return given if isinstance(given, tuple) else (given,)


def _left(given: tuple[Any, ...]) -> Any:
    """What a function that returns nothing left in its arguments."""
    return given[0] if len(given) == 1 else given


class _Loaded:
    """A function with arguments that are made for each call before it is timed."""

    def __init__(self, function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
        self.function, self.make = function, make
        self.fresh: list[tuple[Any, ...]] = [make()]
        #: Kept until the next slot is loaded, so that no call pays for freeing them.
        self.used: list[tuple[Any, ...]] = []
        size = sum(map(sys.getsizeof, self.fresh[0])) + sum(array.nbytes for array in _arguments.arrays(self.fresh[0]))
        self.most = max(1, min(MOST_LOADED, LOADED_BYTES // (size or 1)))

    def load(self, calls: int) -> None:
        """Makes the arguments of calls, and of one more, which a probe reads around."""
        self.used.clear()
        self.fresh.extend(self.make() for _ in range(calls + 1 - len(self.fresh)))

    def __call__(self) -> Any:
        # Only a call outside of slots finds none.
        given = self.fresh.pop() if self.fresh else self.make()
        self.used.append(given)
        return self.function(*given)


def finished(result: Any, name: str) -> Any:
    """The result, unless it is work that has not begun."""
    for kind, work, instead in UNFINISHED:
        if isinstance(result, kind):
            if isinstance(result, (types.CoroutineType, types.GeneratorType)):
                # Or Python warns of it.
                result.close()
            raise EllwandError(f"{name} returned {work} that has not run; measure a function that runs it, such as {instead}")
    return result


def flat(result: Any, name: str = "result") -> dict[str, Any]:
    """A result as named arrays with a value at least: floats as float32 or float64, other objects by their text."""
    import numpy as np

    if result is None:
        return {name: np.zeros(1, np.uint8)}
    if isinstance(result, Mapping):
        inside = {k: v for key, each in result.items() for k, v in flat(each, f"{name}.{key}").items()}
        return {f"{name}.length": np.array([len(result)]), **inside}
    if isinstance(result, (set, frozenset)):
        # Processes differ in the order of a set.
        result = sorted(result, key=repr)
    if isinstance(result, (tuple, list)) and not all(isinstance(each, (bool, int, float)) for each in result):
        inside = {k: v for i, each in enumerate(result) for k, v in flat(each, f"{name}.{i}").items()}
        return {f"{name}.length": np.array([len(result)]), **inside}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(result, torch.Tensor):
        tensor: Any = result
        result = tensor.detach().cpu()
        if result.is_floating_point() and result.dtype.itemsize < 4:
            # NumPy has neither bf16 nor float8.
            result = result.float()
    try:
        array = _arrays.borrow(name, result)
    except EllwandError:
        return {name: _text(result)}
    kind = array.dtype.kind
    if array.size == 0:
        # It has no values, and its shape has: empty results are equal.
        return {name: np.zeros(array.shape), f"{name}.shape": np.array(array.shape, np.int64)}
    if kind == "f":
        # In its own size, which peak memory is compared with.
        return {name: np.asarray(array, np.float32 if array.dtype.itemsize <= 4 else np.float64, order="C")}
    if kind in "biu":
        return {name: _arrays.plain(name, array)}
    if kind == "c":
        return {name: np.stack([array.real, array.imag], -1).astype(np.float64)}
    if array.ndim == 0 and not isinstance(result, np.ndarray):
        return {name: _text(result)}
    if array.dtype.hasobject:
        return flat(array.ravel().tolist(), name)
    if kind == "V" and array.dtype.names is None:
        # The small floats of JAX and others.
        return {name: array.astype(np.float64)}
    return {name: np.frombuffer(array.tobytes(), np.uint8)}


def _text(result: Any) -> Any:
    import numpy as np

    text = f"a {type(result).__name__}" if " at 0x" in repr(result) else repr(result)
    return np.frombuffer(text.encode(), np.uint8)
