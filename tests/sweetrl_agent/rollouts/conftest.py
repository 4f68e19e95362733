"""Ray of this machine, for the tests of workers."""

from __future__ import annotations

import pytest

from sweetrl_agent.rollouts.workers import prepare_local_ray


@pytest.fixture(scope="module")
def cluster():
    """Ray of this machine, which is left when the tests of a module are over. Its workers are as urgent as the tests that wait for them: by default
    their niceness is 15, and they take minutes beside other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        prepare_local_ray()
        ray = pytest.importorskip("ray")
        yield ray
        ray.shutdown()
