"""Shards here and on Ray: the same files for any number of workers, and a killed worker costs time only."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import contextmanager
from functools import partial

import pytest

from colbench_gym.errors import ColBenchError
from sweetrl_agent.algorithms import sweet
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.algorithms.sweet import STATES_PER_BATCH
from sweetrl_agent.collection import collect
from sweetrl_agent.compare import parse
from sweetrl_agent.config import RunArguments
from sweetrl_agent.evaluation import evaluate_agent
from sweetrl_agent.files import read_rows
from sweetrl_agent.run import Run
from sweetrl_agent.train import main
from sweetrl_agent.workers import in_order

TINY = [
    "--test_tasks", "embedded:test[:6]", "--unseen_tasks", "embedded:unseen[:3]", "--num_tasks", "8", "--trajectories_per_task", "3",
    "--imitation_dialogues", "60", "--imitation_epochs", "1", "--tiny_layers", "1", "--tiny_hidden_size", "64", "--generation_batch", "2",
    "--num_states", "70", "--num_candidates", "4", "--max_new_tokens", "12", "--min_best", "0", "--threads", "1", "--shown_dialogues", "0",
    "--max_turns", "3",
]  # fmt: skip


@contextmanager
def _squares(folder, kills, weights=None):
    """Squares numbers; the first worker that comes to one of `kills` ends as by `kill -9`."""

    def work(number):
        (folder / f"{number}-{os.getpid()}").touch()
        if number in kills and len(list(folder.glob(f"{number}-*"))) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2

    yield work


@pytest.fixture(scope="module")
def cluster():
    """Ray of this machine, which is left when the tests are over."""
    ray = pytest.importorskip("ray")
    yield ray
    ray.shutdown()


def test_shards_are_worked_off_here_in_their_order(tmp_path):
    assert list(in_order(partial(_squares, tmp_path, ()), [3, 1, 2], RunArguments())) == [9, 1, 4]
    assert {name.name.split("-")[1] for name in tmp_path.iterdir()} == {str(os.getpid())}


def test_nothing_is_opened_for_nothing():
    def opens():
        raise AssertionError("opened")

    assert list(in_order(opens, [], RunArguments())) == []


def test_killed_workers_cost_time_only(cluster, tmp_path):
    opens = partial(_squares, tmp_path, (2, 5), weights=bytes(10**6))  # too large to travel with the call
    found = list(in_order(opens, list(range(8)), RunArguments(ray_workers=2)))
    assert found == [number**2 for number in range(8)]
    workers = {name.name.split("-")[1] for name in tmp_path.iterdir()}
    assert str(os.getpid()) not in workers and len(workers) == 4, "two workers, and two that took the place of those killed"


@pytest.mark.parametrize("address", ["127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_named(cluster, address, monkeypatch):
    cluster.shutdown()
    with pytest.raises(ColBenchError, match=f"^No Ray cluster answers at '{address}'.*ray start --head"):
        list(in_order(partial(_squares, None, ()), [1], RunArguments(ray_workers=1, ray_address=address)))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A run folder that holds a start, which also serves as critic."""
    folder = tmp_path_factory.mktemp("start") / "run"
    assert main([*TINY, "--output", str(folder), "--stage", "imitate"]) == 0
    shutil.copytree(folder / "start", folder / "critic")
    return folder


@pytest.fixture(scope="module")
def make_run(start, tmp_path_factory):
    """Function: number of Ray's workers -> folder of a run whose sampled files are made by so many."""

    def make(workers):
        folder = tmp_path_factory.mktemp("run") / "run"
        shutil.copytree(start, folder)
        _, config = parse([*TINY, "--output", str(folder), "--ray_workers", str(workers)])
        run = Run(config)
        collect(run)
        sweet.sample_candidates(run)
        sweet.rank(run)
        evaluate_agent(run, "start", ALGORITHMS["zero_shot"].loader(run))
        return folder

    return make


@pytest.fixture(scope="module")
def made_here(make_run):
    """The folder that this process makes alone."""
    return make_run(0)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_gives_the_same_files(workers, cluster, make_run, made_here):
    cluster.shutdown()  # each starts with as many processors as it has workers
    there = make_run(workers)
    for name, rows in (("trajectories", 24), ("candidates", None), ("scores", None), ("turn_pairs", None), ("evaluation", 9)):
        own = (there / f"{name}.jsonl").read_bytes()
        assert own and own == (made_here / f"{name}.jsonl").read_bytes(), name
        assert rows in (None, own.count(b"\n")), name
    assert len(read_rows(there / "candidates.jsonl")) > STATES_PER_BATCH, "more than one shard"
