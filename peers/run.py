#!/usr/bin/env python3
"""Head to head: how often do Criterion and Divan call identical code changed, and how often do they find +5 %?

    cd peers && python3 run.py [DECISIONS]

Each decision runs a harness twice, as its users do: once as the baseline, once as the candidate, with PLANTED per cent more
work. Criterion gives a verdict (with its default noise threshold); Divan gives none, so a change of its median by more
than 2 % counts, as a user might decide. Ellwand's rows are those of `ellwand selfcheck` on the same kernels, made by
../target/release/ellwand or the program that ELLWAND names; without one they are skipped with a message.
"""

import json
import os
import re
import subprocess
import sys

UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
KERNELS = ("branches", "l2", "chain")
NAMES = "|".join(KERNELS)


def bench(name, planted, *flags):
    env = dict(os.environ, PLANTED=str(planted))
    command = ["cargo", "bench", "--quiet", "--bench", name, "--", *flags]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def criterion(planted):
    """slower, faster or same, for each kernel."""
    short = ("--warm-up-time", "0.5", "--measurement-time", "1", "--noplot")
    bench("with_criterion", 0, "--save-baseline", "before", *short)
    words = bench("with_criterion", planted, "--baseline", "before", *short)
    verdicts = {}
    for kernel, text in re.findall(rf"^({NAMES})\s+time:(.*?)(?=^\S|\Z)", words, re.M | re.S):
        verdicts[kernel] = "slower" if "regressed" in text else "faster" if "improved" in text else "same"
    return verdicts


def medians(words):
    found = {}
    for line in words.splitlines():
        match = re.search(rf"\b({NAMES})\s+(.*)", line)
        if match:
            cells = [cell.split() for cell in match.group(2).split("│")]
            value, unit = cells[2]
            found[match.group(1)] = float(value) * UNITS[unit]
    return found


def divan(planted):
    before, after = medians(bench("with_divan", 0)), medians(bench("with_divan", planted))
    ratio = {kernel: after[kernel] / before[kernel] for kernel in KERNELS}
    return {kernel: "slower" if r > 1.02 else "faster" if r < 1 / 1.02 else "same" for kernel, r in ratio.items()}


def ellwand(program, decisions):
    """Rows of (planted, kernel, slower, faster, same); undecided comparisons are in none of the counts."""
    for planted, only in ((0, "equal"), (5, "+5")):
        command = [program, "selfcheck", "--only", only, "--decisions", str(decisions), "--format", "json"]
        told = subprocess.run(command, capture_output=True, text=True)
        if told.returncode not in (0, 1) or not told.stdout:
            sys.exit(f"{' '.join(command)}: exit code {told.returncode}\n{told.stderr}")
        for row in json.loads(told.stdout)["rows"]:
            yield planted, row["workload"].removeprefix("selfcheck-"), row["slower"], row["faster"], row["same"]


def main():
    decisions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{'harness':10} {'kernel':8} {'planted':>7} {'decisions':>9} {'slower':>6} {'faster':>6} {'same':>4}")
    for name, decide in (("criterion", criterion), ("divan", divan)):
        for planted in (0, 5):
            verdicts = [decide(planted) for _ in range(decisions)]
            for kernel in KERNELS:
                of = [verdict[kernel] for verdict in verdicts]
                counts = [of.count(word) for word in ("slower", "faster", "same")]
                print(f"{name:10} {kernel:8} {'+%d %%' % planted:>7} {decisions:>9} {counts[0]:>6} {counts[1]:>6} {counts[2]:>4}", flush=True)
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.environ.get("ELLWAND") or os.path.join(here, "..", "target", "release", "ellwand")
    if os.path.exists(program):
        for planted, kernel, slower, faster, same in ellwand(program, decisions):
            print(f"{'ellwand':10} {kernel:8} {'+%d %%' % planted:>7} {decisions:>9} {slower:>6} {faster:>6} {same:>4}", flush=True)
    else:
        print(f"ellwand left out: {program} is not there; `cargo build --release` makes it")
    print("load average", os.getloadavg()[0])


if __name__ == "__main__":
    main()
