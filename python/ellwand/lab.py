"""Profiling as a lab teaches it: time a function, profile the parts of attention, find the bottleneck, optimise, measure memory.

Works on PyTorch, JAX and NumPy arrays. Functions here are timed one after the other in the calling process: for verdicts use
``ellwand.compare``.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _arrays
from ._errors import EllwandError, WrongType, shown
from ._errors import hidden as __tracebackhide__
from ._memory import give_back
from ._options import integer

__all__ = [
    "AttentionProfile",
    "Bottleneck",
    "MemoryUsage",
    "benchmark_function",
    "identify_bottleneck",
    "measure_memory_usage",
    "optimize_attention",
    "profile_attention_components",
]

COMPONENTS = ("QKV Projection", "Score Computation", "Softmax", "Weighted Sum", "Output Projection")
#: What helps if this component takes longest.
ADVICE = {
    "Score Computation": "Use Flash Attention",
    "Softmax": "Use Flash Attention",
    "Weighted Sum": "Use Flash Attention",
    "QKV Projection": "Use a lower precision (the three projections are one product already)",
    "Output Projection": "Use a lower precision",
}
#: Ridge point in FLOP per byte, above which compute limits: an estimate between those of CPUs (about 10) and GPUs (about 50).
RIDGE = 20.0


def _arguments(args: Any) -> tuple[Any, ...]:
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


def _check_function(name: str, fn: Any) -> None:
    if not callable(fn):
        raise WrongType(f"{name}: {shown(fn)} is not a function; expected a function, then a tuple of its arguments")


def benchmark_function(fn: Callable[..., Any], args: Any = (), warmup: int = 10, iterations: int = 100) -> float:
    """Mean seconds of ``fn(*args)`` after ``warmup`` calls, waiting for each result."""
    _check_function("fn", fn)
    integer("warmup", warmup, 0, math.inf, "an integer of at least 0")
    integer("iterations", iterations, 1, math.inf, "an integer of at least 1")
    given = _arguments(args)
    # A call shows whether its result must be waited for: the last warm-up call, or the first timed one.
    start = time.perf_counter()
    result = fn(*given)
    for _ in range(warmup - 1):
        result = fn(*given)
    wait = _arrays.waiter(result)
    if wait is not None:
        wait(result)
    left = iterations if warmup else iterations - 1
    if warmup:
        start = time.perf_counter()
    if wait is None:
        for _ in range(left):
            fn(*given)
    else:
        for _ in range(left):
            wait(fn(*given))
    return (time.perf_counter() - start) / iterations


class AttentionProfile(dict[str, float]):
    """Milliseconds by component; prints as a table with the bottleneck and a recommendation."""

    #: FLOP per byte of each component.
    intensity: dict[str, float]
    #: Milliseconds that bound the middle half of the rounds.
    scatter: dict[str, tuple[float, float]]
    framework: str

    @property
    def total(self) -> float:
        """Total milliseconds of all components."""
        return math.fsum(self.values())

    def _share(self, ms: float) -> float:
        return ms / (self.total or 1.0)

    def __str__(self) -> str:
        rule = "-" * 40
        lines = ["Attention Component Profiling:", "=" * 40, f"{'Component':<20}{'Time (ms)':<13}% Total", rule]
        lines += [f"{name:<20}{ms:<13.3f}{self._share(ms):.1%}" for name, ms in self.items()]
        lines += [rule, f"{'Total':<20}{self.total:<13.3f}{1:.1%}", ""]
        found = identify_bottleneck(self)
        lines += [f"Bottleneck: {found} ({found.share:.1%}){found._tie()}", f"Recommendation: {found.recommendation}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ._results import table

        rows = [[name, f"{ms:.3f}", f"{self._share(ms):.1%}"] for name, ms in self.items()]
        found = identify_bottleneck(self)
        return table(["component", "ms", "share"], rows, f"Bottleneck: {found}{found._tie()}. {found.recommendation}")


class Bottleneck(str):
    """The name of the slowest component, and what is known about it."""

    time_ms: float
    share: float
    #: "memory", "compute" or "unknown"; estimated from the operations and bytes of the component.
    bound: str
    recommendation: str
    #: The next component if the scatter of the two times overlaps, so that either may be the slowest.
    within_scatter_of: str | None = None

    def _tie(self) -> str:
        return f", within the scatter of {self.within_scatter_of}" if self.within_scatter_of else ""


def _framework(name: str | None) -> str:
    if name is not None:
        if name not in ("torch", "jax", "numpy"):
            raise EllwandError(f"framework: {name!r} is unknown; expected 'torch', 'jax' or 'numpy'")
        if importlib.util.find_spec(name) is None:
            raise EllwandError(f"framework: {name} is not installed; `pip install {name}`, or another framework")
        return name
    # The one that the caller imported, else one that is installed.
    loaded = [each for each in ("torch", "jax") if each in sys.modules]
    installed = [each for each in ("torch", "jax") if importlib.util.find_spec(each) is not None]
    return (loaded or installed or ["numpy"])[0]


def profile_attention_components(
    seq_len: int,
    d_model: int,
    num_heads: int,
    *,
    batch: int = 1,
    framework: str | None = None,
    iterations: int = 20,
    show: bool = False,
) -> AttentionProfile:
    """Times each component of attention in milliseconds: the median over ``iterations`` rounds of all components."""
    sizes = {"seq_len": seq_len, "d_model": d_model, "num_heads": num_heads, "batch": batch, "iterations": iterations}
    for name, value in sizes.items():
        integer(name, value, 1, math.inf, "an integer of at least 1")
    if d_model % num_heads:
        raise EllwandError(f"num_heads: {num_heads} does not divide d_model, {d_model}; expected a divisor")
    import numpy as np

    name = _framework(framework)
    rng = np.random.default_rng(0)
    head = d_model // num_heads

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) / math.sqrt(shape[-1])).astype(np.float32)

    x, w_qkv, w_out = normal(batch, seq_len, d_model), normal(d_model, 3 * d_model), normal(d_model, d_model)
    q, k, v = (normal(batch, num_heads, seq_len, head) for _ in range(3))
    scores = normal(batch, num_heads, seq_len, seq_len)
    functions, place = _components(name)
    calls = {
        "QKV Projection": (functions["product"], (x, w_qkv)),
        "Score Computation": (functions["product"], (q, np.ascontiguousarray(k.swapaxes(-2, -1)))),
        "Softmax": (functions["softmax"], (scores,)),
        "Weighted Sum": (functions["product"], (scores, v)),
        "Output Projection": (functions["product"], (x, w_out)),
    }
    profile = AttentionProfile()
    profile.framework = name
    profile.scatter = {}
    profile.intensity = _intensity(batch * seq_len, d_model, num_heads, seq_len)
    placed = {each: (function, tuple(place(array) for array in arrays)) for each, (function, arrays) in calls.items()}
    # In turns, so that a brief disturbance does not choose the bottleneck.
    rounds = [
        {each: benchmark_function(function, arrays, warmup=1, iterations=1) for each, (function, arrays) in placed.items()}
        for _ in range(iterations)
    ]
    for each in placed:
        times = sorted(1e3 * round_[each] for round_ in rounds)
        profile[each] = statistics.median(times)
        profile.scatter[each] = times[len(times) // 4], times[-1 - len(times) // 4]
    if show:
        print(profile)
    return profile


def _intensity(positions: int, d: int, heads: int, seq: int) -> dict[str, float]:
    """Required FLOP per byte of each component, in float32."""

    def product(flops: float, *values: int) -> float:
        return flops / (4.0 * sum(values))

    square = positions * heads * seq
    return {
        "QKV Projection": product(6.0 * positions * d * d, positions * d, 3 * d * d, 3 * positions * d),
        "Score Computation": product(2.0 * positions * seq * d, 2 * positions * d, square),
        "Softmax": product(5.0 * square, 2 * square),
        "Weighted Sum": product(2.0 * positions * seq * d, 2 * positions * d, square),
        "Output Projection": product(2.0 * positions * d * d, 2 * positions * d, d * d),
    }


def _components(name: str) -> tuple[dict[str, Callable[..., Any]], Callable[[Any], Any]]:
    """A framework's product and softmax, and how an array gets there."""
    if name == "torch":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        soft = functools.partial(torch.nn.functional.softmax, dim=-1)
        return {"product": torch.matmul, "softmax": soft}, lambda array: torch.from_numpy(array).to(device)
    if name == "jax":
        import jax

        return {"product": jax.jit(jax.numpy.matmul), "softmax": jax.jit(jax.nn.softmax)}, jax.numpy.asarray
    import numpy as np

    from . import nn

    return {"product": np.matmul, "softmax": nn.softmax}, lambda array: array


