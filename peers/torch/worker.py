"""Times one PyTorch operation in this process and prints its samples as JSON: nanoseconds per call.

    worker.py OP BATCH SEQUENCE DIMENSION THREADS SECONDS

Attention has heads of 64 values, laid out [batch, heads, sequence, 64], and does not scale its scores in a separate pass,
which saves PyTorch a pass that ellwand's times include.
"""

import json
import sys

import torch
from sampling import sample
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
elif op in ("attention-qkv", "attention-output"):
    x = torch.randn(batch, sequence, dimension)
    width = 3 * dimension if op == "attention-qkv" else dimension
    weight, bias = torch.randn(width, dimension) / dimension**0.5, torch.randn(width)
    call = lambda: F.linear(x, weight, bias)
elif op.startswith("attention-"):
    heads = dimension // 64
    q, k, v = (torch.randn(batch, heads, sequence, 64) for _ in range(3))
    if op == "attention-scores":
        call = lambda: q @ k.transpose(-2, -1)
    elif op == "attention-weighted-sum":
        weights = torch.softmax(q @ k.transpose(-2, -1) / 8, dim=-1)
        call = lambda: weights @ v
    elif op == "attention-softmax":
        scores = q @ k.transpose(-2, -1) / 8
        call = lambda: F.softmax(scores, dim=-1)
    elif op == "attention-core":
        call = lambda: F.scaled_dot_product_attention(q, k, v)
    elif op == "attention-naive":
        call = lambda: F.softmax(q @ k.transpose(-2, -1) / 8, dim=-1) @ v
    else:
        sys.exit(f"{op} is unknown")
else:
    sys.exit(f"{op} is unknown")

with torch.inference_mode():
    samples = sample(call, seconds)
print(json.dumps({"torch": torch.__version__, "samples": samples}))
