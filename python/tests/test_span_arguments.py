"""Arguments of spans: when their text is made, and of what."""

import numpy as np

from ellwand.profiler import GPUProfiler


class Loud:
    """An argument that notes when its text is made."""

    texts = 0

    def __str__(self):
        Loud.texts += 1
        return "loud"


def test_a_profiler_that_is_off_makes_no_text_of_arguments():
    profiler, Loud.texts = GPUProfiler(enabled=False), 0
    regions = [profiler.profile("a", x=Loud(), bytes=8), profiler.profile("b", device="gpu", x=Loud())]
    for region in regions:
        with region as span:
            span.add(y=Loud())
    with profiler.profile("a") as span:
        span.add(y=Loud())
    assert Loud.texts == 0 and profiler.entries == []
    # A region that is kept has its arguments when the profiler is on.
    profiler.enable()
    for region in regions * 2:
        with region:
            pass
    spans = profiler.snapshot().spans()
    assert [(span["operation"], span["args"]["x"]) for span in spans] == [("a", "loud"), ("b", "loud")] * 2
    assert Loud.texts == 2 and spans[0]["bytes"] == 8 and spans[1]["args"]["device"] == "gpu"


class Mute:
    def __str__(self):
        raise RuntimeError("no text")


def test_an_argument_without_text_does_not_end_the_program():
    profiler = GPUProfiler()
    with profiler.profile("a", x=Mute()) as span:
        span.add(y=Mute())
    args = profiler.snapshot().spans()[0]["args"]
    assert args["x"] == args["y"] == "<Mute without text>"


def test_measuring_the_profiler_is_no_part_of_the_profile():
    profiler = GPUProfiler()
    with profiler.profile("a"):
        pass

    def costs():
        with profiler.profile("late"):
            pass
        return [(0.0, 0.0)] * 4

    assert [span["operation"] for span in profiler._snapshot(costs).spans()] == ["a"]


def test_arrays_are_recorded_by_type_and_shape():
    profiler = GPUProfiler()
    with profiler.profile("a", x=np.ones((2, 3), np.float32), one=np.float32(1), count=np.int64(2)):
        pass
    assert profiler.snapshot().spans()[0]["args"] == {"x": "float32[2, 3]", "one": "1.0", "count": "2"}
