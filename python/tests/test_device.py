"""Python's half of work on a GPU, with mocks of the libraries: the stream, the arrays, and what a row reports."""

import sys
import types

import numpy as np
import pytest

from ellwand import Case, EllwandError, _arrays, _device, _registry, _threads


@pytest.fixture
def used(monkeypatch):
    """What was made current, by library."""
    used = {}
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        ExternalStream=lambda handle, device: ("torch", handle, device),
        set_stream=lambda stream: used.update(torch=stream),
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda, Tensor=type("Tensor", (), {})))
    stream = lambda *place: types.SimpleNamespace(use=lambda: used.update(cupy=("cupy", *place)))
    device = lambda number: types.SimpleNamespace(use=lambda: None)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(ExternalStream=stream, Device=device))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(_device, "timed", None)
    monkeypatch.setattr(_threads, "limit", lambda _: None)
    return used


def array_of_cupy(values):
    """An array on the device: it must be fetched, and is filled there."""
    made = type("ndarray", (), {"__module__": "cupy"})()
    made.values = np.array(values, np.float32)
    made.dtype, made.get = made.values.dtype, lambda: made.values
    made.fill = made.values.fill
    return made


def test_a_row_for_a_gpu_computes_on_the_given_stream_and_its_outputs_are_fetched_and_overwritten(used):
    def prepare(case, inputs):
        assert used == {"torch": ("torch", 7, 1), "cupy": ("cupy", 7, 1)}
        y = array_of_cupy(inputs["x"])
        run = lambda: {"y": y}
        run.launches = 3
        return run

    row = _registry.Implementation("gelu", "mine", "", "cuda", 1, prepare, outputs=("y",))
    ready = row.prepare(Case("gelu", "case", {}), {"x": np.ones(3, np.float32)}, (7, 1))
    assert ready.launches == 3 and not ready.syncs
    result = ready.run()
    assert ready.output(result)["y"].tolist() == [1, 1, 1]
    ready.poison(result, 0xFF)
    assert np.isnan(ready.output(result)["y"]).all()


def test_how_many_launches_a_run_makes_is_a_number(used):
    def prepare(case, inputs):
        run = lambda: 1
        run.launches = "many"
        return run

    row = _registry.Implementation("gelu", "mine", "", "cuda", 1, prepare, outputs=("y",))
    with pytest.raises(EllwandError, match="launches is 'many'; expected the number of kernels"):
        row.prepare(Case("gelu", "case", {}), {}, (7, 0))


def test_without_a_stream_nothing_is_made_current(used):
    row = _registry.Implementation("gelu", "mine", "", "cpu", 1, lambda case, inputs: lambda: 1, outputs=("y",))
    assert row.prepare(Case("gelu", "case", {}), {}, None).launches == 24
    assert used == {}


def test_arrays_on_a_gpu_are_fetched_wherever_they_are(used):
    got = _arrays.fetched({"a": (array_of_cupy([1]), 2), "b": [array_of_cupy([3])]})
    assert got["a"][0].tolist() == [1] and got["a"][1] == 2 and got["b"][0].tolist() == [3]
