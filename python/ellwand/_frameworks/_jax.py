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

T = dict[str, Any]

# JAX reserves most of a card's memory otherwise, and other implementations are measured beside it.
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
    # Labels of 64 bits would be cut to 32 without a word.
    small = {k: np.asarray(v, np.int32) if v.dtype == np.int64 else v for k, v in inputs.items()}
    return compiled(device, functools.partial(FUNCTIONS[workload], case), small)


def compiled(device: Any, function: Callable[[T], Any], inputs: T) -> Call:
    """A call of the function under jit on copies of the inputs."""
    arrays = {key: jax.device_put(np.array(array), device) for key, array in inputs.items()}

    def precise(t: T) -> Any:
        # On a GPU products of f32 are in TF32 otherwise.
        with jax.default_matmul_precision("highest"):
            return function(t)

    jitted, watch = jax.jit(function if device.platform == "cpu" else precise), Watch()
    jax.block_until_ready(jitted(arrays))
    return Call(jitted, arrays, watch, device)


def _norm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + eps) * gamma + beta


def _gelu(case: Case, x: Any) -> Any:
    return jax.nn.gelu(x, approximate=case.get("form") == "tanh")


def _reduced(case: Case, loss: Any) -> Any:
    return {"mean": jnp.mean, "sum": jnp.sum, "none": lambda each: each}[case["reduction"]](loss)


def _residual(case: Case, t: T) -> Any:
    total = t["x"] + t["residual"]
    return {"y": _norm(total, t["gamma"], t["beta"], case["eps"]), "sum": total}


def _cross_entropy(case: Case, t: T) -> Any:
    logits = jax.nn.log_softmax(t["x"], axis=-1)
    if case.get("targets") == "probabilities":
        return _reduced(case, -(t["target"] * logits).sum(-1))
    return _reduced(case, -jnp.take_along_axis(logits, t["labels"][..., None], axis=-1)[..., 0])


def _masked(case: Case, t: T, scores: Any) -> Any:
    rows, keys = scores.shape[-2:]
    if case["mask"] == "causal":
        return jnp.where(jnp.tril(jnp.ones((rows, keys), bool)), scores, -jnp.inf)
    if case["mask"] == "padding":
        seen = jnp.arange(keys)[None, :] < t["lengths"][:, None]
        return jnp.where(seen[:, None, None, :], scores, -jnp.inf)
    return scores


def _grouped(x: Any, heads: int) -> Any:
    return x if x.shape[1] == heads else jnp.repeat(x, heads // x.shape[1], axis=1)


def _scores(case: Case, t: T, q: Any, k: Any) -> Any:
    return _masked(case, t, (q * q.shape[-1] ** -0.5) @ _grouped(k, q.shape[1]).swapaxes(-2, -1))


def _core(case: Case, t: T, q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(_scores(case, t, q, k), axis=-1) @ _grouped(v, q.shape[1])


def _whole(case: Case, t: T, x: Any) -> Any:
    heads, kv = case["heads"], case["kv-heads"] or case["heads"]
    batch, rows, width = x.shape
    head = width // heads
    qkv = x @ t["w_qkv"].T + t["b_qkv"]
    parts = jnp.split(qkv, [heads * head, (heads + kv) * head], axis=-1)
    q, k, v = (part.reshape(batch, rows, -1, head).swapaxes(1, 2) for part in parts)
    context = _core(case, t, q, k, v).swapaxes(1, 2).reshape(x.shape)
    return context @ t["w_out"].T + t["b_out"]


def _layer(case: Case, t: T) -> Any:
    x = t["x"] + _whole(case, t, _norm(t["x"], t["gamma_1"], t["beta_1"]))
    hidden = _norm(x, t["gamma_2"], t["beta_2"]) @ t["w_up"].T + t["b_up"]
    return x + jax.nn.gelu(hidden, approximate=True) @ t["w_down"].T + t["b_down"]


def _gradient(forward: str, upstream: str, *names: str) -> Callable[[Case, T], Any]:
    """The gradient of a layer by ``jax.vjp``: its forward pass is computed again, as ours does."""

    def run(case: Case, t: T) -> Any:
        def layer(*args: Any) -> Any:
            return FUNCTIONS[forward](case, {**t, "beta": jnp.zeros(()), **dict(zip(names, args))})

        whole = {"gamma": jnp.ones(t["x"].shape[-1]), "beta": jnp.zeros(t["x"].shape[-1]), **t}
        y, pull = jax.vjp(layer, *(whole[name] for name in names))
        given = jnp.broadcast_to(t.get(upstream, jnp.ones((), y.dtype)), y.shape)
        return {f"d{name}": gradient for name, gradient in zip(names, pull(given))}

    return run


FUNCTIONS: dict[str, Callable[[Case, T], Any]] = {
    "layer-norm": lambda case, t: _norm(t["x"], t["gamma"], t["beta"], case["eps"]),
    "gelu": lambda case, t: _gelu(case, t["x"]),
    "swish": lambda _, t: jax.nn.silu(t["x"]),
    "softmax": lambda _, t: jax.nn.softmax(t["x"], axis=-1),
    "mse-loss": lambda case, t: _reduced(case, (t["x"] - t["target"]) ** 2),
    "cross-entropy-loss": _cross_entropy,
    "bias-gelu": lambda case, t: _gelu(case, t["x"] + t["bias"]),
    "residual-layer-norm": _residual,
    "swiglu": lambda _, t: jax.nn.silu(t["x"]) * t["up"],
    "matmul": lambda case, t: t["a"] @ (t["b"].T if case["transposed"] else t["b"]),
    "layer-norm-backward": _gradient("layer-norm", "dy", "x", "gamma", "beta"),
    "gelu-backward": _gradient("gelu", "dy", "x"),
    "swish-backward": _gradient("swish", "dy", "x"),
    "mse-loss-backward": _gradient("mse-loss", "dloss", "x"),
    "cross-entropy-loss-backward": _gradient("cross-entropy-loss", "dloss", "x"),
    "attention-qkv": lambda _, t: t["x"] @ t["w_qkv"].T + t["b_qkv"],
    "attention-scores": lambda case, t: _scores(case, t, t["q"], t["k"]),
    "attention-softmax": lambda case, t: jax.nn.softmax(_masked(case, t, t["scores"]), axis=-1),
    "attention-weighted-sum": lambda _, t: t["weights"] @ _grouped(t["v"], t["weights"].shape[1]),
    "attention-output": lambda _, t: t["context"] @ t["w_out"].T + t["b_out"],
    "attention-core": lambda case, t: _core(case, t, t["q"], t["k"], t["v"]),
    "attention": lambda case, t: _whole(case, t, t["x"]),
    "transformer-layer": _layer,
}
