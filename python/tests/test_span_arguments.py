"""Arguments of profilers and spans: which are rejected, how functions are named, when the text of arguments is made, and from what."""

import functools
import inspect

import numpy as np
import pytest

import ellwand
from ellwand import _measure
from ellwand.profiler import GPUProfiler


@pytest.mark.parametrize(
    "given, kind, words",
    [
        ({"measure": "cpu"}, TypeError, r"^measure: 'cpu' is of type str; expected a list of names among \"cpu\", \"rss\"$"),
        ({"measure": 3}, TypeError, r"^measure: 3 is of type int; expected a list"),
        ({"measure": [3]}, TypeError, r"^measure: \[3\] is of type list; expected a list of names"),
        ({"measure": ["gpu"]}, ValueError, r'^measure: "gpu" is unknown; expected'),
        ({"max_entries": 10**30}, ValueError, r"^max_entries: 10{30} is out of range; expected an integer from 0 to 2\^64 - 1$"),
        ({"max_entries": -1}, ValueError, r"^max_entries: -1 is out of range; expected an integer from 0"),
        ({"max_entries": "many"}, TypeError, r"^max_entries: 'many' is of type str; expected an integer"),
        ({"max_entries": 1.5}, TypeError, r"^max_entries: 1.5 is of type float; expected an integer"),
        ({"device_id": 10**30}, ValueError, r"^device_id: 10{30} is out of range; expected the number of a GPU"),
        ({"device_id": "cuda"}, TypeError, r"^device_id: 'cuda' is of type str; expected the number of a GPU$"),
        ({"enabled": "yes"}, TypeError, r"^enabled: 'yes' is of type str; expected True or False$"),
    ],
)
def test_a_wrong_argument_of_a_profiler_is_refused_by_its_name(given, kind, words):
    with pytest.raises(kind, match=words) as refused:
        GPUProfiler(**given)
    assert isinstance(refused.value, ellwand.EllwandError)


def test_a_wrong_argument_of_a_span_is_refused_by_its_name():
    profiler = GPUProfiler()
    calls = [
        (lambda: profiler.profile(3), "operation: 3 is of type int; expected a string"),
        (lambda: profiler.span(None), "operation: None is of type NoneType; expected a string"),
        (lambda: profiler.profile("op", device=3), 'device: 3 is of type int; expected a string such as "cpu"'),
        (lambda: profiler.profile_function("op", device=3), "device: 3 is of type int; expected a string"),
        (lambda: profiler.profile_function(3), "profile_function: 3 is not a function"),
    ]
    for call, words in calls:
        with pytest.raises(TypeError, match=words) as refused:
            call()
        assert isinstance(refused.value, ellwand.EllwandError)
    with pytest.raises(ValueError, match="'tpu' is unknown"):
        profiler.profile("op", device="tpu")
    assert list(inspect.signature(GPUProfiler).parameters) == ["enabled", "device_id", "max_entries", "measure"]
    given = GPUProfiler(True, np.int64(0), max_entries=np.int64(7), measure=("cpu",))
    assert (given.enabled, given.max_entries, given.measure) == (True, 7, ("cpu",))


class Doubler:
    """A callable object."""

    def __call__(self, x):
        return 2 * x


def scaled(x, by):
    return by * x


def test_partials_and_objects_have_the_names_of_their_function_and_class():
    profiler = GPUProfiler()
    twice = functools.partial(scaled, by=2)
    for function in (twice, functools.partial(twice), Doubler(), scaled):
        decorated = profiler.profile_function(function)
        assert decorated(3, **({"by": 2} if function is scaled else {})) == 6
    assert {name: each.call_count for name, each in profiler.get_summary().items()} == {"scaled": 3, "Doubler": 1}
    assert {span["file"] for span in profiler.document()["operations"] if span["name"] == "scaled"} <= {__file__}
    assert [_measure._name(each) for each in (twice, Doubler(), scaled, lambda: 1)] == ["scaled", "Doubler", "scaled", "lambda"]


class Loud:
    """An argument that records when its text is made."""

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
    # A stored region has its arguments when the profiler is on.
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
