"""Two functions of the user as implementations of a workload named ``call``."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from . import _arrays, _compile, _load, _registry
from ._case import Case
from ._errors import EllwandError
from ._prepared import Ready, readings_of

__all__ = ["NAME", "Call", "pickled", "register", "register_file", "usable_elsewhere"]

NAME = "call"


Content = tuple[list[Callable[..., Any]], tuple[Any, ...], dict[str, Any]]


@dataclass
class Call:
    """Functions with their arguments, and how their results are compared."""

    names: list[str]
    #: Pickled (functions, positional arguments, keyword arguments): each process, and each arm, gets its own.
    blob: bytes
    threads: int
    tolerance: tuple[float, float]
    inplace: bool
    path: list[str]
    main: str | None
    package: str
    #: Why the content cannot be pickled.
    refused: str = ""
    #: The functions and arguments themselves, if they are measured in the process that has them.
    content: Content | None = None

    def fresh(self) -> Content:
        """Functions with arguments that nobody else has, if that is possible."""
        if self.content is None:
            return cast(Content, pickle.loads(self.blob))
        functions, args, kwargs = self.content
        try:
            return functions, *copy.deepcopy((args, kwargs))
        except Exception:
            return self.content

    def outputs(self, result: Any) -> dict[str, Any]:
        """A result for the judge. What depends on earlier calls cannot be compared."""
        return flat(None if self.inplace else result)


def pickled(content: Any) -> bytes:
    """Pickles by name where that is possible, by value with cloudpickle if it is installed.

    Raises whatever pickle raises.
    """
    try:
        return pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        try:
            import cloudpickle
        except ImportError:
            pass
        else:
            return cast(bytes, cloudpickle.dumps(content))
        raise


def main_file() -> str | None:
    """The script that this process runs, if it is a file."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(path) if path and os.path.isfile(path) else None


def usable_elsewhere(blob: bytes) -> bool:
    """Whether another process can find what the blob names: nothing typed at a prompt."""
    return b"__main__" not in blob or main_file() is not None


def register_file(path: str) -> None:
    """Registers the call that a file holds, in a process that the caller of ``bench`` started."""
    with open(path, "rb") as file:
        call: Call = pickle.load(file)
    sys.path[:] = call.path
    if call.main and b"__main__" in call.blob:
        _load.main_module(call.main, call.package)
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
        functions, args, kwargs = self.call.fresh()
        result = functions[0](*args, **kwargs)
        wait = _arrays.waiter(result)
        if wait is not None:
            wait(result)
        return self.call.outputs(result)

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
        functions, args, kwargs = call.fresh()
        _compile.save(NAME, self.name)
        watch = _compile.Watch()
        function: Callable[..., Any] = functions[self.index]
        run = functools.partial(function, *args, **kwargs) if args or kwargs else function
        arrays = {} if call.inplace else _argument_arrays(args, kwargs)
        before = {name: array.copy() for name, array in arrays.items()}

        def output(result: Any) -> dict[str, Any]:
            for name, array in arrays.items():
                if array.tobytes() != before[name].tobytes():
                    raise EllwandError(
                        f"{self.name} changed its argument {name}, so that every iteration computes something else; "
                        "copy what you write to, or pass inplace=True"
                    )
            return call.outputs(result)

        keep = list(_argument_arrays(args, kwargs).values())
        rows = readings_of(None, watch)
        return Ready(run, True, _arrays.waiter, lambda result, byte: _arrays.spoil(result, keep, byte), output, rows, "")


def _argument_arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that hold memory which a function could write to."""
    import numpy as np

    torch = sys.modules.get("torch")
    found: dict[str, Any] = {}
    for name, value in [*((str(i), v) for i, v in enumerate(args)), *kwargs.items()]:
        if torch is not None and isinstance(value, torch.Tensor):
            if value.device.type != "cpu" or value.layout != torch.strided:
                continue
            value = _arrays.borrow(name, value.detach())
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            found[name] = value
    return found


def flat(result: Any, name: str = "result") -> dict[str, Any]:
    """A result as named arrays: floats as float64, other objects by their text."""
    import numpy as np

    if result is None:
        return {name: np.zeros(1, np.uint8)}
    if isinstance(result, Mapping):
        return {k: v for key, each in result.items() for k, v in flat(each, f"{name}.{key}").items()}
    if isinstance(result, (tuple, list)) and not all(isinstance(each, (bool, int, float)) for each in result):
        return {k: v for i, each in enumerate(result) for k, v in flat(each, f"{name}.{i}").items()}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(result, torch.Tensor):
        tensor: Any = result
        result = tensor.detach().cpu()
    try:
        array = _arrays.plain(name, result)
    except EllwandError:
        text = f"a {type(result).__name__}" if " at 0x" in repr(result) else repr(result)
        return {name: np.frombuffer(text.encode(), np.uint8)}
    return {name: array.astype(np.float64) if array.dtype.kind == "f" else array}
