"""Functions and arguments as bytes for another process: by name where that process can import it, else by value."""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import sys
import types
from typing import Any, cast

from ._errors import EllwandError

__all__ = ["has_cloudpickle", "main_file", "pickled"]


def has_cloudpickle() -> bool:
    """Whether functions can be pickled by value."""
    return importlib.util.find_spec("cloudpickle") is not None


def pickled(content: Any) -> tuple[bytes, bool]:
    """Pickles by name where possible, else by value if cloudpickle is installed; also returns whether another process can find
    the names. It cannot find what was typed at a prompt.

    Raises whatever pickle raises.
    """
    if has_cloudpickle() and main_file() is None:
        return _by_value(content, []), True
    try:
        blob, modules = _by_name(content)
    except Exception:
        if not has_cloudpickle():
            raise
        return _by_value(content, []), True
    hidden = [module for module in modules if not _is_findable(module)]
    if hidden:
        if not has_cloudpickle():
            raise EllwandError(f"its module {hidden[0].__name__} cannot be imported by name")
        return _by_value(content, hidden), True
    return blob, b"__main__" not in blob or main_file() is not None


def main_file() -> str | None:
    """The script that this process runs, if it is a file."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(path) if path and os.path.isfile(path) else None


class _Pickler(pickle.Pickler):
    """Records the modules of the functions and classes."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.names: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)):
            self.names.add(str(obj.__module__))
        return NotImplemented


def _by_name(content: Any) -> tuple[bytes, list[types.ModuleType]]:
    """The bytes, and the modules they refer to."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(content)
    names = sorted(pickler.names - {"__main__"})
    return file.getvalue(), [sys.modules[name] for name in names if name in sys.modules]


def _by_value(content: Any, modules: list[types.ModuleType]) -> bytes:
    """The bytes, with the functions and classes of some modules included by value."""
    import cloudpickle

    known = cloudpickle.list_registry_pickle_by_value()
    added = [module for module in modules if module.__name__ not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cast(bytes, cloudpickle.dumps(content))
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _is_findable(module: types.ModuleType) -> bool:
    """Whether another process with the same path would find this module, and not another one of the same name. A module without a
    Python file is assumed to be part of its package."""
    here = getattr(module, "__file__", None)
    if not here or not here.endswith(".py"):
        return True
    spec, path, name = None, None, ""
    for part in module.__name__.split("."):
        name = f"{name}.{part}".lstrip(".")
        spec = _found(name, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(here)


def _found(name: str, path: Any) -> Any:
    """What the import system finds, ignoring modules that are already imported."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path) if find else None
        if spec is not None:
            return spec
    return None
