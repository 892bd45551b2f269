"""The clusterless decoder in JAX, under jit: kernels as matrices, one product per electrode."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._case import Case
from .._errors import Unsupported
from ._kde_model import FLOOR, LOG_FLOOR, Recording, exponents, log_norm

T = dict[str, Any]

__all__ = ["prepare"]


def _doubles() -> Any:
    """A context in which JAX computes in float64; older versions keep the switch elsewhere."""
    home: Any = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    return home.enable_x64(True)


def _densities(recording: Recording, t: T) -> tuple[Any, Any]:
    norm, widths = np.exp(log_norm(recording.position_std)), recording.position_std.tolist()

    def density(positions: Any) -> Any:
        if len(positions) == 0:
            return jnp.zeros(recording.bins, t["grid"].dtype)
        return jnp.exp(exponents(t["grid"], positions, widths)).mean(1) * norm

    occupancy = density(t["track"])
    ground = jnp.zeros_like(occupancy)
    for number, rate in enumerate(recording.mean_rates().tolist()):
        ratio = jnp.where(occupancy > 0, density(t[f"positions_{number}"]) / occupancy, FLOOR)
        ground += jnp.maximum(rate * ratio, FLOOR)
    return occupancy, ground


def _fit(recording: Recording, t: T) -> Any:
    occupancy, ground = _densities(recording, t)
    return {"occupancy": occupancy, "ground_process_intensity": ground, "mean_rates": t["rates"]}


def _predict(recording: Recording, t: T) -> Any:
    widths = recording.position_std.tolist()
    out = jnp.broadcast_to(-t["ground"], (len(recording.edges), recording.bins))
    for number, electrode in enumerate(recording.electrodes):
        rows, decoding, marks = t[f"rows_{number}"], t[f"decoding_{number}"], t[f"marks_{number}"]
        if len(electrode.marks) == 0:
            out = out.at[rows].add(LOG_FLOOR)
            continue
        places = jnp.exp(exponents(t[f"positions_{number}"], t["grid"], widths))
        terms = exponents(decoding, marks, electrode.waveform_std.tolist())
        largest = terms.max(1, keepdims=True)
        rates = jnp.log(jnp.exp(terms - largest) @ places) + (largest + recording.log_scale(electrode)) + t["rarity"]
        out = out.at[rows].add(jnp.maximum(rates, LOG_FLOOR))
    return {"log_likelihood": out}


def prepare(workload: str, case: Case, inputs: dict[str, Any], call: Callable[..., Any]) -> Callable[[], Any]:
    """The fit, or decoding with a model fitted before timing; ``call`` compiles a function and places its arrays."""
    if case.get("precision") == "f64":
        raise Unsupported("the JAX implementations compute in float32 only")
    recording = Recording(inputs)
    arrays: T = {"grid": recording.grid, "track": recording.track}
    for number, electrode in enumerate(recording.electrodes):
        arrays[f"positions_{number}"] = electrode.positions
        arrays[f"marks_{number}"], arrays[f"decoding_{number}"] = electrode.marks, electrode.decoding
        arrays[f"rows_{number}"] = electrode.rows
    if workload == "kde-predict":
        with _doubles():
            wide = {name: jnp.asarray(array) for name, array in arrays.items()}
            occupancy, ground = (np.asarray(array) for array in _densities(recording, wide))
        with np.errstate(divide="ignore"):
            arrays["rarity"] = np.where(occupancy > 0, -np.log(occupancy), -np.inf)
        arrays["ground"] = ground
    narrow = {name: a.astype(np.float32) if a.dtype == np.float64 else a for name, a in arrays.items()}
    if workload == "kde-fit":
        narrow["rates"] = recording.mean_rates().astype(np.float32)
    task = _fit if workload == "kde-fit" else _predict
    made: Callable[[], Any] = call(lambda t: task(recording, t), narrow)
    return made
