#!/usr/bin/env python3
"""How often do Criterion, Divan and hyperfine call identical code changed, and how often do they find +5 %?

    cd peers && python3 run.py [DECISIONS]

Each decision runs a harness twice, as its users do: once as the baseline, once as the candidate, with PLANTED per cent more
work. Criterion gives a verdict (with its default noise threshold); Divan gives none, so a change of its median by more
than 2 % counts, as a user might decide. hyperfine compares two commands, an interpreter that adds numbers, and prints a ratio with its
deviation; a ratio further from 1 than that counts. Ellwand compares the same kernels by `ellwand selfcheck --decisions 1` and the
commands by `compare --command`, with ../target/release/ellwand or the program that ELLWAND names. A harness that is not installed is
skipped with a message. A comparison that ends without a verdict is open.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time

UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
KERNELS = ("branches", "l2", "l3", "dram", "chain")
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


def ellwand(program, planted):
    """slower, faster, same or open, for each kernel: one comparison per kernel, as `compare` makes it."""
    verdicts = {}
    for kernel in KERNELS:
        only = f"{kernel} {'+%d' % planted if planted else 'equal'}"
        command = [program, "selfcheck", "--only", only, "--decisions", "1", "--format", "json"]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode not in (0, 6) or not ran.stdout:
            sys.exit(f"{' '.join(command)}: exit code {ran.returncode}\n{ran.stderr}")
        rows = json.loads(ran.stdout)["rows"]
        of = {word: sum(row[word] for row in rows) for word in ("slower", "faster", "same")}
        verdicts[kernel] = next((word for word, count in of.items() if count), "open")
    return verdicts


def commands(planted):
    """Two commands of some 50 ms; the second adds `planted` per cent more numbers."""
    return [f"python3 -c 'sum(range({100 * 20_000}))'", f"python3 -c 'sum(range({(100 + planted) * 20_000}))'"]


def hyperfine(planted):
    words = ["hyperfine", "--shell=none", "--warmup", "2", "--export-json", "-", "--style", "none", *commands(planted)]
    before, after = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["results"]
    ratio = after["mean"] / before["mean"]
    deviation = ratio * sum((side["stddev"] / side["mean"]) ** 2 for side in (before, after)) ** 0.5
    return {"command": "slower" if ratio - 1 > deviation else "faster" if 1 - ratio > deviation else "same"}


def ellwand_commands(program, planted):
    words = [program, "compare", "--command", *commands(planted), "--format", "json", "--fail-on", "never"]
    verdict = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)[0]["verdict"]
    verdict = verdict.removesuffix("-beside")
    return {"command": verdict if verdict in ("slower", "faster", "same") else "open"}


def show(rows, loads, seconds):
    """Prints the table so far, so that an interrupted run loses at most one turn."""
    words = ("slower", "faster", "same", "open")
    print(f"{'harness':10} {'kernel':8} {'planted':>7} {'decisions':>9} " + " ".join(f"{word:>6}" for word in words))
    for (name, kernel, planted), of in sorted(rows.items()):
        counts = " ".join(f"{of.count(word):>6}" for word in words)
        print(f"{name:10} {kernel:8} {'+%d %%' % planted:>7} {len(of):>9} {counts}")
    for name, spent in seconds.items():
        print(f"{name}: {spent / (2 * len(loads)):.0f} s for the kernels of a turn, including program starts")
    print(f"load average {min(loads):.1f} to {max(loads):.1f}", flush=True)


def main():
    decisions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.environ.get("ELLWAND") or os.path.join(here, "..", "target", "release", "ellwand")
    harnesses = {"criterion": criterion, "divan": divan}
    if shutil.which("hyperfine"):
        harnesses["hyperfine"] = hyperfine
    else:
        print("hyperfine skipped: install it with `cargo install hyperfine`")
    if os.path.exists(program):
        harnesses["ellwand"] = lambda planted: ellwand(program, planted) | ellwand_commands(program, planted)
    else:
        print(f"ellwand skipped: {program} not found; build it with `cargo build --release`")
    # In turns, so that all meet the same load from neighbours.
    rows, loads, seconds = {}, [], {name: 0.0 for name in harnesses}
    for turn in range(decisions):
        loads.append(os.getloadavg()[0])
        for planted in (0, 5):
            for name, decide in harnesses.items():
                begin = time.monotonic()
                for kernel, verdict in decide(planted).items():
                    rows.setdefault((name, kernel, planted), []).append(verdict)
                seconds[name] += time.monotonic() - begin
        print(f"{turn + 1} of {decisions}, load {loads[-1]:.1f}", file=sys.stderr, flush=True)
        show(rows, loads, seconds)


if __name__ == "__main__":
    main()