def _time(name: str, value: Any) -> float:
    # Also NumPy scalars, and tensors of one value.
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError, RuntimeError):
        pass
    raise EllwandError(f"profile_results: the time of {name!r} is {value!r}; expected a number")


def identify_bottleneck(profile_results: Mapping[str, float]) -> Bottleneck:
    """The slowest component: a string with ``share``, ``bound``, ``recommendation`` and ``within_scatter_of``."""
    if not isinstance(profile_results, Mapping):
        kind = type(profile_results).__name__
        raise EllwandError(f"profile_results: it is a {kind}; expected a dictionary of times by component")
    # "Total", "total (ms)": the sum is not a component.
    parts = {str(name): value for name, value in profile_results.items() if not re.fullmatch(r"total\b[^a-z]*(\(.*\))?", str(name), re.I)}
    times = {name: _time(name, value) for name, value in parts.items()}
    if not times or not all(math.isfinite(value) and value >= 0.0 for value in times.values()):
        problem = "not all of its times are finite and at least 0" if times else "it holds no times"
        raise EllwandError(f"profile_results: {problem}; expected a dictionary of times by component")
    name, *others = sorted(times, key=lambda each: -times[each])
    found = Bottleneck(name)
    scatter = getattr(profile_results, "scatter", {})
    if others and {name, others[0]} <= scatter.keys() and scatter[name][0] <= scatter[others[0]][1]:
        found.within_scatter_of = others[0]
    found.time_ms = times[name]
    found.share = times[name] / (math.fsum(times.values()) or 1.0)
    intensity = getattr(profile_results, "intensity", {}).get(name)
    found.bound = "unknown" if intensity is None else "compute" if intensity >= RIDGE else "memory"
    general = "Read less: fuse it with its neighbours" if found.bound == "memory" else "Measure it alone with ellwand.bench"
    found.recommendation = ADVICE.get(name, general)
    return found


