"""Options of ``ellwand.bench`` and ``ellwand.compare``, what their results say, and the verdicts of the pytest fixture."""

import os

import numpy as np
import pytest

import ellwand


def first(x):
    return float(x[0])


def doubled(x):
    return 2 * x


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system does not show peak memory")
@pytest.mark.parametrize("isolated", [True, False])
def test_peak_memory_is_without_the_copies_of_the_arguments(isolated):
    x = np.ones(4_000_000)
    peaks = [ellwand.bench(each, x, isolated=isolated).readings["peak-memory"] for each in (first, doubled)]
    assert peaks[0] < 16e6 and 24e6 < peaks[1] < 48e6, peaks
