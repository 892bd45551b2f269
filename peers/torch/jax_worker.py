"""Times one JAX operation under jit in this process and prints its samples as JSON: nanoseconds per call.

    jax_worker.py OP BATCH SEQUENCE DIMENSION THREADS SECONDS

The operations, shapes and the way of sampling are those of `worker.py`. Every call waits for its result. XLA takes its number of
threads from NPROC before JAX is imported.
"""

import json
import os
import sys

op, (batch, sequence, dimension, threads), seconds = sys.argv[1], map(int, sys.argv[2:6]), float(sys.argv[6])
os.environ["NPROC"] = str(threads)

import jax
import jax.numpy as jnp
import numpy as np
from sampling import sample

rng = np.random.default_rng(1)
normal = lambda *shape: jnp.asarray(rng.standard_normal(shape, np.float32))
x = 3 * normal(batch, sequence, dimension)


def norm(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gamma + beta


def cross_entropy(x, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(x, axis=-1), labels[:, None], axis=-1).mean()


def attention(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(-2, -1) / 8, axis=-1) @ v


if op == "layer-norm":
    function, arrays = norm, (x, normal(dimension), normal(dimension))
elif op in ("gelu", "gelu-tanh"):
    function, arrays = (lambda x: jax.nn.gelu(x, approximate=op == "gelu-tanh")), (x,)
elif op == "swish":
    function, arrays = jax.nn.silu, (x,)
elif op == "softmax":
    function, arrays = (lambda x: jax.nn.softmax(x, axis=-1)), (x,)
elif op == "mse-loss":
    function, arrays = (lambda x, target: ((x - target) ** 2).mean()), (x, normal(*x.shape))
elif op == "cross-entropy-loss":
    labels = jnp.asarray(rng.integers(0, dimension, batch * sequence, np.int32))
    function, arrays = cross_entropy, (x.reshape(-1, dimension), labels)
elif op in ("attention-qkv", "attention-output"):
    width = 3 * dimension if op == "attention-qkv" else dimension
    weight = normal(width, dimension) / dimension**0.5
    function, arrays = (lambda x, weight, bias: x @ weight.T + bias), (normal(*x.shape), weight, normal(width))
elif op.startswith("attention-"):
    q, k, v = (normal(batch, dimension // 64, sequence, 64) for _ in range(3))
    weights = jax.nn.softmax(q @ k.swapaxes(-2, -1) / 8, axis=-1)
    parts = {
        "attention-scores": (lambda q, k: q @ k.swapaxes(-2, -1), (q, k)),
        "attention-weighted-sum": (jnp.matmul, (weights, v)),
        "attention-core": (attention, (q, k, v)),
        "attention-naive": (attention, (q, k, v)),
    }
    if op not in parts:
        sys.exit(f"{op} is unknown")
    function, arrays = parts[op]
else:
    sys.exit(f"{op} is unknown")

jitted = jax.jit(function)

samples = sample(lambda: jitted(*arrays).block_until_ready(), seconds)
print(json.dumps({"jax": jax.__version__, "samples": samples}))
