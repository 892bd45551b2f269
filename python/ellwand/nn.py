"""Layer operations and attention on float32 arrays: NumPy arrays, PyTorch tensors on the CPU, and anything that supports DLPack.

Contiguous inputs are borrowed, not copied. All cores work, with the interpreter's lock released. Results are tensors if
``x`` is one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from . import _arrays, _native
from ._errors import EllwandError
from ._errors import hidden as __tracebackhide__
from ._options import number

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = [
    "attention",
    "bias_gelu",
    "cross_entropy_loss",
    "gelu",
    "layer_norm",
    "mse_loss",
    "residual_layer_norm",
    "softmax",
    "swiglu",
    "swish",
]

#: Bytes of a cache line: outputs aligned to one can be stored with non-temporal stores.
_LINE = 64


def floats(name: str, value: Any) -> Array:
    """``value`` as a contiguous float32 array."""
    import numpy as np

    array = _arrays.borrow(name, value)
    if array.dtype != np.float32:
        how = f"{name}.astype('float32')" if hasattr(value, "astype") else f"np.asarray({name}, 'float32')"
        how = f"{name}.float()" if hasattr(value, "is_floating_point") else how
        # The type of the tensor: NumPy has the bits of bf16 as uint16.
        given = str(getattr(value, "dtype", array.dtype)).removeprefix("torch.")
        raise EllwandError(f"{name}: its element type is {given}; expected float32: pass {how}")
    return np.asarray(array, order="C")


def _aligned(shape: tuple[int, ...]) -> Array:
    """An uninitialised array for a result."""
    import numpy as np

    count = int(np.prod(shape))
    raw = np.empty(count + _LINE // 4, np.float32)
    skip = -raw.ctypes.data % _LINE // 4
    return raw[skip : skip + count].reshape(shape)


def _rows(given: Any) -> Array:
    x = floats("x", given)
    if x.ndim == 0:
        raise EllwandError("x: it is a scalar; expected at least one axis")
    return x


def _layer(name: str, given: Any, x: Array, **more: Any) -> Any:
    y = _aligned(x.shape)
    if x.size:
        _native.layer(name, x, y, **more)
    return _arrays.like(given, y)


def _vector(name: str, value: Any, x: Array, absent: float) -> Array:
    import numpy as np

    width = x.shape[-1]
    if value is None:
        return np.full(width, absent, np.float32)
    vector = floats(name, value)
    if vector.shape != (width,):
        raise EllwandError(f"{name}: its shape is {vector.shape}; expected ({width},), one value per column of x")
    return vector


def _same(name: str, value: Any, x: Array) -> Array:
    array = floats(name, value)
    if array.shape != tuple(x.shape):
        raise EllwandError(f"{name}: its shape is {array.shape}; expected the shape of x, {tuple(x.shape)}")
    return array


def _check_eps(eps: Any) -> None:
    number("eps", eps, 0.0, math.inf, "a number of at least 0, such as 1e-5")


def layer_norm(x: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5) -> Any:
    """Layer normalisation over the last axis."""
    _check_eps(eps)
    rows = _rows(x)
    vectors = [_vector("gamma", gamma, rows, 1.0), _vector("beta", beta, rows, 0.0)]
    return _layer("layer-norm", x, rows, vectors=vectors, eps=eps)


def residual_layer_norm(x: Any, residual: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5) -> tuple[Any, Any]:
    """The layer normalisation of x + residual, and that sum, in one pass."""
    _check_eps(eps)
    values = _rows(x)
    y, total = _aligned(values.shape), _aligned(values.shape)
    if values.size:
        _native.layer(
            "residual-layer-norm",
            values,
            y,
            second=_same("residual", residual, values),
            vectors=[_vector("gamma", gamma, values, 1.0), _vector("beta", beta, values, 0.0)],
            sum=total,
            eps=eps,
        )
    return _arrays.like(x, y), _arrays.like(x, total)


def gelu(x: Any, *, approximate: Literal["none", "tanh"] = "none") -> Any:
    """GELU, x Phi(x); ``approximate="tanh"`` computes the tanh approximation."""
    return _layer("gelu", x, _rows(x), tanh=_tanh(approximate))


def _tanh(approximate: str) -> bool:
    if approximate not in ("none", "tanh"):
        raise EllwandError(f"approximate: {approximate!r} is unknown; expected 'none' or 'tanh'")
    return approximate == "tanh"


def bias_gelu(x: Any, bias: Any, *, approximate: Literal["none", "tanh"] = "none") -> Any:
    """GELU of x + bias, in one pass."""
    rows = _rows(x)
    return _layer("bias-gelu", x, rows, vectors=[_vector("bias", bias, rows, 0.0)], tanh=_tanh(approximate))


def swish(x: Any) -> Any:
    """Swish (SiLU), x / (1 + exp(-x))."""
    return _layer("swish", x, _rows(x))


def swiglu(x: Any, up: Any) -> Any:
    """Swish(x) * up, in one pass."""
    rows = _rows(x)
    return _layer("swiglu", x, rows, second=_same("up", up, rows))


def softmax(x: Any) -> Any:
    """Softmax over the last axis."""
    return _layer("softmax", x, _rows(x))


def mse_loss(x: Any, target: Any) -> float:
    """Mean squared error."""
    values = floats("x", x)
    return _native.loss("mse-loss", values, second=_same("target", target, values))


def cross_entropy_loss(x: Any, labels: Any) -> float:
    """Mean cross-entropy of logits [.., classes] and integer labels [..], or probabilities of the classes [.., classes]."""
    import numpy as np

    values = floats("x", x)
    classes = _arrays.borrow("labels", labels)
    if classes.dtype.kind == "f" and classes.shape == values.shape:
        return _native.loss("cross-entropy-loss", values, second=_same("labels", labels, values))
    if classes.dtype.kind not in "iu" or classes.shape != values.shape[:-1]:
        raise EllwandError(
            f"labels: {classes.dtype} of shape {classes.shape}; expected integers of shape {values.shape[:-1]}, one per row of x,"
            " or float32 probabilities in the shape of x"
        )
    return _native.loss("cross-entropy-loss", values, labels=np.asarray(classes, dtype=np.int64, order="C"))


def attention(q: Any, k: Any, v: Any, *, causal: bool = False) -> Any:
    """softmax(Q K^T / sqrt(head)) V for q [batch, heads, sequence, head] and k, v [batch, kv_heads, keys, head].

    With ``causal`` a query sees the keys up to its own position. Positions count from the first key, as in PyTorch.
    """
    queries, keys, values = floats("q", q), floats("k", k), floats("v", v)
    if queries.ndim != 4:
        raise EllwandError(f"q: its shape is {queries.shape}; expected [batch, heads, sequence, head]")
    batch, _, _, head = queries.shape
    for name, array in (("k", keys), ("v", values)):
        if array.ndim != 4 or array.shape != (batch, *keys.shape[1:3], head):
            raise EllwandError(f"{name}: its shape is {array.shape}; expected [{batch}, kv_heads, keys, {head}]")
    out = _aligned(queries.shape)
    _native.attention(queries, keys, values, out, causal)
    return _arrays.like(q, out)
