"""The published clusterless decoder (package non_local_detector), called as its users call it."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from .._case import Case
from .._errors import Unsupported
from ._kde_model import Recording

__all__ = ["prepare"]

# The package has no type annotations.
published: Any = importlib.import_module("non_local_detector.likelihoods.clusterless_kde")

# Otherwise JAX reserves most of the GPU's memory, which other implementations use.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

#: The package's default.
BLOCK = 100


def _on_processor(function: Callable[[], Any]) -> Callable[[], Any]:
    """Makes JAX compute on the CPU; it uses a GPU by default if present."""
    processor = jax.devices("cpu")[0]

    @functools.wraps(function)
    def there() -> Any:
        with jax.default_device(processor):
            return function()

    return there


def prepare(_name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """The fit, or decoding with a model fitted before timing, on the processor."""
    if case.get("precision") == "f64":
        raise Unsupported("non_local_detector computes in float32, as JAX does by default")
    recording = Recording(inputs)
    # One bandwidth per feature for all electrodes; electrodes with fewer features use the first ones.
    widths = max((electrode.waveform_std for electrode in recording.electrodes), key=len)
    # These functions use only this part of an Environment: a grid without a track graph.
    place = SimpleNamespace(
        track_graph=None, is_track_interior_=np.ones(recording.bins, bool), place_bin_centers_=recording.grid
    )
    # The package counts samples as duration times frequency, rounded down.
    frequency = (recording.samples + 0.5) / (recording.time[-1] - recording.time[0])
    block = case.get("block", "auto")
    common = {"block_size": BLOCK if block == "auto" else int(block), "disable_progress_bar": True}

    @_on_processor
    def fit() -> Any:
        times, marks = zip(*recording.spikes(inputs, "enc"))
        model = published.fit_clusterless_kde_encoding_model(
            recording.time, recording.track, list(times), list(marks), place, frequency,
            recording.position_std, widths, **common,
        )  # fmt: skip
        return jax.block_until_ready(model)

    @_on_processor
    def fitted() -> Any:
        model = fit()
        return {
            "occupancy": model["occupancy"],
            "ground_process_intensity": model["summed_ground_process_intensity"],
            "mean_rates": np.array(model["mean_rates"]),
        }

    if workload == "kde-fit":
        return fitted
    model = fit()
    times, marks = zip(*recording.spikes(inputs, "dec"))

    @_on_processor
    def predict() -> Any:
        result = published.predict_clusterless_kde_log_likelihood(
            recording.edges, recording.time, recording.track, list(times), list(marks), **model
        )
        return {"log_likelihood": jax.block_until_ready(result)}

    return predict
