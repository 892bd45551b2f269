"""What a profiler prints when its limits are reached."""

import re

from ellwand.profiler import GPUProfiler


def test_a_summary_tells_lost_spans_from_aggregated_ones(capsys):
    profiler = GPUProfiler(max_entries=0)
    for name in [f"operation {number}" for number in range(6000)] * 2:
        with profiler.profile(name):
            pass
    profiler.print_summary()
    printed = capsys.readouterr().out
    lost, aggregated = (int(re.search(rf"^{word}: (\d+) spans", printed, re.M)[1]) for word in ("lost", "aggregated"))
    assert lost + aggregated == 12_000 and lost > 0 and aggregated > 0, printed[-300:]
