"""A run's splits: what is held out is seen by no stage that learns."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace

import pytest
import torch

from colbench_gym.errors import ColBenchError
from colbench_gym.files import write_rows
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.rows import row_from_task
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.envs import backend_demonstrations
from sweetrl_agent.evaluation import held_out
from sweetrl_agent.rollouts import collection
from sweetrl_agent.rollouts.player import RolloutPlayer
from sweetrl_agent.trainers import run as run_module
from sweetrl_agent.trainers import sft_stage
from sweetrl_agent.trainers.run import Run


@pytest.fixture
def make_run(tmp_path):
    """Function: test_tasks -> a run on ten embedded tasks of which three are collected on."""
    given = {"output": str(tmp_path), "tasks": "embedded:train[:10]", "unseen_tasks": "", "num_tasks": 3, "sft_dialogues": 4}
    return lambda test_tasks, **task: Run(make_config({**given, "test_tasks": test_tasks, **task}))


def test_without_a_test_split_the_last_fifth_is_held_out(make_run):
    run = make_run("")
    assert (len(run.train), {split: len(tasks) for split, tasks in run.held_out.items()}) == (8, {"test": 2})
    assert run.tasks == run.train[:3]
    assert not {task.id for task in run.train} & {task.id for task in run.test}


def test_held_out_tasks_with_the_content_of_training_tasks_are_told(make_run, tmp_path, caplog):
    tasks = load_tasks("embedded:train[:10]")
    others = [replace(task, id=f"rows/{i}") for i, task in enumerate([*tasks[:2], *load_tasks("embedded:test[:3]")])]
    write_rows(tmp_path / "rows.jsonl", map(row_from_task, others))
    run = make_run(str(tmp_path / "rows.jsonl"))
    told = [
        record.getMessage()
        for record in caplog.records
        if "the request and the reference of a training task" in record.getMessage()
    ]
    assert len(told) == 1 and told[0].startswith("2 held-out tasks have") and len(run.test) == 5
    caplog.clear()
    assert make_run("embedded:test[:3]", output=str(tmp_path / "other")) and "of a training task" not in caplog.text


def test_versions_are_those_that_a_run_was_begun_with_and_all_that_it_was_resumed_with(make_run, monkeypatch):
    for commit in "abcba":
        monkeypatch.setattr(run_module, "versions", lambda commit=commit: {"python": "3.11.7", "git_commit": commit})
        made = make_run("embedded:test[:3]")
    assert json.loads(made.path("versions.json").read_text()) == {
        "python": "3.11.7", "git_commit": "a",
        "later": [{"python": "3.11.7", "git_commit": "b"}, {"python": "3.11.7", "git_commit": "c"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "rows.jsonl"),
              RuntimeError("SafetensorError: I/O error: No space left on device (os error 28)")],
)  # fmt: skip
def test_a_full_disk_ends_a_stage_with_a_sentence_and_leaves_it_undone(error, make_run):
    run = make_run("embedded:test[:3]")
    with (
        pytest.raises(ColBenchError, match="^The disk of .* is full .* give the same command"),
        run.stage(STAGES["collect"]),
    ):
        raise error
    assert not run.is_done("collect")
    with pytest.raises(OSError, match="Permission denied"), run.stage(STAGES["collect"]):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.mark.parametrize(
    ("test_tasks", "said"),
    [
        ("embedded:test[:3]", ""),
        ("", ""),
        ("embedded:test?preset=hard[:3]", "note: training is on dial standard, evaluation on another (test hard)"),
    ],
)
def test_a_run_says_where_it_measures_at_another_dial_than_it_trains_at(test_tasks, said, make_run):
    assert make_run(test_tasks).note == said


@pytest.mark.parametrize(("test_tasks", "size"), [("", 8), ("embedded:test[:5]", 10)])
def test_imitation_sees_all_training_tasks_and_no_others(test_tasks, size, make_run, monkeypatch):
    class Stop(Exception):
        """Raised in place of the training."""

    seen = []

    def demonstrations(tasks, *_):
        seen.extend(tasks)
        raise Stop

    monkeypatch.setattr(backend_demonstrations, "demonstrations", demonstrations)
    run = make_run(test_tasks)
    with pytest.raises(Stop):
        sft_stage.train_initial(run)
    assert tuple(seen) == run.train
    assert len(seen) == size


@pytest.fixture
def four_threads():
    """Four threads of torch's for the test, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("env", "left"), [("ColBench-Backend-v0", 4), ("ColBench-Frontend-v0", 2)])
@pytest.mark.usefixtures("four_threads")
def test_the_agent_leaves_browsers_their_cores(env, left, make_run, monkeypatch):
    run, seen = make_run("embedded:test[:2]", env=env), []

    def play(player, batches, on_end):
        seen.append(torch.get_num_threads())
        raise ColBenchError("enough")

    monkeypatch.setattr(RolloutPlayer, "play", play)
    with pytest.raises(ColBenchError, match="enough"):
        collection.collect(run)
    with pytest.raises(ColBenchError, match="enough"):
        held_out.record(run, run.path("evaluation.jsonl"), {"agent": "initial"}, run.test, lambda: None, "evaluate")
    assert seen == [left, left] and torch.get_num_threads() == 4
