"""How often `ellwand.compare` finds a slowdown of 5 % between two NumPy functions, and how long it takes.

    python peers/python/planted.py [tries]

Also compares the first function with itself, which must never give a verdict of faster or slower.
"""

import os
import sys
import time

import numpy as np

import ellwand


def base(x):
    """20 pieces of the same work."""
    return [np.sqrt(x * x + 1.0).sum() for _ in range(20)][-1]


def slower(x):
    """21 pieces: 5 % more."""
    return [np.sqrt(x * x + 1.0).sum() for _ in range(21)][-1]


def tries(count, candidate, x):
    """Verdicts and seconds of comparisons with `base`."""
    for number in range(count):
        start = time.perf_counter()
        result = ellwand.compare(base, candidate, x, time=5)
        yield result, time.perf_counter() - start
        print(f"{number + 1:>3} {candidate.__name__:<7} {result.verdict:<10} {result.ratio:.3f}", file=sys.stderr)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    x = np.random.default_rng(0).random(5000)
    load = os.getloadavg()[0]
    for candidate in (slower, base):
        done = list(tries(count, candidate, x))
        verdicts = [result.verdict for result, _ in done]
        counts = ", ".join(f"{verdicts.count(word)} {word}" for word in sorted(set(verdicts)))
        seconds = sorted(seconds for _, seconds in done)
        print(f"base against {candidate.__name__}: {counts}; {seconds[len(seconds) // 2]:.1f} s each, at most {seconds[-1]:.1f} s")
    print(f"load before {load:.1f}, after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
