"""The global generators: what a block draws changes nothing after it, and a dialogue may have a state of its own."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from colbench_gym.generators import PrivateGenerators, RngState, preserve_rng_state


def _draw():
    return random.random(), random.gauss(), float(np.random.rand()), float(np.random.randn()), float(torch.rand(()))


def _seed():
    random.seed(0), np.random.seed(0), torch.manual_seed(0)


@pytest.mark.parametrize("fails", [False, True])
def test_the_generators_continue_where_they_were(fails):
    _seed()
    first = _draw()
    expected = _draw()
    _seed()
    assert _draw() == first
    try:
        with preserve_rng_state():
            assert _draw() == expected
            _draw()
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert _draw() == expected


def _drawn(generators, count):
    found = []
    for _ in range(count):
        with generators.in_use():
            found.append(_draw())
    return found


@pytest.mark.parametrize("fails", [False, True])
def test_private_generators_draw_the_same_whatever_is_drawn_beside_them(fails):
    alone = _drawn(PrivateGenerators("task", 1), 4)
    assert len({*alone}) == 4 and alone != _drawn(PrivateGenerators("task", 2), 4)
    one, other = PrivateGenerators("task", 1), PrivateGenerators("task", 2)
    beside = []
    for _ in range(4):
        beside += _drawn(one, 1)
        _drawn(other, 3), _draw(), np.random.seed(7)
        try:
            with other.in_use():
                random.seed(5), np.random.seed(5), torch.manual_seed(5)
                if fails:
                    raise KeyError
        except KeyError:
            assert fails
    assert beside == alone
    one.seed("task", 1)
    assert _drawn(one, 4) == alone


def test_outside_of_the_block_the_generators_are_as_they_were():
    _seed()
    expected = [random.random(), np.random.rand(3).tolist(), torch.rand(2).tolist()]
    _seed()
    with PrivateGenerators("task", 1).in_use():
        _draw()
    assert [random.random(), np.random.rand(3).tolist(), torch.rand(2).tolist()] == expected


@pytest.mark.parametrize(
    ("draw", "name"),
    [(random.random, "Python's `random`"), (np.random.rand, "`numpy.random`"), (lambda: torch.rand(()), "torch")],
)
def test_what_has_been_drawn_from_is_named(draw, name):
    before = RngState.now()
    assert RngState.now().drawn_since(before) == ()
    draw()
    assert RngState.now().drawn_since(before) == (name,)
