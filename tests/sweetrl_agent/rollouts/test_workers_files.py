"""The sampling stages on Ray: the same files for any number of workers, and where one is killed in each of them."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psutil
import pytest
import torch

from colbench_gym.files import read_rows
from examples import own_environment
from sweetrl_agent.algorithms import sweet
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.evaluation.comparison_job import parse
from sweetrl_agent.evaluation.held_out import evaluate_agent
from sweetrl_agent.rollouts.collection import collect
from sweetrl_agent.train import main
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.sampler import SAMPLING

TINY = [
    "--test_tasks", "embedded:test[:6]", "--unseen_tasks", "embedded:unseen[:3]", "--num_tasks", "8", "--trajectories_per_task", "3",
    "--sft_dialogues", "60", "--sft_epochs", "1", "--tiny_layers", "1", "--tiny_hidden_size", "64", "--generation_batch", "2",
    "--sweet.num_states", "14", "--sweet.num_candidates", "4", "--max_new_tokens", "12", "--min_best", "0", "--threads", "1", "--shown_dialogues", "0",
    "--max_turns", "3",
]  # fmt: skip


STATES_PER_SHARD = 6


@pytest.fixture(scope="module", autouse=True)
def _small_shards():
    """Two shards and a part of one, of fewer states than in a real run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweet, "STATES_PER_BATCH", STATES_PER_SHARD)
        yield


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A run folder that holds a start, which also serves as critic."""
    folder = tmp_path_factory.mktemp("initial") / "run"
    assert main([*TINY, "--output", str(folder), "--stage", "sft"]) == 0
    shutil.copytree(folder / "initial", folder / "critic")
    return folder


@pytest.fixture(scope="module")
def make_run(start, tmp_path_factory):
    """Function: number of Ray's workers, what surrounds each stage -> folder of a run whose sampled files are made by so many."""

    def make(workers, around=nullcontext):
        folder = tmp_path_factory.mktemp("run") / "run"
        shutil.copytree(start, folder)
        _, config = parse([*TINY, "--output", str(folder), "--ray_workers", str(workers)])
        run = Run(config)
        agent = ALGORITHMS["initial"].loader(run)
        for stage in (collect, sweet.sample_candidates, sweet.rank, lambda run: evaluate_agent(run, "initial", agent)):
            with around():
                stage(run)
        return folder

    return make


@pytest.fixture(scope="module")
def made_here(make_run):
    """The folder that this process makes alone."""
    return make_run(0)


@contextmanager
def _one_worker_killed():
    """Ends one of Ray's workers in the middle of its work, as `kill -9` does; an error where none was at work."""
    killed, is_over = [], threading.Event()

    def watch():
        while not killed and not is_over.is_set():
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.cmdline()[:1] == ["ray::_Worker.do"]:  # its title while a shard is worked off
                        process.kill()
                        killed.append(process.pid)
                        break
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
    assert killed, "no worker was seen at work"


def test_two_workers_of_which_one_is_killed_in_each_stage_give_the_same_files(cluster, make_run, made_here):
    there = make_run(2, around=_one_worker_killed)
    _assert_same_files(there, made_here)
    assert len(read_rows(there / "candidates.jsonl")) > STATES_PER_SHARD, "more than one shard"


def test_an_on_policy_algorithm_learns_the_same_from_any_number_of_workers(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = {"algorithm": "reinforce", "sft_dialogues": 400, "sft_epochs": 1, "threads": 1, "eval_tasks": 2,
             "reinforce.iterations": 2, "reinforce.tasks": 8, "reinforce.group": 4}  # fmt: skip
    start = tmp_path / "start"
    assert own_environment.main([], {**small, "stage": "sft", "output": start}) == 0
    agents = []
    for workers in (2, 1):
        folder = Path(shutil.copytree(start, tmp_path / f"of_{workers}"))
        assert own_environment.main([], {**small, "ray_workers": workers, "output": folder}) == 0
        rows = [row for row in read_rows(folder / "metrics.jsonl") if row["stage"] == "reinforce"]
        agents.append(((folder / "reinforce/agent/model.safetensors").read_bytes(), rows))
        assert not (folder / "reinforce" / SAMPLING).exists()
    assert agents[0] == agents[1] and [row["grad_norm"] > 0 for row in agents[0][1]] == [True, True]
    assert agents[0][0] != (tmp_path / "of_1/initial/model.safetensors").read_bytes()


def test_more_threads_change_the_last_decimals_of_log_probabilities_alone(make_run, made_here):
    torch.set_num_threads(2)
    try:
        there = make_run(0)
    finally:
        torch.set_num_threads(1)
    rows, others = (read_rows(folder / "trajectories.jsonl") for folder in (there, made_here))
    own, other = ([turn.pop("log_probs") for row in some for turn in row["turns"]] for some in (rows, others))
    assert rows == others
    assert [len(turn) for turn in own] == [len(turn) for turn in other]
    assert sum(own, []) == pytest.approx(sum(other, []), abs=1e-4)


def _assert_same_files(there, here):
    for name, rows in (("trajectories", 24), ("candidates", None), ("scores", None), ("turn_pairs", None), ("evaluation", 9)):
        own = (there / f"{name}.jsonl").read_bytes()
        assert own and own == (here / f"{name}.jsonl").read_bytes(), name
        assert rows in (None, own.count(b"\n")), name