LEVELS = ("baseline", "torch.compile", "scaled_dot_product_attention", "flash attention")


def optimize_attention(Q: Any, K: Any, V: Any, optimization_level: int = 0) -> Any:
    """Attention of tensors [batch, heads, sequence, head]: 0 step by step, 1 compiled, 2 fused, 3 with only the flash backend."""
    if optimization_level not in range(len(LEVELS)):
        named = ", ".join(f"{level} ({name})" for level, name in enumerate(LEVELS))
        raise EllwandError(f"optimization_level: {optimization_level!r} is unknown; expected {named}")
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(Q, torch.Tensor):
        if optimization_level == 0:
            return _plain_attention(Q, K, V)
        given = f"{type(Q).__module__.split('.')[0]}.{type(Q).__name__}"
        raise EllwandError(f"optimization_level: levels above 0 need PyTorch tensors; Q is a {given}: pass torch.from_numpy(..)")
    return _torch_attention(optimization_level)(Q, K, V)


def _plain_attention(q: Any, k: Any, v: Any) -> Any:
    import numpy as np

    # The caller's own exp, so that a JAX array stays one.
    space = q.__array_namespace__() if hasattr(q, "__array_namespace__") else np
    scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])
    e = space.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


@functools.cache
def _torch_attention(level: int) -> Callable[[Any, Any, Any], Any]:
    import torch
    from torch.nn import functional as F

    def plain(q: Any, k: Any, v: Any) -> Any:
        return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v

    def flash(q: Any, k: Any, v: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v)

    functions: Sequence[Callable[[Any, Any, Any], Any]] = (
        plain,
        torch.compile(plain) if level == 1 else plain,
        F.scaled_dot_product_attention,
        flash,
    )
    return functions[level]


