"""The layer operations and the parts of attention against PyTorch and JAX, in fresh, interleaved processes, as ratios.

    python3.11 setup.py && cargo build --release && python3.11 run.py [ROUNDS [OP ..]] [--sequence N]

JAX takes part if `target/peers/torch` has it (`target/peers/torch/bin/pip install jax==0.10.2`, or `cargo xtask check --only
python`, which installs it).

Without OP it measures the layer operations; `attention` selects the parts of attention, and --sequence selects shapes of that
sequence length. attention-core is PyTorch's fused form (scaled_dot_product_attention) against Ellwand's, attention-naive is
PyTorch's three separate steps against Ellwand's fused form.

Each round runs, for each operation and shape: PyTorch as shipped (A), ellwand, PyTorch with an allocator tuned so that it never
faults (B), ellwand again, then JAX in both ways around a third run of ellwand. The statistic of a process is the lower quartile
of its samples; the ratio of a round is the other's over the mean of ellwand's two or three; the table has the median of the
rounds and their range. attention-core has one form in JAX, three steps under jit.
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


def other(op, shape, tuned, worker="worker.py"):
    command = [PYTHON, HERE / worker, op, *shape, THREADS, SECONDS]
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
    has_jax = subprocess.run([str(PYTHON), "-c", "import jax"], stderr=subprocess.DEVNULL).returncode == 0
    others = [("PyTorch", "worker.py"), *([("JAX", "jax_worker.py")] if has_jax else [])]
    heads = [f"{way}: {name} {how} ms | {way}: ratio" for name, _ in others for way, how in (("A", "as shipped"), ("B", "without faults"))]
    print("| operation | shape | ellwand ms | " + " | ".join(heads) + " |")
    print("|---|---|---:|" + "---:|---:|" * len(heads))
    ms = lambda values: f"{statistics.median(values) / 1e6:.3f}"
    ratio = lambda values: f"**{statistics.median(values):.2f}** ({min(values):.2f}–{max(values):.2f})"
    for shape, op in cases:
        ours, times, ratios = [], [[] for _ in heads], [[] for _ in heads]
        for _ in range(rounds):
            mine, theirs = [], []
            for place, (_, worker) in enumerate(others):
                theirs.append(other(op, shape, False, worker))
                mine.append(ellwand(op, shape))
                theirs.append(other(op, shape, True, worker))
                # The first has one of ours after each of its ways, as ever.
                mine += [ellwand(op, shape)] if place == 0 else []
            ours.append(statistics.mean(mine))
            for column, value in enumerate(theirs):
                times[column].append(value)
                ratios[column].append(value / ours[-1])
        cells = " | ".join(f"{ms(time)} | {ratio(each)}" for time, each in zip(times, ratios))
        print(f"| {op} | {shape} | {ms(ours)} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
