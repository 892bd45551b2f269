"""A case: one parameter point of a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

__all__ = ["Case", "Value"]

Value = Union[int, float, str, bool]


class Case(Mapping[str, Any]):
    """The values of a workload's axes: ``case["batch"]``."""

    __slots__ = ("_params", "id", "workload")

    def __init__(self, workload: str, id: str, params: dict[str, Value]) -> None:
        self.workload = workload
        #: The same on every machine, for ever.
        self.id = id
        self._params = params

    def __getitem__(self, axis: str) -> Any:
        try:
            return self._params[axis]
        except KeyError:
            raise KeyError(f"{self.workload} has no axis '{axis}'; it has {', '.join(self._params) or 'none'}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __repr__(self) -> str:
        return f"<Case {self.id}>"
