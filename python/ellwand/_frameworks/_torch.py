"""The layer operations, attention and matrix products in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from .._case import Case
from .._errors import Unsupported
from .._registry import CORES
from . import LATTICE

T = dict[str, Any]

#: Suffix of rows that compute on a GPU.
CUDA = "-cuda"


def prepare(name: str, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A call of ``workload`` without arguments; if ``name`` asks for it, compiled before timing."""
    torch.set_num_threads(CORES)
    device = "cuda" if name.endswith(CUDA) else "cpu"
    if device == "cuda":
        if not torch.cuda.is_available():
            raise Unsupported(f"this build of PyTorch ({torch.__version__}) sees no CUDA device")
        torch.cuda.reset_peak_memory_stats()
    where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    what = f"torch {torch.__version__}, {where}"
    if workload.endswith("-backward"):
        from ._torch_gradients import gradient

        return gradient(workload, case, {key: tensor(array, device) for key, array in inputs.items()}, what)
    if workload in LATTICE:
        from . import _lattice
        from ._torch_lattice import TorchArrays

        return _lattice.prepare(TorchArrays(), workload, case, inputs)
    if workload.startswith("kde-"):
        from . import _torch_kde

        made: Any = _torch_kde.prepare(workload, case, inputs, device)
        made.what_ran = what
        return made  # type: ignore[no-any-return]
    tensors = {key: tensor(array, device) for key, array in inputs.items()}
    kind = name.removesuffix(CUDA)
    form = {"torch-sdpa": fused, "torch-flash": flash}.get(kind, plain)
    if workload in LAYERS:
        function = functools.partial(LAYERS[workload], case)
    else:
        function = functools.partial(attention(workload), case, form)
    if kind != "torch-compile":
        call = Call(function, tensors, what)
        if name == "torch-flash-cuda":
            try:
                call()
            except RuntimeError as error:
                if "kernel" in str(error).lower():
                    why = "PyTorch's flash attention takes bf16 on a GPU, and no padding mask: --precision bf16"
                    raise Unsupported(why) from error
                raise
        return call
    compiled = torch.compile(function)
    try:
        compiled(tensors)
    except Exception as error:
        if "compil" in str(error).lower() or "InductorError" in type(error).__name__:
            raise Unsupported(f"torch.compile does not work here: {str(error).strip().splitlines()[0]}") from error
        raise
    return Call(compiled, tensors, what + ", compiled by inductor")


class Call:
    """A function on tensors; calling it computes once."""

    def __init__(self, function: Callable[[T], Any], tensors: T, what_ran: str) -> None:
        self.function, self.tensors = function, tensors
        self.what_ran = what_ran
        self.on_gpu = any(each.is_cuda for each in tensors.values())

    def __call__(self) -> Any:
        return self.function(self.tensors)

    def readings(self) -> list[dict[str, Any]]:
        """Memory on the device."""
        return [memory()] if self.on_gpu else []


def memory() -> dict[str, Any]:
    """The most memory that tensors held on the device."""
    about = "peak memory of PyTorch's tensors on the device, including inputs and outputs"
    row = {"id": "device-memory-peak", "title": "peak device memory", "unit": "B", "better": "lower", "about": about}
    return {**row, "value": torch.cuda.max_memory_allocated()}


def tensor(array: Any, device: str = "cpu") -> Any:
    """A copy as a tensor; uint16 arrays hold bf16 bits."""
    made = torch.from_numpy(np.array(array))
    return (made.view(torch.bfloat16) if array.dtype == np.uint16 else made).to(device)


def _form(case: Case) -> str:
    return "tanh" if case.get("form") == "tanh" else "none"


def _norm(case: Case, x: Any, t: T) -> Any:
    return F.layer_norm(x, x.shape[-1:], t["gamma"], t["beta"], case.get("eps", 1e-5))


def _residual(case: Case, t: T) -> Any:
    total = t["x"] + t["residual"]
    return {"y": _norm(case, total, t), "sum": total}


def _cross_entropy(case: Case, t: T) -> Any:
    x = t["x"]
    rows = x.reshape(-1, x.shape[-1])
    soft = case.get("targets") == "probabilities"
    target = t["target"].reshape(rows.shape) if soft else t["labels"].reshape(-1)
    loss = F.cross_entropy(rows, target, reduction=case["reduction"])
    return loss.reshape(x.shape[:-1]) if case["reduction"] == "none" else loss


