#!/usr/bin/env python3
"""Slots of a recorded comparison, one row per slot, in the form of results/noise.

    ellwand compare copy:simd copy:simd --bytes 6291456 --at-least 0.05% --blocks 64 --time 100s -o noise
    python3 peers/noise.py noise/record.jsonl | gzip -9 > results/noise/PROCESSOR-copy6m-equal.csv.gz

Such a small region of equality stays undecided, so the comparison continues to its last block. `median_ns` is the time that the
comparison judged: of the fastest part of a slot, or its CPU time. For a record with several cases pass the case's number, from 0.
"""

import json
import sys


def comparisons(lines):
    return [one for one in map(json.loads, lines) if one["kind"] == "comparison" and one["arms"]]


def rows(comparison):
    for arm, one in enumerate(comparison["arms"]):
        samples = one["samples"]
        for i, iterations in enumerate(samples["iterations"]):
            mean = samples["wall_ns"][i] / iterations
            judged = mean
            if comparison["basis"] == "fastest":
                judged = samples["fastest_ns"][i] * samples["parts"][i] / iterations
            elif comparison["basis"] in ("cpu", "shortest-cpu"):
                judged = samples["cpu_ns"][i] / iterations
            place = (samples["block"][i], samples["round"][i], samples["position"][i])
            yield *place, arm, iterations, f"{judged:.1f}", f"{mean:.1f}"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as lines:
        found = comparisons(lines)
    number = int(sys.argv[2]) if len(sys.argv) == 3 else 0
    if number >= len(found):
        sys.exit(f"{sys.argv[1]}: {len(found)} comparisons with slots; expected more than {number}")
    print("block,round,place,arm,iterations,median_ns,mean_ns")
    for row in sorted(rows(found[number]), key=lambda row: row[:3]):
        print(*row, sep=",")


if __name__ == "__main__":
    main()
