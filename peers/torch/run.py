"""The layer operations and the parts of attention against PyTorch, in fresh, interleaved processes, as ratios.

    python3.11 setup.py && cargo build --release && python3.11 run.py [ROUNDS [OP ..]] [--sequence N]

Without OP it measures the layer operations; `attention` selects the parts of attention, and --sequence selects shapes of that
sequence length. attention-core is PyTorch's fused form (scaled_dot_product_attention) against Ellwand's, attention-naive is
PyTorch's three separate steps against Ellwand's fused form.

Each round runs, for each operation and shape: PyTorch as shipped (A), ellwand, PyTorch with an allocator tuned so that it never
faults (B), ellwand again. The statistic of a process is the lower quartile of its samples; the ratio of a round is PyTorch's
over the mean of ellwand's two; the table has the median of the rounds and their range.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = ROOT / "target" / "peers" / "torch" / "bin" / "python"
ELLWAND = ROOT / "target" / "release" / "ellwand"
OPS = ["layer-norm", "gelu", "gelu-tanh", "swish", "mse-loss", "cross-entropy-loss", "softmax"]
SHAPES = [(16, 256, 256), (32, 512, 768)]
ATTENTION = ["attention-qkv", "attention-scores", "attention-weighted-sum", "attention-output", "attention-core", "attention-naive"]
ATTENTION_SHAPES = [(1, 256, 512), (1, 1024, 512), (1, 4096, 512)]
THREADS = 2
SECONDS = 0.25
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}


def torch(op, shape, tuned):
    command = [PYTHON, HERE / "worker.py", op, *shape, THREADS, SECONDS]
    out = subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, env={**os.environ, **(TUNED if tuned else {})}).stdout
    return statistics.quantiles(json.loads(out)["samples"], n=4)[0]


def ellwand(op, shape):
    with tempfile.TemporaryDirectory() as out:
        workload = "attention-core" if op == "attention-naive" else op.removesuffix("-tanh")
        command = [ELLWAND, "run", workload, "-i", "parallel", "--in-process", "--effort", "quick", "--no-ceilings", "--no-plot",
                   "-o", out, "--overwrite"]
        # Attention reuses its buffers; the layer operations need the arena for that.
        command += ["--heads", shape[2] // 64] if workload.startswith("attention") else ["--allocation", "arena"]
        for axis, value in zip(["--batch", "--sequence", "--dimension"], shape):
            command += [axis, value]
        if workload == "gelu":
            command += ["--form", "tanh" if op.endswith("tanh") else "exact"]
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = (json.loads(line) for line in open(pathlib.Path(out) / "record.jsonl"))
        return quartile(next(line for line in lines if "samples" in line))


def quartile(measurement):
    samples = measurement["samples"]
    rows = samples if isinstance(samples, list) else [dict(zip(samples, row)) for row in zip(*samples.values())]
    return statistics.quantiles([row["wall_ns"] / row["iterations"] for row in rows], n=4)[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("ops", nargs="*", default=OPS)
    parser.add_argument("--sequence", type=int)
    asked = parser.parse_args()
    ops = [each for op in asked.ops for each in (ATTENTION if op == "attention" else [op])]
    shapes = [shape for shape in SHAPES + ATTENTION_SHAPES if asked.sequence in (None, shape[1])]
    cases = [(shape, op) for shape in shapes for op in ops if (shape in ATTENTION_SHAPES) == op.startswith("attention")]
    rounds = asked.rounds
    sys.exit(f"torch is absent: run {HERE / 'setup.py'} first") if not PYTHON.exists() else None
    print("| operation | shape | ellwand ms | A: PyTorch as shipped ms | A: ratio | B: PyTorch without faults ms | B: ratio |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for shape, op in cases:
        a, b, ours, shipped, tuned = [], [], [], [], []
        for _ in range(rounds):
            first, second = torch(op, shape, False), ellwand(op, shape)
            third, fourth = torch(op, shape, True), ellwand(op, shape)
            mine = (second + fourth) / 2
            a.append(first / mine)
            b.append(third / mine)
            ours.append(mine)
            shipped.append(first)
            tuned.append(third)
        ms = lambda values: f"{statistics.median(values) / 1e6:.3f}"
        ratio = lambda values: f"**{statistics.median(values):.2f}** ({min(values):.2f}–{max(values):.2f})"
        print(f"| {op} | {shape} | {ms(ours)} | {ms(shipped)} | {ratio(a)} | {ms(tuned)} | {ratio(b)} |", flush=True)


if __name__ == "__main__":
    main()