class MemoryUsage(float):
    """Peak megabytes above the memory in use before, with the source of the figure."""

    source: str
    before_mb: float


def measure_memory_usage(fn: Callable[..., Any], args: Any = (), *, warmup: int = 1) -> MemoryUsage:
    """Peak memory of ``fn(*args)`` in megabytes: of the GPU if PyTorch or JAX computes there, otherwise of the process.

    ``warmup`` calls come first, so that compilation and the start of libraries do not count; with ``warmup=0`` the function is called
    only once, and ``source`` says so.
    """
    _check_function("fn", fn)
    integer("warmup", warmup, 0, math.inf, "an integer of at least 0")
    given = _arguments(args)
    torch = sys.modules.get("torch")
    on_gpu = torch is not None and any(getattr(each, "is_cuda", False) for each in given)
    # An array of JAX names its devices.
    devices = {device for each in given if hasattr(each, "block_until_ready") for device in each.devices()}
    # JAX cannot reset the peak of its allocator, which counts no compilation: a call before would hide that of the measured one.
    if not _has_peak(devices):
        for _ in range(warmup):
            result = fn(*given)
            wait = _arrays.waiter(result)
            if wait is not None:
                wait(result)
            del result, wait
    usage = _peak_of(fn, given, devices, torch if on_gpu else None)
    if warmup == 0:
        usage.source += ", without a warm-up call"
    return usage


def _peak_of(fn: Callable[..., Any], given: tuple[Any, ...], devices: set[Any], torch: Any) -> MemoryUsage:
    """The peak memory of one call; on the GPU if ``torch`` is given."""
    if torch is not None:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = float(torch.cuda.memory_allocated())
        fn(*given)
        torch.cuda.synchronize()
        return _usage(before, float(torch.cuda.max_memory_allocated()), "the CUDA allocator of PyTorch")

    def run(seen: Callable[[], None] = lambda: None) -> None:
        result = fn(*given)
        # First, because the search for pending work lists the result, which takes memory.
        seen()
        wait = _arrays.waiter(result)
        if wait is not None:
            wait(result)
            seen()

    if _has_peak(devices):
        return _of_jax(sorted(devices, key=str), run)
    give_back()
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
            refs.write("5")
        before = _resident("VmRSS:")
    except OSError as error:
        raise EllwandError(f"peak memory is unavailable: this system has no /proc/self/clear_refs ({error})") from error
    peaks: list[float] = []

    def seen() -> None:
        nonlocal before
        peaks.append(_resident("VmHWM:"))
        # Memory that left the process meanwhile (mapped files reclaimed by the kernel, other threads' memory) was not in the peak.
        before = min(before, _resident("VmRSS:"))

    run(seen)
    return _usage(before, peaks[-1], "the resident set of the process")


def _has_peak(devices: set[Any]) -> bool:
    """Whether all of these devices of JAX, at least one, keep statistics: GPUs do and CPUs do not."""
    return bool(devices) and all("peak_bytes_in_use" in (device.memory_stats() or {}) for device in devices)


def _of_jax(devices: Sequence[Any], run: Callable[[], Any]) -> MemoryUsage:
    """Peak of the arrays on JAX devices."""

    def total(key: str) -> float:
        return math.fsum((device.memory_stats() or {}).get(key, 0) for device in devices)

    before, earlier = total("bytes_in_use"), total("peak_bytes_in_use")
    run()
    peak = total("peak_bytes_in_use")
    # JAX cannot reset its peak.
    hidden = "" if peak > earlier else "; an upper bound, because the peak was higher before"
    return _usage(before, peak, f"the allocator of JAX{hidden}")


def _usage(before: float, peak: float, source: str) -> MemoryUsage:
    usage = MemoryUsage(max(0.0, peak - before) / 1e6)
    usage.source, usage.before_mb = source, before / 1e6
    return usage


def _resident(key: str) -> float:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        line = next(line for line in status if line.startswith(key))
    return float(line.split()[1]) * 1024
