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

# The package has no types.
published: Any = importlib.import_module("non_local_detector.likelihoods.clusterless_kde")

# JAX reserves most of a card's memory otherwise, which other implementations use.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

#: The default of the package.
BLOCK = 100


def _on_processor(function: Callable[[], Any]) -> Callable[[], Any]:
    """JAX computes on a GPU by default where there is one."""
    processor = jax.devices("cpu")[0]

    @functools.wraps(function)
    def there() -> Any:
        with jax.default_device(processor):
            return function()

    return there


def prepare(_name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """The fit, or the decoding with a model fitted before it is timed, on the processor."""
    if case.get("precision") == "f64":
        raise Unsupported("non_local_detector computes in float32, as JAX does by default")
    recording = Recording(inputs)
    # One width a feature for all electrodes; those with fewer features use the first ones.
    widths = max((electrode.waveform_std for electrode in recording.electrodes), key=len)
    # All of an Environment that these functions look at: a grid without a graph of tracks.
    place = SimpleNamespace(
        track_graph=None, is_track_interior_=np.ones(recording.bins, bool), place_bin_centers_=recording.grid
    )
    # It counts the samples as duration times frequency, rounded down.
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
