"""A function's result is overwritten only if nothing else refers to it."""

import dataclasses
import functools

import numpy as np
import pytest

import ellwand
from ellwand import _fresh

KEPT = np.arange(5.0)


def table():
    return KEPT


def views():
    return {"part": KEPT[1:3], "all": [KEPT[::2]]}


@functools.cache
def cached():
    return np.arange(5.0)


@functools.cache
def cached_pair():
    return [np.arange(5.0), np.arange(6).reshape(2, 3)]


class Model:
    def __init__(self):
        self.w = np.arange(5.0)

    def weights(self):
        return self.w


MODEL = Model()


WRITTEN = []


def forgets(n):
    y = np.empty(n)
    if not WRITTEN:
        WRITTEN.append(y.fill(1))
    return y


def answers(make):
    """The content of what a function returns, before and after it is measured in this process and in workers."""
    before = repr(make())
    assert ellwand.bench(make, isolated=False).ok and repr(make()) == before
    assert ellwand.bench(make).ok


@pytest.mark.parametrize("make", [table, views, cached, cached_pair, MODEL.weights])
def test_what_a_function_keeps_stays_as_it_is(make):
    answers(make)


def test_a_variable_of_the_caller_stays_as_it_is():
    mine = np.arange(5.0)
    assert ellwand.bench(lambda: mine, isolated=False).ok
    assert mine.tolist() == [0, 1, 2, 3, 4]


def test_functions_that_return_what_they_keep_agree():
    assert ellwand.compare(table, table, blocks=2).verdict != "none"


class Watched(np.ndarray):
    """An array that counts how often it was written to."""

    written = 0

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        Watched.written += 1


def fresh():
    return np.arange(6.0).view(Watched)


def written(make, keep=()):
    """How many arrays are overwritten if a caller has the only reference to the result of ``make``."""
    Watched.written = 0
    spoil = _fresh.spoiler(list(keep))
    next(map(spoil, (make() for _ in range(1)), (0xFF,)))
    return Watched.written


@dataclasses.dataclass
class Pair:
    first: np.ndarray
    second: np.ndarray


def test_what_a_function_has_just_made_is_overwritten():
    assert written(fresh) == 1
    assert written(lambda: [fresh(), (fresh(), 1), {"z": fresh()}]) == 3
    assert written(lambda: Pair(fresh(), fresh())) == 2


def test_what_somebody_else_has_is_left_alone():
    array, whole, listed = fresh(), np.arange(6.0), [fresh()]
    twice = [fresh()] * 2
    for make in (
        lambda: array,
        lambda: [array],
        lambda: whole.view(Watched),
        lambda: whole[1:3].view(Watched),
        lambda: listed,
        lambda: (listed, fresh)[:1],
        lambda: list(twice),
        lambda: np.frombuffer(bytearray(48)).view(Watched),
        lambda: np.broadcast_to(fresh(), (2, 6)),
        lambda: None,
    ):
        assert written(make) == 0


def test_a_function_that_does_not_write_its_result_again_is_wrong():
    with pytest.raises(ellwand.EllwandError, match="forgets: wrong"):
        ellwand.bench(forgets, 100)
