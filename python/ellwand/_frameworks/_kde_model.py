"""The encoding model of the clusterless decoder, fitted once in float64 and restated from its definition.

What a framework computes with the model is in ``_torch_kde`` and ``_jax_kde``. They fit it in their preparation, except for ``kde-fit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["FLOOR", "LOG_FLOOR", "Electrode", "Recording", "exponents", "log_norm"]

#: The smallest rate, and its logarithm.
FLOOR = 1e-15
LOG_FLOOR = float(np.log(FLOOR))


@dataclass
class Electrode:
    """Encoding spikes within the track, and decoding spikes within the time bins."""

    positions: Any
    marks: Any
    waveform_std: Any
    decoding: Any
    #: Time bin of each decoding spike.
    rows: Any


def log_norm(widths: Any) -> float:
    """ln of the constant that normalises a Gaussian product kernel."""
    return float(-np.log(np.asarray(widths) * np.sqrt(2 * np.pi)).sum())


def exponents(a: Any, b: Any, widths: Any) -> Any:
    """ln of the kernels of every pair, without their constant."""
    return sum(-0.5 * ((a[:, None, d] - b[None, :, d]) / widths[d]) ** 2 for d in range(a.shape[1]))


class Recording:
    """The arrays of a case by electrode."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.time = inputs["position_time"]
        self.samples = len(self.time)
        self.track = inputs["position"].reshape(self.samples, -1)
        dims = self.track.shape[1]
        self.grid = inputs["grid"].reshape(-1, dims)
        spread: Any = inputs.get("position_std", np.sqrt(12.5))
        self.position_std = np.broadcast_to(spread, (dims,)).astype(np.float64)
        self.edges: Any = inputs.get("time_edges")
        widths = inputs.get("waveform_std", np.float64(24.0))
        features = [int(n) for n in inputs["n_features"]]
        encoding = self.spikes(inputs, "enc")
        decoding = self.spikes(inputs, "dec") if self.edges is not None else [None] * len(features)
        self.electrodes = [
            self._electrode(e, d, np.broadcast_to(np.asarray(widths)[:n] if np.ndim(widths) else widths, (n,)))
            for e, d, n in zip(encoding, decoding, features)
        ]

    @staticmethod
    def spikes(inputs: dict[str, Any], kind: str) -> list[tuple[Any, Any]]:
        """Times and marks of each electrode; ``kind`` is "enc" or "dec"."""
        features = [int(n) for n in inputs["n_features"]]
        times, ends = inputs[f"{kind}_spike_times"], inputs[f"{kind}_spike_times_offsets"]
        flat, made, at = inputs[f"{kind}_features_flat"], [], 0
        for first, last, n in zip(ends[:-1], ends[1:], features):
            count = int(last - first)
            made.append((times[first:last], flat[at : at + count * n].reshape(count, n)))
            at += count * n
        return made

    def _electrode(self, encoding: tuple[Any, Any], decoding: tuple[Any, Any] | None, widths: Any) -> Electrode:
        times, marks = encoding
        kept = (times >= self.time[0]) & (times <= self.time[-1])
        positions = np.stack([np.interp(times[kept], self.time, column) for column in self.track.T], axis=-1)
        rows: Any = np.zeros(0, np.int32)
        decoded = np.zeros((0, marks.shape[1]))
        if decoding is not None:
            spikes, decoded = decoding
            inside = (spikes >= self.edges[0]) & (spikes <= self.edges[-1])
            rows = np.searchsorted(self.edges[1:-1], spikes[inside], side="right").astype(np.int32)
            decoded = decoded[inside]
        return Electrode(positions, marks[kept], np.asarray(widths, np.float64), decoded, rows)

    @property
    def bins(self) -> int:
        """Number of position bins."""
        return len(self.grid)

    def mean_rates(self) -> Any:
        """Spikes per position sample for each electrode."""
        return np.array([len(e.marks) / self.samples for e in self.electrodes])

    def log_scale(self, electrode: Electrode) -> float:
        """ln of the constants of a mark's rate."""
        return float(-np.log(self.samples)) + log_norm(electrode.waveform_std) + log_norm(self.position_std)
