"""Trackers: names, steps, groups, and resuming without duplicates. W&B and MLflow are stand-ins; docs/trackers.md says how to try the real ones."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_object
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.config.run import TRACKERS as NAMES
from sweetrl_agent.trainers.callbacks import callback_context
from sweetrl_agent.trainers.trackers import TRACKERS, Tracker, make_trackers


class Points(Tracker):
    """Keeps its points in memory."""

    name, points, ends = "points", [], []

    def open(self, run):
        self.kept.setdefault("id", f"{self.group}:{self.run_name}")

    def write(self, stage, step, values):
        self.points += [(f"{stage}/{name}", step, value) for name, value in values.items()]

    def close(self, error):
        self.ends.append(error)


@pytest.fixture
def points(monkeypatch):
    """`Points` as the tracker that `--report_to tensorboard` opens."""
    monkeypatch.setattr("sweetrl_agent.trainers.callbacks.make_trackers", lambda names, root: [Points(root)])
    Points.points, Points.ends = [], []
    return Points


def test_every_name_of_the_setting_has_a_tracker():
    assert tuple(TRACKERS) == NAMES
    for made, name in zip(make_trackers([*NAMES, "none"], Path("x")), NAMES, strict=True):
        assert isinstance(made, Tracker) and made.name == name


def test_all_stages_write_to_one_run_under_their_names(make_run, points):
    run = make_run()
    with callback_context(run):
        with run.stage(stages_of(ALGORITHMS["no_hidden"])["critic no_hidden"]):
            run.callbacks.tell(
                "on_log", "critic no_hidden", 10, {"stage": "critic no_hidden", "step": 10, "loss": 0.5, "rewards/chosen": 1}
            )
        run.callbacks.tell("on_evaluate", "evaluate", 3, {"test/success": 0.25})
    names = [(name, step) for name, step, _ in points.points]
    assert names == [
        ("critic_no_hidden/loss", 10), ("critic_no_hidden/rewards/chosen", 10), ("critic_no_hidden/seconds", 0),
        ("critic_no_hidden/peak_mib", 0), ("evaluate/test/success", 3),
    ]  # fmt: skip
    assert points.ends == [None] and read_object(run.path("trackers.json"))["points"]["id"] == ":run"


def test_a_resumed_run_repeats_no_point_and_loses_none(make_run, points):
    with pytest.raises(KeyboardInterrupt), callback_context(run := make_run()):
        for step in (1, 10, 20):
            run.callbacks.tell("on_log", "sft", step, {"loss": 1 / step})
        raise KeyboardInterrupt
    with callback_context(run := make_run()):
        for step in (10, 20, 30):  # from the checkpoint after step 1
            run.callbacks.tell("on_log", "sft", step, {"loss": 1 / step, "new": 1.0})
        run.callbacks.tell("on_log", "actor", 1, {"loss": 2.0})
    loss = [(step, value) for name, step, value in points.points if name == "sft/loss"]
    assert loss == [(1, 1.0), (10, 0.1), (20, 0.05), (30, 1 / 30)]
    assert [step for name, step, _ in points.points if name == "sft/new"] == [10, 20, 30]
    assert ("actor/loss", 1, 2.0) in points.points and isinstance(points.ends[0], KeyboardInterrupt)


def test_a_point_is_noted_when_it_is_written(make_run, points):
    run = make_run()
    for steps in ((1,), (1, 2)):
        tracker = Points(run.folder)
        tracker.on_run_begin(run)
        for step in steps:
            tracker.on_log(run, "sft", step, {"loss": 0.5})  # and killed: `on_run_end` is not called
    assert [step for _, step, _ in points.points] == [1, 2]
    assert read_object(run.path("trackers.json"))["points"]["steps"] == {"sft/loss": 2}


def test_a_tracker_that_cannot_be_opened_ends_the_run_and_one_that_fails_later_does_not(make_run, points, monkeypatch, caplog):
    def fail(*_):
        raise OSError("no\nserver")

    monkeypatch.setattr(Points, "open", fail)
    said = r"^The tracker 'points' cannot be opened \(OSError: no server\); correct its settings, or leave it out of `--report_to`.$"
    with pytest.raises(ColBenchError, match=said), callback_context(make_run()):
        raise AssertionError("nothing runs")
    monkeypatch.undo()
    monkeypatch.setattr("sweetrl_agent.trainers.callbacks.make_trackers", lambda names, root: [Points(root)])
    write = Points.write
    monkeypatch.setattr(Points, "write", fail)
    with callback_context(run := make_run()):
        assert all(run.callbacks.tell("on_log", "sft", step, {"loss": 1.0}) for step in (1, 2))
    monkeypatch.setattr(Points, "write", write)
    (record,) = caplog.records
    assert record.message == "The tracker 'points' has failed (OSError: no server). The run continues without it."
    run.add_metrics("sft", [{"stage": "sft", "step": step, "loss": 1.0} for step in (1, 2)])
    with callback_context(make_run()):
        pass
    assert points.points == [("sft/loss", 1, 1.0), ("sft/loss", 2, 1.0)], "what it has missed is added when the run resumes"


def test_a_tracker_that_is_new_to_a_run_gets_what_the_run_has(make_run, points):
    run = make_run()
    run.add_metrics("sft", [{"stage": "sft", "step": 1, "loss": 3.0}, {"stage": "sft", "step": 10, "loss": 2.0}])
    for _ in range(2):
        with callback_context(make_run()):
            pass
    assert points.points == [("sft/loss", 1, 3.0), ("sft/loss", 10, 2.0)]


def test_a_seed_of_a_comparison_is_named_and_grouped(make_run, points, tmp_path):
    run = make_run(output=str(tmp_path / "mine" / "seed_3" / "scale_9"))
    with callback_context(run, (), tmp_path / "mine"):
        pass
    assert read_object(run.path("trackers.json"))["points"]["id"] == "mine:mine/seed_3/scale_9"


def test_other_processes_than_the_first_open_none(make_run, points, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with callback_context(run := make_run(report_to=["tensorboard"])):
        run.callbacks.tell("on_log", "sft", 1, {"loss": 1.0})
    assert points.points == []


def test_a_tracker_changes_no_random_number(make_run, points, monkeypatch):
    import torch

    monkeypatch.setattr(Points, "write", lambda *_: torch.rand(3))
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with callback_context(run := make_run()):
        run.callbacks.tell("on_log", "sft", 1, {"loss": 1.0})
    assert torch.equal(torch.rand(2), expected)


def test_tensorboard_reads_back_what_was_written_before_and_after_a_kill(make_run):
    pytest.importorskip("tensorboard", reason="needs tensorboard: `pip install tensorboard`")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in ((1, 10), (10, 20)):
        with callback_context(run := make_run(report_to=["tensorboard"])):
            for step in steps:
                run.callbacks.tell("on_log", "sft", step, {"loss": 1 / step})
            run.callbacks.tell("on_evaluate", "grpo", steps[0], {"test/success": 0.5})
    found = EventAccumulator(str(run.path("tensorboard")))
    found.Reload()
    assert {tag: [event.step for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]} == {
        "sft/loss": [1, 10, 20], "grpo/test/success": [1, 10],
    }  # fmt: skip
    assert [event.value for event in found.Scalars("sft/loss")] == pytest.approx([1.0, 0.1, 0.05])
    assert len(found.Tags()["tensors"]) == 1, "the settings stand there once"


@pytest.fixture
def wandb(monkeypatch):
    """A stand-in for W&B, which notes how it is called."""
    module, calls = ModuleType("wandb"), []
    run = SimpleNamespace(
        define_metric=lambda *names, **how: calls.append(("define", names, how)),
        log=lambda values: calls.append(("log", values)),
        finish=lambda **how: calls.append(("finish", how)),
    )
    module.init = lambda **given: calls.append(("init", given)) or run
    module.Settings = lambda **given: given
    monkeypatch.setitem(sys.modules, "wandb", module)
    return calls


def test_wandb_gets_one_id_and_an_axis_of_steps_for_every_stage(make_run, wandb, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    for step in (1, 2):
        with callback_context(run := make_run(report_to=["wandb"]), (), tmp_path):
            run.callbacks.tell("on_log", "sft", step, {"loss": 0.5})
    inits = [given for name, given in ((call[0], call[-1]) for call in wandb) if name == "init"]
    assert inits[0]["id"] == inits[1]["id"] == read_object(run.path("trackers.json"))["wandb"]["id"]
    assert {key: inits[0][key] for key in ("project", "name", "group", "resume")} == {
        "project": "colbench-gym", "name": f"{tmp_path.name}/run", "group": tmp_path.name, "resume": "allow",
    }  # fmt: skip
    assert inits[0]["config"] == run.config.settings() and inits[0]["settings"] == {"console": "off"}
    assert wandb[1:5] == [
        ("define", ("sft/step",), {"hidden": True}), ("define", ("sft/*",), {"step_metric": "sft/step"}),
        ("log", {"sft/step": 1, "sft/loss": 0.5}), ("finish", {"exit_code": 0}),
    ]  # fmt: skip
    with pytest.raises(KeyError), callback_context(make_run(report_to=["wandb"])):
        raise KeyError
    assert wandb[-1] == ("finish", {"exit_code": 1})


@pytest.fixture
def mlflow(monkeypatch):
    """A stand-in for MLflow, with runs in memory."""

    class Client:
        experiments, runs, statuses, where = {}, defaultdict(list), defaultdict(list), []

        def __init__(self, tracking_uri):
            self.where.append(tracking_uri)

        def get_experiment_by_name(self, name):
            return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

        def create_experiment(self, name):
            return self.experiments.setdefault(name, str(len(self.experiments)))

        def create_run(self, experiment, run_name, tags):
            self.runs["id"] = [(experiment, run_name, tags)]
            return SimpleNamespace(info=SimpleNamespace(run_id="id"))

        def log_batch(self, run_id, metrics=(), params=()):
            assert len(params) <= 100
            self.runs[run_id] += [*metrics, *params]

        def update_run(self, run_id, status):
            self.statuses[run_id].append(status)

        def set_terminated(self, run_id, status):
            self.statuses[run_id].append(status)

    package, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    package.MlflowClient = Client
    entities.Metric = lambda key, value, timestamp, step: ("metric", key, value, step)
    entities.Param = lambda key, value: ("param", key, value)
    for name, module in (("mlflow", package), ("mlflow.entities", entities)):
        monkeypatch.setitem(sys.modules, name, module)
    return Client


def test_mlflow_opens_its_run_again_and_keeps_it_where_the_runs_are(make_run, mlflow, tmp_path, monkeypatch):
    for variable in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(variable, raising=False)
    (prepared,) = make_trackers(["mlflow"], tmp_path)
    prepared.prepare()
    assert mlflow.experiments == {tmp_path.name: "0"} and not mlflow.runs
    with pytest.raises(ZeroDivisionError), callback_context(run := make_run(report_to=["mlflow"]), (), tmp_path):
        run.callbacks.tell("on_log", "sft", 10, {"loss": 0.5})
        raise ZeroDivisionError
    with callback_context(run := make_run(report_to=["mlflow"]), (), tmp_path):
        run.callbacks.tell("on_log", "sft", 10, {"loss": 0.5})
        run.callbacks.tell("on_log", "sft", 20, {"loss": 0.25})
    first, *written = mlflow.runs["id"]
    assert first == ("0", f"{tmp_path.name}/run", {"group": tmp_path.name}) and mlflow.experiments == {tmp_path.name: "0"}
    assert [entry for entry in written if entry[0] == "metric"] == [
        ("metric", "sft/loss", 0.5, 10),
        ("metric", "sft/loss", 0.25, 20),
    ]
    assert ("param", "algorithm", "sweet") in written
    assert sum(entry[:2] == ("param", "seed") for entry in written) == 1, "settings are written once: MLflow refuses others"
    assert mlflow.where[0] == f"sqlite:///{tmp_path}/mlflow.db" and mlflow.statuses["id"] == ["FAILED", "RUNNING", "FINISHED"]


def test_settings_say_where_the_servers_are(make_run, mlflow, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    with callback_context(run := make_run(report_to=["mlflow"])):
        pass
    assert mlflow.where == ["http://127.0.0.1:1"] and [*mlflow.experiments] == ["mine"]
    assert "127.0.0.1:1" not in json.dumps(read_object(run.path("trackers.json"))), "an address may hold a password"
