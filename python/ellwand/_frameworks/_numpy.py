"""The layer operations, their gradients, attention and matrix products in NumPy: what one writes without a framework."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._case import Case
from .._errors import Unsupported
from .._registry import CORES
from . import LATTICE

T = dict[str, Any]


def prepare(_name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A call of ``workload`` without arguments."""
    if case.get("precision") == "bf16":
        raise Unsupported("NumPy has no bf16")
    if case.get("form") == "exact":
        raise Unsupported("NumPy has no error function; --form tanh needs none")
    if workload in LATTICE:
        from . import _lattice

        return _lattice.prepare(_lattice.NumpyArrays(), workload, case, inputs)
    call: Any = functools.partial(FUNCTIONS[workload], case, inputs)
    call.what_ran = f"numpy {np.__version__}, matrix products on {CORES} threads"
    return call  # type: ignore[no-any-return]


def _norm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + np.float32(eps)) * gamma + beta


def _swish(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x * x * x)))


def _reduced(case: Case, loss: Any) -> Any:
    if case["reduction"] == "none":
        return loss
    return (np.mean if case["reduction"] == "mean" else np.sum)(loss, dtype=np.float64).astype(np.float32)


def _residual(case: Case, t: T) -> Any:
    total = t["x"] + t["residual"]
    return {"y": _norm(total, t["gamma"], t["beta"], case["eps"]), "sum": total}


def _cross_entropy(case: Case, t: T) -> Any:
    x = t["x"] - t["x"].max(-1, keepdims=True)
    if case.get("targets") == "probabilities":
        total = np.log(np.exp(x).sum(-1, keepdims=True))
        return _reduced(case, (t["target"] * (total - x)).sum(-1))
    chosen = np.take_along_axis(x, t["labels"][..., None], -1)[..., 0]
    return _reduced(case, np.log(np.exp(x).sum(-1)) - chosen)


def _masked(case: Case, t: T, scores: Any) -> Any:
    rows, keys = scores.shape[-2:]
    if case["mask"] == "causal":
        return np.where(np.tri(rows, keys, dtype=bool), scores, np.float32(-np.inf))
    if case["mask"] == "padding":
        seen = np.arange(keys)[None, :] < t["lengths"][:, None]
        return np.where(seen[:, None, None, :], scores, np.float32(-np.inf))
    return scores


def _grouped(x: Any, heads: int) -> Any:
    return x if x.shape[1] == heads else np.repeat(x, heads // x.shape[1], axis=1)


def _scores(case: Case, t: T, q: Any, k: Any) -> Any:
    return _masked(case, t, (q * np.float32(q.shape[-1] ** -0.5)) @ _grouped(k, q.shape[1]).swapaxes(-2, -1))


def _core(case: Case, t: T, q: Any, k: Any, v: Any) -> Any:
    return _softmax(_scores(case, t, q, k)) @ _grouped(v, q.shape[1])


def _whole(case: Case, t: T, x: Any) -> Any:
    heads, kv = case["heads"], case["kv-heads"] or case["heads"]
    batch, rows, width = x.shape
    head = width // heads
    qkv = x @ t["w_qkv"].T + t["b_qkv"]
    parts = np.split(qkv, [heads * head, (heads + kv) * head], axis=-1)
    q, k, v = (part.reshape(batch, rows, -1, head).swapaxes(1, 2) for part in parts)
    return _core(case, t, q, k, v).swapaxes(1, 2).reshape(x.shape) @ t["w_out"].T + t["b_out"]


def _layer(case: Case, t: T) -> Any:
    x = t["x"] + _whole(case, t, _norm(t["x"], t["gamma_1"], t["beta_1"]))
    hidden = _norm(x, t["gamma_2"], t["beta_2"]) @ t["w_up"].T + t["b_up"]
    return x + _gelu(hidden) @ t["w_down"].T + t["b_down"]


def _product(case: Case, t: T) -> Any:
    return t["a"] @ (t["b"].T if case["transposed"] else t["b"])


def _norm_gradient(case: Case, t: T) -> Any:
    x, dy = t["x"], t["dy"]
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(case["eps"]))
    unit = centred * scale
    inner = dy * t.get("gamma", np.float32(1))
    dx = scale * (inner - inner.mean(-1, keepdims=True) - unit * (inner * unit).mean(-1, keepdims=True))
    rows = tuple(range(x.ndim - 1))
    return {"dx": dx, "dgamma": (dy * unit).sum(rows), "dbeta": dy.sum(rows)}


def _gelu_gradient(x: Any) -> Any:
    root = np.float32((2 / np.pi) ** 0.5)
    t = np.tanh(root * (x + np.float32(0.044715) * x * x * x))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + np.float32(3 * 0.044715) * x * x)


def _swish_gradient(x: Any) -> Any:
    s = 1 / (1 + np.exp(-x))
    return s * (1 + x * (1 - s))


def _upstream(case: Case, t: T, count: int) -> Any:
    return t.get("dloss", np.float32(1)) / np.float32(count if case["reduction"] == "mean" else 1)


def _cross_entropy_gradient(case: Case, t: T) -> Any:
    dx = _softmax(t["x"])
    if case.get("targets") == "probabilities":
        dx = dx * t["target"].sum(-1, keepdims=True) - t["target"]
    else:
        labels = t["labels"][..., None]
        np.put_along_axis(dx, labels, np.take_along_axis(dx, labels, -1) - 1, -1)
    upstream = _upstream(case, t, dx.size // dx.shape[-1])
    return dx * (upstream[..., None] if np.ndim(upstream) else upstream)


FUNCTIONS: dict[str, Callable[[Case, T], Any]] = {
    "layer-norm": lambda case, t: _norm(t["x"], t["gamma"], t["beta"], case["eps"]),
    "gelu": lambda _, t: _gelu(t["x"]),
    "swish": lambda _, t: _swish(t["x"]),
    "softmax": lambda _, t: _softmax(t["x"]),
    "mse-loss": lambda case, t: _reduced(case, (t["x"] - t["target"]) ** 2),
    "cross-entropy-loss": _cross_entropy,
    "bias-gelu": lambda _, t: _gelu(t["x"] + t["bias"]),
    "residual-layer-norm": _residual,
    "swiglu": lambda _, t: _swish(t["x"]) * t["up"],
    "matmul": _product,
    "layer-norm-backward": _norm_gradient,
    "gelu-backward": lambda _, t: t["dy"] * _gelu_gradient(t["x"]),
    "swish-backward": lambda _, t: t["dy"] * _swish_gradient(t["x"]),
    "mse-loss-backward": lambda case, t: 2 * (t["x"] - t["target"]) * _upstream(case, t, t["x"].size),
    "cross-entropy-loss-backward": _cross_entropy_gradient,
    "attention-qkv": lambda _, t: t["x"] @ t["w_qkv"].T + t["b_qkv"],
    "attention-scores": lambda case, t: _scores(case, t, t["q"], t["k"]),
    "attention-softmax": lambda case, t: _softmax(_masked(case, t, t["scores"])),
    "attention-weighted-sum": lambda _, t: t["weights"] @ _grouped(t["v"], t["weights"].shape[1]),
    "attention-output": lambda _, t: t["context"] @ t["w_out"].T + t["b_out"],
    "attention-core": lambda case, t: _core(case, t, t["q"], t["k"], t["v"]),
    "attention": lambda case, t: _whole(case, t, t["x"]),
    "transformer-layer": _layer,
}
