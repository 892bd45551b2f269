"""Arguments of the wrong type or range: one sentence with their name, what was given, and what is expected."""

import sys

import numpy as np
import pytest

import ellwand
from ellwand import lab, lattice, nn
from ellwand.profiler import GPUProfiler

X = np.ones((4, 8), np.float32)


def same(x):
    return x


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: ellwand.compare(np.ones(5000), same), TypeError, r"array\(\[1., .{5,50} of type ndarray is not a function; expected two"),
        (lambda: ellwand.bench(np.ones((300, 300))), TypeError, r"array\(.{50,60} of type ndarray is not a function; expected a function"),
        (lambda: ellwand.bench(same, X, time="y" * 5000), ValueError, r"time: 'y{59}\.\. is not a number"),
        (lambda: lattice.encode(X, q=-4), ValueError, "q: -4 is out of range; expected an integer from 2"),
        (lambda: lattice.encode(X, q=2.5), TypeError, "q: 2.5 is not an integer; expected an integer from 2"),
        (lambda: lattice.encode(X, q=2**40), ValueError, "q: 1099511627776 is out of range"),
        (lambda: lattice.encode(X, levels=-1), ValueError, "levels: -1 is out of range"),
        (lambda: lattice.encode(X, cap=1000), ValueError, "cap: 1000 is out of range; expected an integer from 0 to 255"),
        (lambda: lattice.encode(X, beta="x"), TypeError, "beta: 'x' is not a number"),
        (lambda: lattice.encode(X, lattice=3), TypeError, "lattice: 3 is of type int; expected 'Z2', 'D4' or 'E8'"),
        (lambda: lattice.encode(X, overload=None), TypeError, "overload: None is of type NoneType"),
        (lambda: lattice.encode(X, centred=3), TypeError, "centred: 3 is of type int; expected True or False"),
        (lambda: lattice.decode(X), TypeError, "codes: array.* is of type ndarray; expected what encode returned"),
        (lambda: lattice.dot(X, X), TypeError, "codes: array.* is of type ndarray"),
        (lambda: lattice.decode(lattice.encode(X), depth=-1), ValueError, "depth: -1 is out of range"),
        (lambda: nn.layer_norm(X, eps="a"), ValueError, "eps: 'a' is not a number"),
        (lambda: GPUProfiler().print_bottlenecks("3"), ValueError, "top_n: '3' is not an integer"),
        (lambda: GPUProfiler().get_bottlenecks(-1), ValueError, "top_n: -1 is out of range"),
        (lambda: lab.profile_attention_components(128.0, 64, 4), TypeError, "seq_len: 128.0 is not an integer"),
        (lambda: lab.profile_attention_components(128, 64, 5), ellwand.EllwandError, "num_heads: 5 does not divide d_model, 64"),
        (lambda: lab.benchmark_function(3), TypeError, "fn: 3 is not a function"),
        (lambda: lab.measure_memory_usage(3), TypeError, "fn: 3 is not a function"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(call, kind, words):
    with pytest.raises(kind, match=f"^{words}") as refused:
        call()
    assert isinstance(refused.value, ellwand.EllwandError) and len(str(refused.value)) < 160


def test_numbers_of_numpy_are_accepted():
    codes = lattice.encode(X, q=np.int64(4), levels=np.uint8(2), beta=np.float32(1), centred=np.bool_(False))
    assert lattice.decode(codes, depth=np.int32(1)).shape == X.shape
    assert GPUProfiler().get_bottlenecks(np.int64(3)) == []


@pytest.mark.parametrize(
    ("work", "kind", "words"),
    [
        ({"bytes": -1}, ValueError, r"bytes: -1 is out of range; expected an integer from 0 to 2\^64 - 1"),
        ({"bytes": 2**70}, ValueError, "bytes: 1180591620717411303424 is out of range"),
        ({"bytes": "12"}, TypeError, "bytes: '12' is of type str"),
        ({"items": 1.5}, ValueError, "items: 1.5 is out of range; expected an integer"),
        ({"flops": float("nan")}, ValueError, "flops: nan is out of range; expected a finite number of at least 0"),
        ({"flops": -1}, ValueError, "flops: -1 is out of range"),
    ],
)
def test_work_that_is_no_amount_is_refused(work, kind, words):
    profiler = GPUProfiler()
    with pytest.raises(kind, match=f"^{words}") as refused:
        profiler.profile("a", **work)
    assert isinstance(refused.value, ellwand.EllwandError)
    with profiler.profile("b") as span:
        with pytest.raises(kind, match=f"^{words}"):
            span.add(**work)
    with profiler.profile("c", bytes=np.int64(8), items=2.0, flops=np.float32(2.5)):
        pass
    entry = next(each for each in profiler.entries if each.operation == "c")
    assert (entry.bytes, entry.items, entry.flops) == (8, 2, 2.5)


def test_pytest_shows_no_lines_of_ellwand_for_its_errors(tmp_path, run):
    (tmp_path / "test_it.py").write_text(
        """
import ellwand
from ellwand import nn

def fails():
    raise ValueError("no luck")

def test_option(measure):
    measure(fails, time="y")

def test_failure():
    ellwand.bench(fails, isolated=False)

def test_array():
    nn.gelu(None)
"""
    )
    done = run("-p", "no:cacheprovider", "-q", "test_it.py", command=[sys.executable, "-m", "pytest"])
    assert done.code == 1 and done.out.count("EllwandError") >= 2 and "no luck" in done.out
    assert not [file for file in ("_measure.py", "_options.py", "nn.py", "pytest_plugin.py") if f"{file}:" in done.out], done.out
