"""The clusterless decoder: it estimates where the animal is from unsorted spikes and their marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _arrays
from ._errors import EllwandError
from ._errors import hidden as __tracebackhide__
from ._native import Decoder

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["ClusterlessDecoder"]


def _doubles(name: str, value: Any) -> Array:
    import numpy as np

    return np.asarray(_arrays.borrow(name, value), dtype=np.float64, order="C")


def _electrodes(times: Sequence[Any], features: Sequence[Any], names: tuple[str, str]) -> list[tuple[Array, Array]]:
    if len(times) != len(features):
        raise EllwandError(f"{names[1]}: {len(features)} electrodes; expected as many as in {names[0]}, {len(times)}")
    made = []
    for number, (at, marks) in enumerate(zip(times, features)):
        at, marks = _doubles(f"{names[0]}[{number}]", at), _doubles(f"{names[1]}[{number}]", marks)
        if marks.ndim == 1:
            marks = marks[:, None]
        if at.ndim != 1 or marks.ndim != 2 or len(marks) != len(at):
            raise EllwandError(
                f"{names[1]}[{number}]: its shape is {marks.shape} for times of shape {at.shape}; expected [spikes, features]"
            )
        made.append((at, marks))
    return made


def _position(name: str, value: Any) -> Array:
    position = _doubles(name, value)
    return position[:, None] if position.ndim == 1 else position


def _widths(value: Any) -> list[float]:
    import numpy as np

    return [float(width) for width in np.atleast_1d(np.asarray(value, float))]


class ClusterlessDecoder:
    """A model fitted to an animal's track and the spikes recorded along it.

    ``position`` is [time] or [time, dimensions]; ``grid`` holds the centres of the bins; ``spike_times`` and ``spike_features`` hold one
    array per electrode: [spikes] and [spikes, features].
    """

    def __init__(
        self,
        time: Any,
        position: Any,
        grid: Any,
        spike_times: Sequence[Any],
        spike_features: Sequence[Any],
        *,
        position_std: Any = 12.5**0.5,
        waveform_std: Any = 24.0,
        double: bool = False,
    ) -> None:
        self._native = Decoder(
            _doubles("time", time),
            _position("position", position),
            _position("grid", grid),
            _electrodes(spike_times, spike_features, ("spike_times", "spike_features")),
            _widths(position_std),
            _widths(waveform_std),
            double,
        )

    @property
    def bins(self) -> int:
        """Bins of the grid."""
        return self._native.bins

    @property
    def occupancy(self) -> Array:
        """Occupancy density at each bin."""
        return self._native.occupancy

    def predict(
        self,
        time_edges: Any,
        spike_times: Sequence[Any],
        spike_features: Sequence[Any],
        *,
        block_size: int | None = None,
        pos_tile_size: int | None = None,
        memory: int | None = None,
    ) -> Array:
        """Log likelihood [len(time_edges), bins]; the last row never receives a spike, as in the published code."""
        electrodes = _electrodes(spike_times, spike_features, ("spike_times", "spike_features"))
        for name, value in (("block_size", block_size), ("pos_tile_size", pos_tile_size), ("memory", memory)):
            if value is not None and (not hasattr(value, "__index__") or value < 1):
                raise EllwandError(f"{name}: {value!r} is out of range; expected an integer of at least 1, or None")
        return self._native.predict(_doubles("time_edges", time_edges), electrodes, block_size, pos_tile_size, memory)

    def predict_local(
        self, time: Any, position: Any, time_edges: Any, spike_times: Sequence[Any], spike_features: Sequence[Any]
    ) -> Array:
        """Log likelihood at the animal's own position, [len(time_edges)]."""
        electrodes = _electrodes(spike_times, spike_features, ("spike_times", "spike_features"))
        edges = _doubles("time_edges", time_edges)
        return self._native.predict_local(_doubles("time", time), _position("position", position), edges, electrodes)
