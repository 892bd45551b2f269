"""The Rust half."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ._registry import Implementation, Workload

__version__: str

Array = np.ndarray[Any, Any]
Electrode = tuple[Array, Array]

def run(
    args: Sequence[str],
    line: Sequence[str],
    workloads: Sequence[Workload],
    implementations: Sequence[Implementation],
    launch: Sequence[str],
) -> int: ...
def take_streams() -> None: ...
def worker(workloads: Sequence[Workload], implementations: Sequence[Implementation]) -> int: ...
def report(paths: Sequence[str], name: str) -> str: ...
def outputs() -> list[tuple[str, list[str]]]: ...
def measure(
    path: str,
    workload: str,
    workloads: Sequence[Workload],
    implementations: Sequence[Implementation],
    effort: str,
    seed: int,
) -> None: ...
def layer(
    name: str,
    x: Array,
    y: Array,
    *,
    second: Array | None = None,
    vectors: Sequence[Array] = (),
    sum: Array | None = None,
    eps: float = 1e-5,
    tanh: bool = False,
) -> None: ...
def loss(name: str, x: Array, *, second: Array | None = None, labels: Array | None = None) -> float: ...
def attention(q: Array, k: Array, v: Array, out: Array, causal: bool) -> None: ...
def encode(
    x: Array, lattice: str, q: int, levels: int, beta: float, centred: bool, overload: str, alpha: float, cap: int
) -> Codes: ...
def dot(codes: Codes, query: Array) -> Array: ...
@final
class Codes:
    @property
    def shape(self) -> list[int]: ...
    @property
    def packed(self) -> Array: ...
    @property
    def overload(self) -> Array | None: ...
    @property
    def nbytes(self) -> int: ...
    def decode(self, depth: int | None = None) -> Array: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, data: bytes) -> Codes: ...

@final
class Decoder:
    def __new__(
        cls,
        time: Array,
        position: Array,
        grid: Array,
        electrodes: Sequence[Electrode],
        position_std: Sequence[float],
        waveform_std: Sequence[float],
        double: bool = False,
    ) -> Decoder: ...
    @property
    def bins(self) -> int: ...
    @property
    def occupancy(self) -> Array: ...
    @property
    def mean_rates(self) -> list[float]: ...
    def predict(
        self,
        time_edges: Array,
        electrodes: Sequence[Electrode],
        block: int | None = None,
        tile: int | None = None,
        memory: int | None = None,
    ) -> Array: ...
    def predict_local(
        self, time: Array, position: Array, time_edges: Array, electrodes: Sequence[Electrode]
    ) -> Array: ...
