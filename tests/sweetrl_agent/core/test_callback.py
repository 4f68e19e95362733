"""Callbacks: which events they get, and what stops a training."""

from __future__ import annotations

import logging

import pytest

from sweetrl_agent.core.callback import Callback, Callbacks, StopTraining, numbers


class Recorder(Callback):
    """Records its events, and returns a given answer."""

    def __init__(self, answer=None):
        self.events, self.answer = [], answer

    def on_run_begin(self, run):
        self.events.append(("run_begin", run))

    def on_run_end(self, run, error):
        self.events.append(("run_end", error))

    def on_stage_begin(self, run, stage):
        self.events.append(("stage_begin", stage))

    def on_stage_end(self, run, stage, values):
        self.events.append(("stage_end", stage, values))

    def on_log(self, run, stage, step, values):
        self.events.append(("log", stage, step, values))
        return self.answer


class Raises(Callback):
    """Asks to stop by the exception."""

    def on_log(self, run, stage, step, values):
        raise StopTraining


def test_every_callback_gets_all_events_in_order():
    one, two = Recorder(), Recorder()
    callbacks = Callbacks("the run", [one, two])
    callbacks.tell("on_run_begin")
    callbacks.tell("on_stage_begin", "sft")
    assert callbacks.tell("on_log", "sft", 3, {"stage": "sft", "step": 3, "loss": 1, "name": "x", "is_good": True}) is True
    callbacks.tell("on_stage_end", "sft", {"seconds": 2.0})
    callbacks.tell("on_run_end", None)
    assert one.events == two.events == [
        ("run_begin", "the run"), ("stage_begin", "sft"), ("log", "sft", 3, {"loss": 1.0, "is_good": 1.0}),
        ("stage_end", "sft", {"seconds": 2.0}), ("run_end", None),
    ]  # fmt: skip


@pytest.mark.parametrize(("stopper", "continues"), [
    (Recorder(False), False), (Raises(), False), (Recorder(None), True), (Recorder(True), True), (Recorder(0), True),
])  # fmt: skip
def test_false_or_the_exception_stops_and_nothing_else(stopper, continues, caplog):
    after = Recorder()
    with caplog.at_level(logging.INFO, "sweetrl_agent"):
        assert Callbacks(None, [stopper, after]).tell("on_log", "grpo", 7, {"return": 0.5}) is continues
    assert after.events == [("log", "grpo", 7, {"return": 0.5})], "callbacks after one that stops get the event too"
    said = [] if continues else [f"grpo: {type(stopper).__name__} stops the training at step 7"]
    assert [record.message for record in caplog.records] == said


@pytest.mark.parametrize("method", ["step", "iteration", "evaluate", "log"])
def test_without_callbacks_training_continues(method):
    assert Callbacks().tell(f"on_{method}", "grpo", 1, {}) is True


def test_an_error_of_a_callback_is_not_hidden():
    class Broken(Callback):
        def on_step(self, run, stage, step, total):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Callbacks(None, [Broken()]).tell("on_step", "sft", 1, 2)


def test_where_nothing_is_trained_the_exception_is_not_swallowed():
    class Stops(Callback):
        def on_stage_begin(self, run, stage):
            raise StopTraining

    with pytest.raises(StopTraining):
        Callbacks("the run", [Stops()]).tell("on_stage_begin", "sft")


def test_only_numbers_are_passed_on():
    assert numbers({"stage": 1, "step": 2, "a": 3, "b": None, "c": "4", "d": [5]}) == {"a": 3.0}
