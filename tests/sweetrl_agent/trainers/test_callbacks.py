"""Callbacks of a run and of transformers in the stages that a `Trainer` trains."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from datasets import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.callback import Callback, Callbacks
from sweetrl_agent.data.files import timeless
from sweetrl_agent.trainers.callbacks import callback_context, find_callbacks
from sweetrl_agent.trainers.running import trainer_arguments
from sweetrl_agent.trainers.stage_training import logged_rows, train_stage

ROWS = Dataset.from_list([{"input_ids": [5, 6, 7, 8 + i % 3], "labels": [5, 6, 7, 8 + i % 3]} for i in range(30)])


class Noting(Callback):
    """Notes steps and logs; stops at a step where that is given."""

    def __init__(self, stop_at=None, kill_at=None):
        self.steps, self.logs, self.stop_at, self.kill_at = [], [], stop_at, kill_at

    def on_step(self, run, stage, step, total):
        if step == self.kill_at:
            raise KeyboardInterrupt
        self.steps.append((stage, step, total))
        return step != self.stop_at

    def on_log(self, run, stage, step, values):
        self.logs.append((stage, step, dict(values)))


class Theirs(TrainerCallback):
    """A callback of transformers."""

    begun = 0

    def on_train_begin(self, args, state, control, **kwargs):
        type(self).begun += 1


@pytest.fixture
def train(tmp_path, make_tiny_model, tiny_tokenizer):
    """Function: callbacks, folder -> rows of metrics of thirty steps on the tiny model."""

    def run(callbacks=None, folder="model", **changes):
        set_seed(0)
        given = trainer_arguments(tmp_path / folder, 0, ModelArguments(), 1, 1, 1e-3, 1) | {"save_steps": 10, **changes}
        trainer = Trainer(model=make_tiny_model(), args=TrainingArguments(**given), train_dataset=ROWS)
        return train_stage(trainer, tiny_tokenizer, tmp_path / folder, "sft", callbacks)

    return run


def test_callbacks_hear_every_step_and_the_numbers_of_the_metrics(train, tmp_path):
    noting = Noting()
    rows = train(Callbacks(None, [noting], [Theirs()]))
    assert noting.steps == [("sft", step, 30) for step in range(1, 31)]
    assert [(step, values["loss"]) for _, step, values in noting.logs] == [(row["step"], row["loss"]) for row in rows]
    assert [step for _, step, _ in noting.logs] == [1, 10, 20, 30] and Theirs.begun == 1
    assert not [name for name in noting.logs[0][2] if "second" in name]
    assert [*map(timeless, rows)] == [*map(timeless, train(None, "other"))], "listening changes no number"
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("model", "other")]
    assert weights[0] == weights[1]


def test_the_last_step_is_logged_wherever_it_is(train):
    rows = train(max_steps=17)
    assert [row["step"] for row in rows] == [1, 10, 17]


def test_a_callback_stops_the_stage_and_the_model_is_saved(train, tmp_path):
    noting = Noting(stop_at=12)
    rows = train(Callbacks(None, [noting]))
    assert noting.steps[-1] == ("sft", 12, 30) and [row["step"] for row in rows] == [1, 10]
    assert (tmp_path / "model" / "model.safetensors").exists()


def test_after_a_kill_logs_are_repeated_so_that_a_callback_has_its_state(train):
    with pytest.raises(KeyboardInterrupt):
        train(Callbacks(None, [Noting(kill_at=25)]))
    resumed, whole = Noting(), Noting()
    train(Callbacks(None, [resumed]))
    train(Callbacks(None, [whole]), "whole")
    assert resumed.steps[0] == ("sft", 21, 30) and resumed.logs == whole.logs


@pytest.mark.parametrize("given", ["sweetrl_agent.core.callback:Callbacks", dict, 3, Callbacks()])
def test_what_is_no_callback_is_refused(given):
    with pytest.raises(
        ValueError, match=r"^`callbacks` must be classes or objects of `sweetrl_agent.Callback` or `transformers"
    ):
        find_callbacks([given])


def test_callbacks_are_named_given_as_classes_or_as_objects(make_run):
    run, mine = make_run(callbacks=["examples.own_callback:StopWhenGood"]), Noting()
    assert [one if isinstance(one, type) else type(one) for one in find_callbacks([Noting, mine, Theirs])] == [
        Noting,
        Noting,
        Theirs,
    ]
    with callback_context(run, [mine, Noting, Theirs]):
        assert [type(one).__name__ for one in run.callbacks._callbacks] == ["StopWhenGood", "Noting", "Noting"]
        assert run.callbacks._callbacks[1] is mine and isinstance(run.callbacks.trainer_callbacks[0], Theirs)
        assert run.with_settings({}).callbacks is run.callbacks
    assert run.callbacks._callbacks == ()


def test_the_end_of_a_run_is_told_with_its_error(make_run):
    ends = []

    class Ends(Callback):
        def on_run_end(self, run, error):
            ends.append(error)

    with callback_context(make_run(), [Ends]):
        pass
    with pytest.raises(KeyError), callback_context(make_run(), [Ends]):
        raise KeyError("x")
    assert ends[0] is None and type(ends[1]) is KeyError


def test_callbacks_may_change_and_stand_in_the_settings_of_the_run(make_run):
    run = make_run(callbacks=["examples.own_callback:StopWhenGood"])
    assert "examples.own_callback:StopWhenGood" in run.path("config.yaml").read_text()
    run.path("initial").mkdir()
    assert make_run().config.run.callbacks == []
    assert make_run(report_to=["tensorboard"], log_level="debug").path("config.yaml").read_text().count("report_to") == 0


def test_rows_are_the_same_text_before_and_after_a_checkpoint():
    history = [{"loss": 1.0, "epoch": 0.5, "grad_norm": 2.0, "step": 1}]
    rows = [
        logged_rows(SimpleNamespace(log_history=one), "actor")
        for one in (history, json.loads(json.dumps(history, sort_keys=True)))
    ]
    assert (
        json.dumps(rows[0])
        == json.dumps(rows[1])
        == '[{"stage": "actor", "step": 1, "epoch": 0.5, "grad_norm": 2.0, "loss": 1.0}]'
    )
