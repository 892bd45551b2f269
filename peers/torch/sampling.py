"""How a worker samples: the same rule for every framework, as its figures are compared."""

import time


def sample(call, seconds):
    """Nanoseconds of a call, one value a sample of 20 ms."""

    def timed(calls):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return time.perf_counter_ns() - begin

    timed(3)
    # Samples back to back: threads stay awake.
    calls = max(1, int(20e6 / max(1, timed(3) / 3)))
    timed(calls)
    samples, end = [], time.monotonic() + seconds
    while time.monotonic() < end or len(samples) < 3:
        samples.append(timed(calls) / calls)
    return samples
