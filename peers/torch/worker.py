"""Times one PyTorch operation in this process and prints its samples as JSON: nanoseconds a call.

    worker.py OP BATCH SEQUENCE DIMENSION THREADS SECONDS
"""

import json
import sys
import time

import torch
from torch.nn import functional as F

op, (batch, sequence, dimension, threads), seconds = sys.argv[1], map(int, sys.argv[2:6]), float(sys.argv[6])
torch.set_num_threads(threads)
torch.manual_seed(1)
x = 3 * torch.randn(batch, sequence, dimension)
if op == "layer-norm":
    gamma, beta = torch.randn(dimension), torch.randn(dimension)
    call = lambda: F.layer_norm(x, (dimension,), gamma, beta)
elif op == "gelu":
    call = lambda: F.gelu(x)
elif op == "gelu-tanh":
    call = lambda: F.gelu(x, approximate="tanh")
elif op == "swish":
    call = lambda: F.silu(x)
elif op == "softmax":
    call = lambda: F.softmax(x, dim=-1)
elif op == "mse-loss":
    target = torch.randn_like(x)
    call = lambda: F.mse_loss(x, target)
elif op == "cross-entropy-loss":
    flat, labels = x.view(-1, dimension), torch.randint(dimension, (batch * sequence,))
    call = lambda: F.cross_entropy(flat, labels)
else:
    sys.exit(f"{op} is unknown")


def timed(calls):
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return time.perf_counter_ns() - begin


with torch.inference_mode():
    timed(3)
    # Samples of 20 ms, back to back: threads stay awake.
    calls = max(1, int(20e6 / max(1, timed(3) / 3)))
    timed(calls)
    samples, end = [], time.monotonic() + seconds
    while time.monotonic() < end or len(samples) < 3:
        samples.append(timed(calls) / calls)
print(json.dumps({"torch": torch.__version__, "samples": samples}))
