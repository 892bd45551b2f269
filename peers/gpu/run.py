"""Times PyTorch, torch.compile, CuPy and JAX on the same work on this machine's GPU.

    python3 run.py OUT.jsonl [--only TEXT] [--seconds S] [--small]

Every call is checked against f64 before it is timed. Each result or reason is written to OUT at once, as one line of JSON, so it
survives if the script is interrupted. A sample is a series of calls between two device events, enqueued after a kernel that
keeps the device busy, so samples exclude launch time unless it exceeds the work. JAX has no events; its samples are wall
time around a series, and are marked as wall time. Transfers have both times, wall time as `wall_ns`, since pageable memory keeps
the host busy. Arrays of the elementwise operations are larger than the caches.

The measurements that others are compared with come first. Then comes one operation from each library that compiles for seconds
before its first result, and the rest last: if time runs out, their lines record that.

`--small` uses small arrays, and the CPU if there is no GPU: it tests this script, and its times are meaningless.
"""

import argparse
import functools
import importlib.metadata
import json
import math
import os
import sys
import time

# The imports below take seconds, which count for the libraries that need them.
BEGAN = time.monotonic()

# Exit code of `ellwand` if nothing was measured.
NOTHING = 6

# JAX reserves most of the memory by default, and a pool of compilers uses the CPU next to the measurement.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

try:
    import torch
    from torch.nn import functional as F
except ImportError as why:
    print(f"PyTorch is unavailable: {why}")
    sys.exit(NOTHING)

# Batch, sequence, dimension: an array of 134 MB. `run.sh` gives the same to `ellwand run`.
LAYER = (64, 512, 1024)
# Pairs of positions and heads; heads have 128 values.
CORES = [(4096, 16), (8192, 8), (16384, 4)]
MATRIX = 8192
# Bytes from host to device and back: the largest transfer in `run.sh`.
CARRIED = 268_435_456
SAMPLES = 30
# Measured first for each library that compiles.
FIRST = ["gelu", "layer-norm"]


