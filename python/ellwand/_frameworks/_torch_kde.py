"""The clusterless decoder in PyTorch: kernels as matrices, one product per electrode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .._case import Case
from ._kde_model import FLOOR, LOG_FLOOR, Electrode, Recording, exponents, log_norm

__all__ = ["prepare"]


class Fit:
    """Occupancy and ground process at every bin."""

    def __init__(self, recording: Recording, dtype: Any, device: str) -> None:
        self.recording = recording
        # At most six for the kernels of an axis, and their products and sums.
        self.launches = (len(recording.electrodes) + 1) * (6 * recording.grid.shape[1] + 12)
        self.rates = recording.mean_rates()
        self.norm = math.exp(log_norm(recording.position_std))
        self.grid, self.track = (torch.tensor(array, dtype=dtype, device=device) for array in (recording.grid, recording.track))
        self.positions = [torch.tensor(electrode.positions, dtype=dtype, device=device) for electrode in recording.electrodes]

    def density(self, positions: Any) -> Any:
        """The mean, at every bin, of the kernels centred on ``positions``."""
        if len(positions) == 0:
            return self.grid.new_zeros(len(self.grid))
        return exponents(self.grid, positions, self.recording.position_std).exp().mean(1) * self.norm

    def __call__(self) -> dict[str, Any]:
        occupancy = self.density(self.track)
        ground = torch.zeros_like(occupancy)
        for positions, rate in zip(self.positions, self.rates):
            ratio = torch.where(occupancy > 0, self.density(positions) / occupancy, FLOOR)
            ground += (rate * ratio).clamp_min(FLOOR)
        return {"occupancy": occupancy, "ground_process_intensity": ground, "mean_rates": self.rates.copy()}


class Predict:
    """The log likelihood of every time bin at every position bin."""

    def __init__(self, recording: Recording, dtype: Any, device: str) -> None:
        fitted = Fit(recording, torch.float64, device)()
        self.edges = len(recording.edges)
        self.launches = sum(6 * len(each.waveform_std) + 24 for each in recording.electrodes) + 8
        self.ground = fitted["ground_process_intensity"].to(dtype)
        self.rarity = torch.where(fitted["occupancy"] > 0, -fitted["occupancy"].log(), -torch.inf).to(dtype)
        self.width, self.position_std = recording.bins, recording.position_std
        self.grid = torch.tensor(recording.grid, dtype=dtype, device=device)
        self.electrodes = [self._tensors(recording, electrode, dtype, device) for electrode in recording.electrodes]

    @staticmethod
    def _tensors(recording: Recording, electrode: Electrode, dtype: Any, device: str) -> tuple[Any, ...]:
        given = (electrode.positions, electrode.marks, electrode.decoding)
        arrays = (torch.tensor(array, dtype=dtype, device=device) for array in given)
        return (*arrays, torch.tensor(electrode.rows, device=device), electrode.waveform_std, recording.log_scale(electrode))

    def __call__(self) -> dict[str, Any]:
        out = (-self.ground).expand(self.edges, self.width).clone()
        for positions, marks, decoding, rows, waveform_std, log_scale in self.electrodes:
            if len(marks) == 0:
                out.index_add_(0, rows, out.new_full((len(rows), self.width), LOG_FLOOR))
                continue
            places = exponents(positions, self.grid, self.position_std).exp()
            terms = exponents(decoding, marks, waveform_std)
            largest = terms.amax(1, keepdim=True)
            rates = ((terms - largest).exp() @ places).log() + (largest + log_scale) + self.rarity
            out.index_add_(0, rows, rates.clamp_min(LOG_FLOOR))
        return {"log_likelihood": out}


def prepare(workload: str, case: Case, inputs: dict[str, Any], device: str) -> Callable[[], Any]:
    """The fit, or decoding with a model fitted before timing."""
    dtype = torch.float64 if case.get("precision") == "f64" else torch.float32
    return (Fit if workload == "kde-fit" else Predict)(Recording(inputs), dtype, device)
