"""Ray of this machine, for the tests of workers."""

from __future__ import annotations

import pytest

from sweetrl_agent.rollouts.workers import prepare_local_ray


@pytest.fixture(scope="module")
def cluster():
    """Ray of this machine, which is left when the tests of a module are over."""
    prepare_local_ray()
    ray = pytest.importorskip("ray")
    yield ray
    ray.shutdown()
