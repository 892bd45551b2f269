"""The layer operations, their gradients, attention and matrix products on NumPy arrays, or CuPy arrays with the same
functions: one operation after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._case import Case

__all__ = ["Operations"]

T = dict[str, Any]


class Operations:
    """The operations with the functions of the module ``xp``. ``erf`` is the error function, which the exact GELU needs."""

    def __init__(self, xp: Any, erf: Callable[[Any], Any] | None = None) -> None:
        self.xp, self.erf = xp, erf

    def norm(self, x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / self.xp.sqrt(variance + np.float32(eps)) * gamma + beta

    def swish(self, x: Any) -> Any:
        return x / (1 + self.xp.exp(-x))

    def softmax(self, x: Any) -> Any:
        e = self.xp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def gelu(self, case: Case, x: Any) -> Any:
        return self.gelu_tanh(x) if case.get("form") == "tanh" else x * self.phi(x)

    def gelu_tanh(self, x: Any) -> Any:
        return 0.5 * x * (1 + self.xp.tanh(np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x * x * x)))

    def phi(self, x: Any) -> Any:
        """The normal distribution function."""
        assert self.erf is not None
        return 0.5 * (1 + self.erf(x * np.float32(0.5**0.5)))

    def reduced(self, case: Case, loss: Any) -> Any:
        if case["reduction"] == "none":
            return loss
        return (self.xp.mean if case["reduction"] == "mean" else self.xp.sum)(loss, dtype=np.float64).astype(np.float32)

    def residual(self, case: Case, t: T) -> Any:
        total = t["x"] + t["residual"]
        return {"y": self.norm(total, t["gamma"], t["beta"], case["eps"]), "sum": total}

    def cross_entropy(self, case: Case, t: T) -> Any:
        x = t["x"] - t["x"].max(-1, keepdims=True)
        if case.get("targets") == "probabilities":
            total = self.xp.log(self.xp.exp(x).sum(-1, keepdims=True))
            return self.reduced(case, (t["target"] * (total - x)).sum(-1))
        chosen = self.xp.take_along_axis(x, t["labels"][..., None], -1)[..., 0]
        return self.reduced(case, self.xp.log(self.xp.exp(x).sum(-1)) - chosen)

    def masked(self, case: Case, t: T, scores: Any) -> Any:
        rows, keys = scores.shape[-2:]
        if case["mask"] == "causal":
            return self.xp.where(self.xp.tri(rows, keys, dtype=bool), scores, np.float32(-np.inf))
        if case["mask"] == "padding":
            seen = self.xp.arange(keys)[None, :] < t["lengths"][:, None]
            return self.xp.where(seen[:, None, None, :], scores, np.float32(-np.inf))
        return scores

    def grouped(self, x: Any, heads: int) -> Any:
        if x.shape[1] == heads:
            return x
        batch, kv, *rest = x.shape
        # One copy; CuPy's `repeat` makes one per head.
        return self.xp.broadcast_to(x[:, :, None], (batch, kv, heads // kv, *rest)).reshape(batch, heads, *rest)

    def scores(self, case: Case, t: T, q: Any, k: Any) -> Any:
        keys = self.grouped(k, q.shape[1]).swapaxes(-2, -1)
        return self.masked(case, t, (q * np.float32(q.shape[-1] ** -0.5)) @ keys)

    def core(self, case: Case, t: T, q: Any, k: Any, v: Any) -> Any:
        return self.softmax(self.scores(case, t, q, k)) @ self.grouped(v, q.shape[1])

    def whole(self, case: Case, t: T, x: Any) -> Any:
        heads, kv = case["heads"], case["kv-heads"] or case["heads"]
        batch, rows, width = x.shape
        head = width // heads
        qkv = x @ t["w_qkv"].T + t["b_qkv"]
        parts = self.xp.split(qkv, [heads * head, (heads + kv) * head], axis=-1)
        q, k, v = (part.reshape(batch, rows, -1, head).swapaxes(1, 2) for part in parts)
        return self.core(case, t, q, k, v).swapaxes(1, 2).reshape(x.shape) @ t["w_out"].T + t["b_out"]

    def layer(self, case: Case, t: T) -> Any:
        x = t["x"] + self.whole(case, t, self.norm(t["x"], t["gamma_1"], t["beta_1"]))
        hidden = self.norm(x, t["gamma_2"], t["beta_2"]) @ t["w_up"].T + t["b_up"]
        return x + self.gelu_tanh(hidden) @ t["w_down"].T + t["b_down"]

    def product(self, case: Case, t: T) -> Any:
        return t["a"] @ (t["b"].T if case["transposed"] else t["b"])

    def norm_gradient(self, case: Case, t: T) -> Any:
        x, dy = t["x"], t["dy"]
        centred = x - x.mean(-1, keepdims=True)
        scale = 1 / self.xp.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(case["eps"]))
        unit = centred * scale
        inner = dy * t.get("gamma", np.float32(1))
        dx = scale * (inner - inner.mean(-1, keepdims=True) - unit * (inner * unit).mean(-1, keepdims=True))
        rows = tuple(range(x.ndim - 1))
        return {"dx": dx, "dgamma": (dy * unit).sum(rows), "dbeta": dy.sum(rows)}

    def gelu_gradient(self, case: Case, x: Any) -> Any:
        if case.get("form") != "tanh":
            return self.phi(x) + x * np.float32((2 * np.pi) ** -0.5) * self.xp.exp(-0.5 * x * x)
        root = np.float32((2 / np.pi) ** 0.5)
        t = self.xp.tanh(root * (x + np.float32(0.044715) * x * x * x))
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + np.float32(3 * 0.044715) * x * x)

    def swish_gradient(self, x: Any) -> Any:
        s = 1 / (1 + self.xp.exp(-x))
        return s * (1 + x * (1 - s))

    def upstream(self, case: Case, t: T, count: int) -> Any:
        return t.get("dloss", np.float32(1)) / np.float32(count if case["reduction"] == "mean" else 1)

    def cross_entropy_gradient(self, case: Case, t: T) -> Any:
        dx = self.softmax(t["x"])
        if case.get("targets") == "probabilities":
            dx = dx * t["target"].sum(-1, keepdims=True) - t["target"]
        else:
            rows = dx.reshape(-1, dx.shape[-1])
            rows[self.xp.arange(len(rows)), t["labels"].reshape(-1)] -= 1
        upstream = self.upstream(case, t, dx.size // dx.shape[-1])
        return dx * (upstream[..., None] if upstream.ndim else upstream)

    def functions(self) -> dict[str, Callable[[Case, T], Any]]:
        """The function of each workload."""
        return {
            "layer-norm": lambda case, t: self.norm(t["x"], t["gamma"], t["beta"], case["eps"]),
            "gelu": lambda case, t: self.gelu(case, t["x"]),
            "swish": lambda _, t: self.swish(t["x"]),
            "softmax": lambda _, t: self.softmax(t["x"]),
            "mse-loss": lambda case, t: self.reduced(case, (t["x"] - t["target"]) ** 2),
            "cross-entropy-loss": self.cross_entropy,
            "bias-gelu": lambda case, t: self.gelu(case, t["x"] + t["bias"]),
            "residual-layer-norm": self.residual,
            "swiglu": lambda _, t: self.swish(t["x"]) * t["up"],
            "matmul": self.product,
            "layer-norm-backward": self.norm_gradient,
            "gelu-backward": lambda case, t: t["dy"] * self.gelu_gradient(case, t["x"]),
            "swish-backward": lambda _, t: t["dy"] * self.swish_gradient(t["x"]),
            "mse-loss-backward": lambda case, t: 2 * (t["x"] - t["target"]) * self.upstream(case, t, t["x"].size),
            "cross-entropy-loss-backward": self.cross_entropy_gradient,
            "attention-qkv": lambda _, t: t["x"] @ t["w_qkv"].T + t["b_qkv"],
            "attention-scores": lambda case, t: self.scores(case, t, t["q"], t["k"]),
            "attention-softmax": lambda case, t: self.softmax(self.masked(case, t, t["scores"])),
            "attention-weighted-sum": lambda _, t: t["weights"] @ self.grouped(t["v"], t["weights"].shape[1]),
            "attention-output": lambda _, t: t["context"] @ t["w_out"].T + t["b_out"],
            "attention-core": lambda case, t: self.core(case, t, t["q"], t["k"], t["v"]),
            "attention": lambda case, t: self.whole(case, t, t["x"]),
            "transformer-layer": self.layer,
        }