LAYERS: dict[str, Callable[[Case, T], Any]] = {
    "layer-norm": lambda case, t: _norm(case, t["x"], t),
    "gelu": lambda case, t: F.gelu(t["x"], approximate=_form(case)),
    "swish": lambda _, t: F.silu(t["x"]),
    "softmax": lambda _, t: F.softmax(t["x"], dim=-1),
    "mse-loss": lambda case, t: F.mse_loss(t["x"], t["target"], reduction=case["reduction"]),
    "cross-entropy-loss": _cross_entropy,
    "bias-gelu": lambda case, t: F.gelu(t["x"] + t["bias"], approximate=_form(case)),
    "residual-layer-norm": _residual,
    "swiglu": lambda _, t: F.silu(t["x"]) * t["up"],
    "matmul": lambda case, t: t["a"] @ (t["b"].T if case["transposed"] else t["b"]),
}


def _mask(case: Case, t: T, rows: int, keys: int, like: Any) -> Any:
    """The term added to the scores; None without a mask."""
    if case["mask"] == "causal":
        return like.new_full((rows, keys), float("-inf")).triu(1)
    if case["mask"] == "padding":
        hidden = torch.arange(keys, device=like.device)[None, :] >= t["lengths"][:, None]
        return like.new_zeros(hidden.shape).masked_fill(hidden, float("-inf"))[:, None, None, :]
    return None


def _grouped(x: Any, heads: int) -> Any:
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def scores(case: Case, t: T, q: Any, k: Any) -> Any:
    made = (q * q.shape[-1] ** -0.5) @ _grouped(k, q.shape[1]).transpose(-2, -1)
    mask = _mask(case, t, q.shape[2], k.shape[2], q)
    return made if mask is None else made + mask


def plain(case: Case, t: T, q: Any, k: Any, v: Any) -> Any:
    return F.softmax(scores(case, t, q, k), dim=-1) @ _grouped(v, q.shape[1])


def fused(case: Case, t: T, q: Any, k: Any, v: Any) -> Any:
    k, v = _grouped(k, q.shape[1]), _grouped(v, q.shape[1])
    if case["mask"] == "padding":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=_mask(case, t, q.shape[2], k.shape[2], q))
    return F.scaled_dot_product_attention(q, k, v, is_causal=case["mask"] == "causal")


def flash(case: Case, t: T, q: Any, k: Any, v: Any) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return fused(case, t, q, k, v)


def _split(case: Case, qkv: Any) -> tuple[Any, Any, Any]:
    heads, kv = case["heads"], case["kv-heads"] or case["heads"]
    batch, rows, _ = qkv.shape
    head = case["dimension"] // heads
    parts = qkv.split([heads * head, kv * head, kv * head], dim=-1)
    q, k, v = (part.reshape(batch, rows, -1, head).transpose(1, 2) for part in parts)
    return q, k, v


def _whole(case: Case, form: Any, t: T, x: Any) -> Any:
    q, k, v = _split(case, F.linear(x, t["w_qkv"], t["b_qkv"]))
    context = form(case, t, q, k, v).transpose(1, 2).reshape(x.shape)
    return F.linear(context, t["w_out"], t["b_out"])


def _layer(case: Case, form: Any, t: T) -> Any:
    x, width = t["x"], t["x"].shape[-1:]
    x = x + _whole(case, form, t, F.layer_norm(x, width, t["gamma_1"], t["beta_1"]))
    hidden = F.linear(F.layer_norm(x, width, t["gamma_2"], t["beta_2"]), t["w_up"], t["b_up"])
    return x + F.linear(F.gelu(hidden, approximate="tanh"), t["w_down"], t["b_down"])


def attention(workload: str) -> Callable[[Case, Any, T], Any]:
    """The function for attention or one part of it."""
    table: dict[str, Callable[[Case, Any, T], Any]] = {
        "attention-qkv": lambda _c, _f, t: F.linear(t["x"], t["w_qkv"], t["b_qkv"]),
        "attention-scores": lambda c, _f, t: scores(c, t, t["q"], t["k"]),
        "attention-softmax": lambda c, _f, t: _soft(c, t),
        "attention-weighted-sum": lambda _c, _f, t: t["weights"] @ _grouped(t["v"], t["weights"].shape[1]),
        "attention-output": lambda _c, _f, t: F.linear(t["context"], t["w_out"], t["b_out"]),
        "attention-core": lambda c, form, t: form(c, t, t["q"], t["k"], t["v"]),
        "attention": lambda c, form, t: _whole(c, form, t, t["x"]),
        "transformer-layer": _layer,
    }
    return table[workload]


def _soft(case: Case, t: T) -> Any:
    x = t["scores"]
    mask = _mask(case, t, x.shape[-2], x.shape[-1], x)
    return F.softmax(x if mask is None else x + mask, dim=-1)
