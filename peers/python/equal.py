"""False positives on equal code: each implementation of a framework against itself, as the command line compares them.

    python peers/python/equal.py [COMPARISONS [WORKLOAD:IMPLEMENTATION ..]]

By default 50 comparisons of `softmax:torch` and 50 of `softmax:jax`, in random order. A comparison that calls a side
slower or faster is a false positive. Exits with 1 if there is one.
"""

import json
import os
import random
import subprocess
import sys
import time

SIDES = ["softmax:torch", "softmax:jax"]
SHAPE = ["--batch", "8", "--sequence", "64", "--dimension", "256"]
#: Only layers take this shape; other workloads have their default sizes.
LAYERS = ("layer-norm", "gelu", "swish", "softmax")
TIME = ["--time", "20s"]


def compare(side):
    """The verdict on a side against itself, and its ratio."""
    shape = SHAPE if side.split(":")[0] in LAYERS else ["--size", "tiny"]
    command = [sys.executable, "-m", "ellwand", "compare", side, side, *shape, *TIME, "--format", "json", "--fail-on", "never"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{side}: the comparison ended with code {done.returncode}: {done.stderr.strip()[-1000:]}")


def main():
    words = sys.argv[1:]
    count = int(words.pop(0)) if words and words[0].isdigit() else 50
    sides = words or SIDES
    load = os.getloadavg()[0]
    found = {side: [] for side in sides}
    order = random.sample(sides * count, len(sides) * count)
    for number, side in enumerate(order):
        start = time.perf_counter()
        rows = compare(side)
        seconds = time.perf_counter() - start
        for row in rows:
            if row["verdict"] == "none":
                sys.exit(f"{side}: no verdict: {row.get('outcome')}: {row.get('reason')}")
            found[side].append((row["verdict"], row["ratio"], seconds))
            ratio = "   -" if row["ratio"] is None else f"{row['ratio']:.3f}"
            print(f"{number + 1:>3} of {len(order)} {side:<20} {row['verdict']:<12} {ratio} {seconds:5.1f} s", file=sys.stderr)
    print(f"| against itself | comparisons | slower or faster | same | undecided | ratio, least to most | s, median |\n|---|{'---:|' * 6}")
    alarms = 0
    for side, rows in found.items():
        verdicts = [verdict for verdict, _, _ in rows]
        red = sum(verdict in ("slower", "faster", "slower-beside") for verdict in verdicts)
        alarms += red
        equal = verdicts.count("same")
        ratios = sorted(ratio for _, ratio, _ in rows if ratio is not None)
        spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}" if ratios else "-"
        median = sorted(seconds for _, _, seconds in rows)[len(rows) // 2]
        print(f"| {side} | {len(rows)} | {red} | {equal} | {len(rows) - red - equal} | {spread} | {median:.1f} |")
    print(f"\nload before {load:.1f}, after {os.getloadavg()[0]:.1f}")
    sys.exit(1 if alarms else 0)


if __name__ == "__main__":
    main()
