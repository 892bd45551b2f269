"""How often several tools find a slowdown of 5 % between two NumPy functions, and how long each takes, measured in turns.

    python peers/python/planted.py [TRIES [TOOL ..]]

TOOL is one of ellwand, timeit, pytest-benchmark; by default all, and pytest-benchmark only if installed. Each
try gives every tool the pair (base, slower) and the pair (base, same) in random order. `same` is a copy of `base`: a
tool that calls it slower or faster raises a false positive.

`timeit` and pytest-benchmark print times but no verdicts. They are read as their users read them: `timeit` compares the best
of 5 repeats (as its command line prints), pytest-benchmark fails a comparison of the minimum beyond 2.5 % (its option
`--benchmark-compare-fail=min:2.5%`). Half of the planted difference is a fair threshold for both.
"""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import timeit

import numpy as np

import ellwand

#: Relative difference beyond which a tool without verdicts counts as deciding.
THRESHOLD = 0.025
PIECES = 20


def base(x):
    """20 pieces of the same work."""
    return [np.sqrt(x * x + 1.0).sum() for _ in range(PIECES)][-1]


def same(x):
    """A copy of `base`."""
    return [np.sqrt(x * x + 1.0).sum() for _ in range(PIECES)][-1]


def slower(x):
    """21 pieces: 5 % more."""
    return [np.sqrt(x * x + 1.0).sum() for _ in range(PIECES + 1)][-1]


def values():
    return np.random.default_rng(0).random(5000)


def called(ratio):
    """The verdict of a reader who compares two numbers."""
    return "slower" if ratio > 1 + THRESHOLD else "faster" if ratio < 1 - THRESHOLD else "same"


def with_ellwand(candidate):
    result = ellwand.compare(base, candidate, values(), time=5)
    return ("slower" if result.slower else result.verdict), result.ratio


def with_timeit(candidate):
    """What `python -m timeit` does: enough calls for 0.2 s, five times; returns the best."""
    x, best = values(), []
    for function in (base, candidate):
        timer = timeit.Timer(lambda: function(x))
        number, _ = timer.autorange()
        best.append(min(timer.repeat(5, number)) / number)
    return called(best[1] / best[0]), best[1] / best[0]


TESTS = """
import sys
sys.path.insert(0, {folder!r})
import planted

def test_base(benchmark):
    benchmark(planted.base, planted.values())

def test_candidate(benchmark):
    benchmark(planted.{name}, planted.values())
"""


def with_pytest_benchmark(candidate):
    """One process of pytest, as in a project's tests."""
    with tempfile.TemporaryDirectory() as folder:
        here, file = pathlib.Path(folder), pathlib.Path(folder) / "test_pair.py"
        file.write_text(TESTS.format(folder=str(pathlib.Path(__file__).resolve().parent), name=candidate.__name__))
        words = ["-q", "-p", "no:cacheprovider", "--benchmark-json", str(here / "out.json"), str(file)]
        subprocess.run([sys.executable, "-m", "pytest", *words], check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = {row["name"]: row["stats"]["min"] for row in json.loads((here / "out.json").read_text())["benchmarks"]}
    ratio = rows["test_candidate"] / rows["test_base"]
    return called(ratio), ratio


TOOLS = {"ellwand": with_ellwand, "timeit": with_timeit, "pytest-benchmark": with_pytest_benchmark}


def chosen(names):
    unknown = [name for name in names if name not in TOOLS]
    if unknown:
        sys.exit(f"{unknown[0]} is unknown; expected {', '.join(TOOLS)}")
    absent = importlib.util.find_spec("pytest_benchmark") is None
    if absent and "pytest-benchmark" in names:
        sys.exit("pytest-benchmark is not installed: pip install pytest-benchmark")
    return names or [name for name in TOOLS if not (absent and name == "pytest-benchmark")]


def main():
    words = sys.argv[1:]
    count = int(words.pop(0)) if words and words[0].isdigit() else 20
    tools = chosen(words)
    load = os.getloadavg()[0]
    found = {(tool, candidate): [] for tool in tools for candidate in (slower, same)}
    for number in range(count):
        for tool, candidate in random.sample(list(found), len(found)):
            start = time.perf_counter()
            verdict, ratio = TOOLS[tool](candidate)
            seconds = time.perf_counter() - start
            found[tool, candidate].append((verdict, seconds))
            print(f"{number + 1:>3} {tool:<17} {candidate.__name__:<7} {verdict:<10} {ratio:.3f} {seconds:5.1f} s", file=sys.stderr)
    print(f"| tool | pair | slower | faster | same | undecided | s, median | s, most |\n|---|---|{'---:|' * 6}")
    for (tool, candidate), rows in found.items():
        verdicts, seconds = [verdict for verdict, _ in rows], sorted(seconds for _, seconds in rows)
        counts = [verdicts.count(word) for word in ("slower", "faster", "same")]
        counts.append(count - sum(counts))
        cells = " | ".join(str(each) for each in counts)
        print(f"| {tool} | base, {candidate.__name__} | {cells} | {seconds[count // 2]:.1f} | {seconds[-1]:.1f} |")
    print(f"\n{count} tries, NumPy {np.__version__}, load before {load:.1f}, after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