class Peers:
    def __init__(self, asked):
        self.asked, self.out = asked, open(asked.out, "a", encoding="utf-8")
        self.cuda = torch.cuda.is_available()
        if not self.cuda and not asked.small:
            print(f"PyTorch {torch.__version__} sees no GPU")
            sys.exit(NOTHING)
        self.device = torch.device("cuda" if self.cuda else "cpu")
        self.end = BEGAN + asked.seconds

    @functools.cached_property
    def layers(self):
        return Layers(self)

    def say(self, **line):
        print(json.dumps(line), file=self.out, flush=True)
        print(" ".join(f"{key}={value}" for key, value in line.items() if key not in ("ns", "wall_ns")), flush=True)

    def timed(self, call, calls, gate=True):
        """Nanoseconds per call on the device's clock; starts after a kernel that keeps it busy, unless the host takes part."""
        if not self.cuda:
            begin = time.perf_counter_ns()
            for _ in range(calls):
                call()
            return (time.perf_counter_ns() - begin) / calls
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        if gate:
            torch.cuda._sleep(2_000_000)
        first.record()
        for _ in range(calls):
            call()
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) * 1e6 / calls

    def waited(self, call, calls, wait):
        """Nanoseconds per call of wall time."""
        self.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            got = call()
        wait(got)
        return (time.perf_counter_ns() - begin) / calls

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def measure(self, library, op, make, *, judge, tolerance, wait=None, both=False, gate=True, **about):
        """`make` returns a call; `judge` the largest error of its result, relative to the largest correct value. `both` also
        measures wall time."""
        if self.asked.only and self.asked.only not in f"{library} {op}":
            return
        if time.monotonic() > self.end:
            return self.say(library=library, op=op, outcome="no time was left", **about)
        try:
            call = make()
            wrong = judge(call())
            if not wrong <= tolerance:
                return self.say(library=library, op=op, outcome=f"wrong: {wrong:.2e} where {tolerance:.0e} is allowed", **about)
            clock = (lambda call, calls: self.timed(call, calls, gate)) if wait is None else (lambda call, calls: self.waited(call, calls, wait))
            clock(call, 3)
            once = clock(call, 3)
            calls = max(1, min(100, math.ceil(1e6 / once)))
            # Slow operations have fewer samples, but enough for an interval.
            samples = 3 if self.asked.small else max(12, min(SAMPLES, int(5e8 / (calls * once))))
            ns = [clock(call, calls) for _ in range(samples)]
            if both:
                wall = [round(self.waited(call, calls, lambda _: self.synchronize())) for _ in range(samples)]
                about = about | dict(wall_median_ns=sorted(wall)[samples // 2], wall_ns=wall)
        except Exception as error:  # noqa: BLE001 - a peer that breaks is a line, and the others go on
            return self.say(library=library, op=op, outcome=f"failed: {type(error).__name__}: {str(error)[:300]}", **about)
        ns = [round(each) for each in ns]
        middle = sorted(ns)[len(ns) // 2]
        rates = {unit: round(about[name] / middle, 1) for name, unit in [("bytes", "GB/s"), ("flops", "GFLOP/s")] if name in about}
        self.say(library=library, op=op, outcome="measured", error=wrong, calls=calls, median_ns=middle, clock="device" if wait is None and self.cuda else "wall",
                 **rates, **about, ns=ns)


def several(got):
    """The results as a sequence."""
    return got if isinstance(got, (tuple, list)) else (got,)


def apart(expected):
    """The largest error relative to the largest correct value."""
    scale = expected.abs().max().clamp_min(1e-30)

    def judge(got):
        got = torch.as_tensor(got, device=expected.device)
        if got.shape != expected.shape or not torch.isfinite(got).all():
            return math.inf
        return float((got.double() - expected).abs().max() / scale)

    return judge


class Layers:
    """The arrays and the memory-bound operations, with their f64 results."""

    def __init__(self, peers):
        batch, sequence, d = (2, 8, 64) if peers.asked.small else LAYER
        torch.manual_seed(1)
        x = 3 * torch.randn(batch * sequence, d, device=peers.device)
        y = torch.randn_like(x)
        gamma, beta = torch.randn(d, device=peers.device), torch.randn(d, device=peers.device)
        labels = torch.randint(d, (batch * sequence,), device=peers.device)
        n = x.numel()

        def residual(x, y, g, b):
            """Returns both: the next layer needs the sum."""
            total = x + y
            return F.layer_norm(total, (d,), g, b), total

        # Bytes that must move, and each operation on its arrays.
        self.ops = {
            "copy": (8 * n, (x,), torch.clone),
            "layer-norm": (8 * n + 8 * d, (x, gamma, beta), lambda x, g, b: F.layer_norm(x, (d,), g, b)),
            "gelu": (8 * n, (x,), F.gelu),
            "bias-gelu": (8 * n + 4 * d, (x, beta), lambda x, b: F.gelu(x + b)),
            "swish": (8 * n, (x,), F.silu),
            "swiglu": (12 * n, (x, y), lambda x, y: F.silu(x) * y),
            "softmax": (8 * n, (x,), lambda x: F.softmax(x, dim=-1)),
            "residual-layer-norm": (16 * n + 8 * d, (x, y, gamma, beta), residual),
            "mse-loss": (8 * n + 4, (x, y), F.mse_loss),
            "cross-entropy-loss": (4 * n + 8 * len(labels) + 4, (x,), lambda x: F.cross_entropy(x, labels)),
        }
        self.shape = [batch, sequence, d]
        self.right = {}

    def judge(self, name, got):
        if name not in self.right:
            _, arrays, op = self.ops[name]
            right = op(*(array.double() for array in arrays))
            self.right[name] = [apart(each) for each in several(right)]
        return max(judge(each) for judge, each in zip(self.right[name], got, strict=True))

    def measure(self, peers, library, name, make, take=lambda got: got, **about):
        peers.measure(library, name, make, judge=lambda got: self.judge(name, [take(each) for each in several(got)]), tolerance=1e-5, bytes=self.ops[name][0],
                      shape=self.shape, **about)


def copies(peers):
    eager(peers, ["copy"])


def eager(peers, names=None):
    layers = peers.layers
    for name in names or [name for name in layers.ops if name != "copy"]:
        _, arrays, op = layers.ops[name]
        layers.measure(peers, "torch", name, lambda: lambda: op(*arrays))


def compiled(peers, chosen):
    layers = peers.layers
    for name in filter(chosen, layers.ops):
        _, arrays, op = layers.ops[name]
        layers.measure(peers, "torch.compile", name, lambda: (lambda made: lambda: made(*arrays))(torch.compile(op, dynamic=False)))


def cupy_layers(peers, chosen):
    """The elementwise operations as fused kernels on the stream of PyTorch's events, the default stream."""
    layers = peers.layers

    def make(name):
        import cupy
        from cupyx.scipy.special import erf

        gelu = lambda x: 0.5 * x * (1.0 + erf(x * 0.7071067811865476))
        bodies = {
            "gelu": gelu,
            "bias-gelu": lambda x, b: gelu(x + b),
            "swish": lambda x: x / (1.0 + cupy.exp(-x)),
            "swiglu": lambda x, y: x / (1.0 + cupy.exp(-x)) * y,
        }
        arrays = [cupy.from_dlpack(array) for array in layers.ops[name][1]]
        if name == "copy":
            return lambda: arrays[0].copy()
        # A kernel needs a name that is valid in C++, which a lambda's is not.
        fused = cupy.fuse(kernel_name=name.replace("-", "_"))(bodies[name])
        return lambda: fused(*arrays)

    for name in filter(chosen, ["gelu", "bias-gelu", "swish", "swiglu", "copy"]):
        layers.measure(peers, "cupy", name, lambda: make(name), take=torch.from_dlpack)


def jax_layers(peers, chosen):
    """The same formulas under `jax.jit`; calls do not wait for each other."""
    layers = peers.layers

    def make(name):
        import jax
        import jax.numpy as jnp

        def norm(x, g, b):
            mean = x.mean(-1, keepdims=True)
            return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b

        bodies = {
            "layer-norm": norm,
            "residual-layer-norm": lambda x, y, g, b: (norm(x + y, g, b), x + y),
            "gelu": lambda x: jax.nn.gelu(x, approximate=False),
            "bias-gelu": lambda x, b: jax.nn.gelu(x + b, approximate=False),
            "swish": jax.nn.silu,
            "swiglu": lambda x, y: jax.nn.silu(x) * y,
            "softmax": jax.nn.softmax,
            "mse-loss": lambda x, y: jnp.mean((x - y) ** 2),
        }
        arrays = [jax.dlpack.from_dlpack(array) for array in layers.ops[name][1]]
        made = jax.jit(bodies[name])
        return lambda: made(*arrays)

    def wait(got):
        for each in several(got):
            each.block_until_ready()

    for name in filter(chosen, ["gelu", "layer-norm", "residual-layer-norm", "bias-gelu", "swish", "swiglu", "softmax", "mse-loss"]):
        layers.measure(peers, "jax", name, lambda: make(name), take=torch.from_dlpack, wait=wait)


def transfers(peers):
    """Host to device and back: page-locked memory at the speed of the link, pageable memory staged by the driver."""
    count = 4096 if peers.asked.small else CARRIED
    for memory in ["pinned", "pageable"]:
        for direction in ["host-to-device", "device-to-host"]:

            def make(memory=memory, direction=direction):
                device = torch.randint(256, (count,), dtype=torch.uint8, device=peers.device)
                host = torch.empty(count, dtype=torch.uint8, pin_memory=memory == "pinned" and peers.cuda)
                host.copy_(device)
                # Compares what arrived with what was sent, after the destination was cleared.
                sent, got = (host, device) if direction == "host-to-device" else (device, host)
                expected = sent.clone()
                got.zero_()

                def call():
                    got.copy_(sent, non_blocking=True)
                    return got, expected

                return call

            def judge(answer):
                got, expected = answer
                peers.synchronize()
                return 0.0 if torch.equal(got.to(peers.device), expected.to(peers.device)) else math.inf

            peers.measure("torch", "transfer", make, judge=judge, tolerance=0.0, both=True, gate=memory == "pinned",
                          bytes=count, memory=memory, direction=direction)


def products(peers):
    """Peak rate of the tensor cores, for comparison with bf16 attention."""
    n = 64 if peers.asked.small else MATRIX
    a, b = (torch.randn(n, n, device=peers.device, dtype=torch.bfloat16) for _ in range(2))
    rows = slice(0, min(n, 256))
    expected = a[rows].double() @ b.double()
    peers.measure("torch", "matmul-bf16", lambda: lambda: a @ b, judge=lambda got: apart(expected)(got[rows]), tolerance=1e-2,
                  flops=2 * n**3, shape=[n, n, n])


def attention(peers):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for positions, heads in [(64, 2)] if peers.asked.small else CORES:
        q, k, v = (torch.randn(1, heads, positions, 128, device=peers.device, dtype=torch.bfloat16) for _ in range(3))
        for causal in [False, True]:
            # The last rows of a head see every key; under a causal mask, all except their successors.
            last = min(positions, 128)
            scores = q[0, 0, -last:].double() @ k[0, 0].double().T / math.sqrt(128)
            if causal:
                scores += torch.full_like(scores, -math.inf).triu(positions - last + 1)
            expected = scores.softmax(-1) @ v[0, 0].double()
            pairs = positions * (positions + 1) // 2 if causal else positions**2
            for backend in ["FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH"]:
                if backend == "MATH" and not peers.asked.small:
                    continue

                def call(backend=backend):
                    with sdpa_kernel(getattr(SDPBackend, backend)):
                        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

                peers.measure(f"torch sdpa {backend.lower()}", "attention-core-bf16", lambda: call,
                              judge=lambda got: apart(expected)(got[0, 0, -last:]), tolerance=2e-2, flops=4 * pairs * 128 * heads,
                              shape=[1, positions, 128 * heads, heads], mask="causal" if causal else "none")


def versions():
    """Versions of the other packages, without loading them."""
    for name in ["triton", "cupy-cuda13x", "jax"]:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=110.0)
    parser.add_argument("--small", action="store_true")
    peers = Peers(parser.parse_args())
    card = torch.cuda.get_device_name() if peers.cuda else "the processor"
    peers.say(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), device=card, **dict(versions()))
    with torch.inference_mode():
        compiling = [compiled, cupy_layers, jax_layers]
        parts = [(part, ()) for part in [copies, products, attention, eager, transfers]]
        parts += [(part, (FIRST.__contains__,)) for part in compiling]
        parts += [(part, (lambda name: name not in FIRST,)) for part in compiling]
        for part, which in parts:
            try:
                part(peers, *which)
            except Exception as error:  # noqa: BLE001
                peers.say(part=part.__name__, outcome=f"failed: {type(error).__name__}: {str(error)[:300]}")


if __name__ == "__main__":
    main()
