"""The layer operations, their gradients, attention, matrix products and the clusterless decoder in JAX."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _device, _threads
from .._case import Case
from .._compile import Watch
from .._errors import Unsupported
from . import GRADIENTS
from ._operations import Operations

T = dict[str, Any]

# Otherwise JAX reserves most of the GPU's memory, and other implementations are measured on the same GPU.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Call:
    """A jitted function on arrays of a device; calling it dispatches once, and the instrument waits for the result."""

    def __init__(self, function: Callable[[T], Any], arrays: T, watch: Watch, device: Any) -> None:
        self.function, self.arrays, self.watch = function, arrays, watch
        threads = _threads.of_xla()
        pool = "unknown number of threads" if threads is None else f"XLA's pool of {threads} threads"
        self.what_ran = f"jax {jax.__version__}, {pool if device.platform == 'cpu' else device.device_kind}"

    def __call__(self) -> Any:
        return self.function(self.arrays)


def prepare(name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A call of ``workload`` without arguments, compiled before it is timed."""
    if case.get("precision") == "bf16":
        raise Unsupported("the JAX implementations compute in float32 only")
    platform = "cuda" if name.endswith("-cuda") else "cpu"
    try:
        device = jax.devices(platform)[_device.timed[1] if _device.timed else 0]
    except RuntimeError as error:
        raise Unsupported(f"JAX finds no {platform.upper()} device: {error}") from error
    if workload.startswith("kde-"):
        from ._jax_kde import prepare as prepare_kde

        return prepare_kde(workload, case, inputs, functools.partial(compiled, device))
    # JAX would silently truncate 64-bit labels to 32 bits.
    small = {k: np.asarray(v, np.int32) if v.dtype == np.int64 else v for k, v in inputs.items()}
    return compiled(device, functools.partial(FUNCTIONS[workload], case), small)


def compiled(device: Any, function: Callable[[T], Any], inputs: T) -> Call:
    """A call of the function under jit on copies of the inputs."""
    arrays = {key: jax.device_put(np.array(array), device) for key, array in inputs.items()}

    def precise(t: T) -> Any:
        # On a GPU JAX otherwise uses TF32 for f32 products.
        with jax.default_matmul_precision("highest"):
            return function(t)

    jitted, watch = jax.jit(function if device.platform == "cpu" else precise), Watch()
    jax.block_until_ready(jitted(arrays))
    return Call(jitted, arrays, watch, device)


class JaxOperations(Operations):
    """The operations with JAX's own activations, and gradients by ``jax.vjp``."""

    def norm(self, x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + eps) * gamma + beta

    def swish(self, x: Any) -> Any:
        return jax.nn.silu(x)

    def softmax(self, x: Any) -> Any:
        return jax.nn.softmax(x, axis=-1)

    def gelu(self, case: Case, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=case.get("form") == "tanh")

    def gelu_tanh(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=True)

    def reduced(self, case: Case, loss: Any) -> Any:
        return {"mean": jnp.mean, "sum": jnp.sum, "none": lambda each: each}[case["reduction"]](loss)

    def cross_entropy(self, case: Case, t: T) -> Any:
        logits = jax.nn.log_softmax(t["x"], axis=-1)
        if case.get("targets") == "probabilities":
            return self.reduced(case, -(t["target"] * logits).sum(-1))
        return self.reduced(case, -jnp.take_along_axis(logits, t["labels"][..., None], axis=-1)[..., 0])

    def functions(self) -> dict[str, Callable[[Case, T], Any]]:
        made = super().functions()
        for name in GRADIENTS:
            names = ("x", "gamma", "beta") if name.startswith("layer-norm") else ("x",)
            made[name] = _gradient(made[name.removesuffix("-backward")], "dloss" if "loss" in name else "dy", names)
        return made


def _gradient(forward: Callable[[Case, T], Any], upstream: str, names: tuple[str, ...]) -> Callable[[Case, T], Any]:
    """The gradient of a layer; it recomputes the forward pass, as ours does."""

    def run(case: Case, t: T) -> Any:
        def layer(*args: Any) -> Any:
            return forward(case, {**t, "beta": jnp.zeros(()), **dict(zip(names, args))})

        whole = {"gamma": jnp.ones(t["x"].shape[-1]), "beta": jnp.zeros(t["x"].shape[-1]), **t}
        y, pull = jax.vjp(layer, *(whole[name] for name in names))
        given = jnp.broadcast_to(t.get(upstream, jnp.ones((), y.dtype)), y.shape)
        return {f"d{name}": gradient for name, gradient in zip(names, pull(given))}

    return run


FUNCTIONS = JaxOperations(jnp).functions()
