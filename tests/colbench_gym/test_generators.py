"""What a block draws from the global generators changes nothing after it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from colbench_gym.generators import preserve_rng_state


def _draw():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


@pytest.mark.parametrize("fails", [False, True])
def test_the_generators_continue_where_they_were(fails):
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    first = _draw()
    expected = _draw()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
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
