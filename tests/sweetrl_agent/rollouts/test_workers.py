"""Shards here and on Ray: in their order, and a killed worker costs time only. Imports little, for every worker imports it too."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from functools import partial

import pytest

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.rollouts.workers import ordered_map


@contextmanager
def _squares(folder, kills, weights=None):
    """Squares numbers; the first worker that comes to one of `kills` ends as by `kill -9`."""

    def work(number):
        (folder / f"{number}-{os.getpid()}").touch()
        if number in kills and len(list(folder.glob(f"{number}-*"))) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2

    yield work


def test_shards_are_worked_off_here_in_their_order(tmp_path):
    assert list(ordered_map(partial(_squares, tmp_path, ()), [3, 1, 2], RunArguments())) == [9, 1, 4]
    assert {name.name.split("-")[1] for name in tmp_path.iterdir()} == {str(os.getpid())}


def test_nothing_is_opened_for_nothing():
    def make_worker():
        raise AssertionError("opened")

    assert list(ordered_map(make_worker, [], RunArguments())) == []


def test_a_killed_worker_costs_time_only(cluster, tmp_path):
    make_worker = partial(_squares, tmp_path, (2,), weights=bytes(10**6))  # too large to travel with the call
    found = list(ordered_map(make_worker, list(range(8)), RunArguments(ray_workers=2)))
    assert found == [number**2 for number in range(8)]
    workers = {name.name.split("-")[1] for name in tmp_path.iterdir()}
    assert str(os.getpid()) not in workers and len(workers) == 3, "two workers, and one that took the place of the killed one"


@pytest.mark.parametrize("address", ["127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_named(cluster, address, monkeypatch):
    cluster.shutdown()
    with pytest.raises(ColBenchError, match=f"^No Ray cluster answers at '{address}'.*ray start --head"):
        list(ordered_map(partial(_squares, None, ()), [1], RunArguments(ray_workers=1, ray_address=address)))
