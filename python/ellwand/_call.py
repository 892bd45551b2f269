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

#: Results whose work has not run: type, name, and how to run them.
UNFINISHED = (
    (types.CoroutineType, "a coroutine", "lambda: asyncio.run(main())"),
    (types.AsyncGeneratorType, "an asynchronous generator", "one that runs an event loop"),
    (types.GeneratorType, "a generator", "lambda: list(numbers())"),
)


#: Functions, positional arguments, keyword arguments, and the function that makes the arguments of each call from these.
Content = tuple[list[Callable[..., Any]], tuple[Any, ...], dict[str, Any], "Callable[..., Any] | None"]
#: Limits on the arguments made before a slot: their bytes, and the number of calls.
LOADED_BYTES, MOST_LOADED = 256 << 20, 1 << 16
NOT_CHECKED = "not checked: results were not compared"


@dataclass
class Call:
    """Functions with their arguments, and how their results are compared."""

    names: list[str]
    #: Pickled content: each process, and each arm, unpickles its own copy.
    blob: bytes
    threads: int
    tolerance: tuple[float, float]
    inplace: bool
    path: list[str]
    main: str | None
    package: str
    #: The script's arguments, the outcomes of its earlier measurements, and which measurement this is: a worker runs the
    #: script again up to that measurement.
    argv: list[str]
    earlier: list[tuple[_load.Key, Any]]
    key: _load.Key = ()
    #: Size of the thread pools of NumPy and others in a worker. The worker runs on one processor if the functions use one thread.
    pools: int | None = None
    #: Whether to compare results; ``inplace`` turns this off.
    check: bool = True
    #: Whether another process can find the functions that the blob names.
    travels: bool = False
    #: Why the content cannot be pickled.
    refused: str = ""
    #: The functions and arguments themselves, if this process measures them.
    content: Content | None = None

    def fresh(self) -> Content:
        """Functions with their own copies of the arguments, if these can be copied."""
        if self.content is None:
            return cast(Content, pickle.loads(self.blob))
        functions, args, kwargs, setup = self.content
        try:
            return functions, *copy.deepcopy((args, kwargs)), setup
        except Exception:
            return self.content

    def outputs(self, result: Any) -> dict[str, Any]:
        """A result for the judge; without values if it depends on earlier calls, since it cannot be compared then."""
        return flat(result if self.check and not self.inplace else None)

    def notes(self) -> tuple[str, ...]:
        """Notes that every output prints with the measurement."""
        return () if self.check and not self.inplace else (NOT_CHECKED,)


def register_file(path: str) -> None:
    """Registers the call from a file, in a process that ``bench`` or ``compare`` started."""
    with open(path, "rb") as file:
        call: Call = pickle.load(file)
    sys.path[:], sys.argv[:] = call.path, call.argv
    if call.main and b"__main__" in call.blob:
        _load.main_module(call.main, call.package, call.earlier, call.key)
    if call.pools is not None:
        _threads.limit(call.pools)
    register(call)


def register(call: Call) -> None:
    """Makes the call this process's only workload, ``call``, with one implementation per function."""
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
        # The arguments travel pickled, so they need not be arrays.
        return {}

    def reference(self, _case: Case, _inputs: dict[str, Any]) -> dict[str, Any]:
        functions, args, kwargs, setup = self.call.fresh()
        given, kwargs = (args, kwargs) if setup is None else (made(setup, args, kwargs), {})
        with _compile.uncounted():
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
            watch.checked()
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
    """The arguments as a function that returns None left them: its result."""
    return given[0] if len(given) == 1 else given


class _Loaded:
    """A function whose arguments are made before each call, untimed."""

    def __init__(self, function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
        self.function, self.make = function, make
        self.fresh: list[tuple[Any, ...]] = [make()]
        #: Kept until the next slot is loaded, so that no timed call pays for freeing them.
        self.used: list[tuple[Any, ...]] = []
        size = sum(map(sys.getsizeof, self.fresh[0])) + sum(array.nbytes for array in _arguments.arrays(self.fresh[0]))
        self.most = max(1, min(MOST_LOADED, LOADED_BYTES // (size or 1)))

    def load(self, calls: int) -> None:
        """Makes the arguments of `calls` calls, and of one extra call around which a probe reads."""
        self.used.clear()
        self.fresh.extend(self.make() for _ in range(calls + 1 - len(self.fresh)))

    def __call__(self) -> Any:
        # Arguments run out only for a call outside a slot.
        given = self.fresh.pop() if self.fresh else self.make()
        self.used.append(given)
        return self.function(*given)


def finished(result: Any, name: str) -> Any:
    """The result, unless it is work that has not begun."""
    for kind, work, instead in UNFINISHED:
        if isinstance(result, kind):
            if isinstance(result, (types.CoroutineType, types.GeneratorType)):
                # Otherwise Python warns that it was never awaited.
                result.close()
            raise EllwandError(f"{name} returned {work} that has not run; measure a function that runs it, such as {instead}")
    return result


def flat(result: Any, name: str = "result") -> dict[str, Any]:
    """A result as named arrays, each with at least one value: floats as float32 or float64, other objects as their text."""
    import numpy as np

    if result is None:
        return {name: np.zeros(1, np.uint8)}
    if isinstance(result, Mapping):
        inside = {k: v for key, each in result.items() for k, v in flat(each, f"{name}.{key}").items()}
        return {f"{name}.length": np.array([len(result)]), **inside}
    if isinstance(result, (set, frozenset)):
        # The iteration order of a set differs between processes.
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
        # It has no values but its shape does: empty results of one shape are equal.
        return {name: np.zeros(array.shape), f"{name}.shape": np.array(array.shape, np.int64)}
    if kind == "f":
        # At its own size, because peak memory is compared with it.
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
        # Small float types of JAX and others.
        return {name: array.astype(np.float64)}
    return {name: np.frombuffer(array.tobytes(), np.uint8)}


def _text(result: Any) -> Any:
    import numpy as np

    text = f"a {type(result).__name__}" if " at 0x" in repr(result) else repr(result)
    return np.frombuffer(text.encode(), np.uint8)
