"""Evaluation in training: what it writes, and that it changes no number of the training, also with dropout and after a kill."""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch

from colbench_gym.files import read_rows
from examples.own_environment import Guess
from sweetrl_agent.core.callback import Callback, Callbacks
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.train import main
from sweetrl_agent.trainers.run import Run

SETTINGS = {
    "env": "examples.own_environment:Guess-v0", "max_new_tokens": 4, "grpo.iterations": 4, "grpo.tasks": 2, "grpo.group": 3, "grpo.epochs": 1,
    "threads": 1, "eval_tasks": 6,
}  # fmt: skip


@pytest.fixture
def make(tiny_model_folder, tmp_path, monkeypatch):
    """Function: folder, settings -> a run of GRPO on the guessing game, whose model has dropout and whose environment draws global numbers."""
    model = tmp_path / "dropout"
    shutil.copytree(tiny_model_folder, model)
    written = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**written, "attention_dropout": 0.3}))
    reset, step = Guess.reset, Guess.step

    def drawing_reset(self, **given):
        torch.rand(3), random.random()
        return reset(self, **given)

    def scored_step(self, action):
        """The return is the share of letters that are not ASCII, so that a random model learns."""
        text, _, terminated, truncated, info = step(self, action)
        return text, sum(not c.isascii() for c in action) / max(len(action), 1), terminated, truncated, info

    monkeypatch.setattr(Guess, "reset", drawing_reset)
    monkeypatch.setattr(Guess, "step", scored_step)

    def run(folder, **settings):
        given = {"output": tmp_path / folder, "model": model, **SETTINGS, **settings}
        return Run(comparison_job.parse([], {"algorithms": "grpo", **given})[1])

    return run


def _train(run, *callbacks):
    torch.manual_seed(0)
    run.callbacks = Callbacks(run, callbacks)
    run.config.algorithms["grpo"].train(run)
    weights = (run.path("grpo/agent") / "model.safetensors").read_bytes()
    return weights, read_rows(run.path("metrics.jsonl"))


def _training_of(rows):
    return [{name: value for name, value in row.items() if not name.startswith("test/")} for row in rows]


class Results(Callback):
    """Notes the evaluations and logs; raises at one of them."""

    def __init__(self, raises_at=None, stops_at=None):
        self.found, self.logged, self.raises_at, self.stops_at = [], [], raises_at, stops_at

    def on_log(self, run, stage, step, values):
        self.logged.append((stage, step, dict(values)))
        if step == self.raises_at:
            raise KeyboardInterrupt

    def on_evaluate(self, run, stage, step, values):
        self.found.append((stage, step, dict(values)))
        return step != self.stops_at

    def on_iteration(self, run, stage, step, episodes):
        assert len(episodes) == 6 and episodes[0].turns


def test_it_writes_success_and_metric_with_intervals_and_changes_no_number_of_the_training(make):
    results = Results()
    weights, rows = _train(make("with", eval_every=2, eval_every_tasks=5), results)
    plain_weights, plain_rows = _train(make("without"))
    assert _training_of(rows) == plain_rows and weights == plain_weights
    assert len({row["loss"] for row in plain_rows}) > 1, "without learning the test shows less"
    evaluated = {row["step"]: row for row in rows if "test/n" in row}
    assert [*evaluated] == [2, 4] and all(row["test/n"] == 5 and row["test/void"] == 0 for row in evaluated.values())
    for row in evaluated.values():
        for name in ("success", "return"):
            assert row[f"test/{name}_low"] <= row[f"test/{name}"] <= row[f"test/{name}_high"]
    assert [(stage, step) for stage, step, _ in results.found] == [("grpo", 2), ("grpo", 4)]
    assert results.found[0][2]["test/return"] == evaluated[2]["test/return"]


def test_the_same_seeds_are_played_every_time(make):
    _, rows = _train(make("still", eval_every=1, eval_every_tasks=4, **{"grpo.learning_rate": 0.0}))
    assert len({tuple(value for name, value in row.items() if name.startswith("test/")) for row in rows}) == 1


@pytest.mark.parametrize("raises_at", [2, 3])
def test_a_killed_run_makes_the_missing_evaluation_and_ends_with_the_same_rows(make, raises_at):
    """At 2 the kill comes between the checkpoint of the iteration and its evaluation."""
    whole_weights, whole = _train(make("whole", eval_every=2, eval_every_tasks=3, model=_without_dropout(make)))
    cut = make("cut", eval_every=2, eval_every_tasks=3, model=_without_dropout(make))
    with pytest.raises(KeyboardInterrupt):
        _train(cut, Results(raises_at))
    again = Results()
    weights, rows = _train(cut, again)
    assert rows == whole and weights == whole_weights
    assert [step for _, step, _ in again.found] == [2, 4] and [step for _, step, _ in again.logged] == [1, 2, 3, 4]


def _without_dropout(make):
    """The model of the runs without dropout, whose global random numbers a checkpoint does not keep."""
    folder = make("any").config.model.model
    path = f"{folder}/config.json"
    with open(path) as file:
        written = json.load(file)
    with open(path, "w") as file:
        json.dump({**written, "attention_dropout": 0.0}, file)
    return folder


def test_a_callback_stops_after_an_evaluation_and_the_agent_is_saved(make):
    _, rows = _train(make("early", eval_every=1, eval_every_tasks=3), Results(stops_at=2))
    assert [row["step"] for row in rows] == [1, 2]


def test_it_is_refused_for_an_algorithm_without_iterations(tmp_path, capsys):
    assert main(["--eval_every", "5", "--output", str(tmp_path / "run"), "--dry_run", "true"]) == 2
    assert capsys.readouterr().err == (
        "error: `eval_every` is for on-policy algorithms, such as reinforce, grpo and turn_ppo, got `algorithm` 'sweet'.\n"
    )
