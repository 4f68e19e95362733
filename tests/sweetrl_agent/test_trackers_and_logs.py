"""`--report_to`, `--callbacks` and `--log_level` of the commands, and what `run_train` leaves alone."""

from __future__ import annotations

import importlib.util
import logging

import pytest

from colbench_gym.files import read_rows
from colbench_gym.stage_records import StageRecords
from sandboxes.extras import pip_install
from sweetrl_agent import Callback, StopTraining, compare, run_train, train
from sweetrl_agent.trainers.trackers import Tracker
from tests.words import words

SETTINGS = {
    "env": "examples.own_environment:Guess-v0", "algorithm": "grpo", "max_new_tokens": 4, "grpo.iterations": 2, "grpo.tasks": 2, "grpo.group": 2,
    "threads": 1, "eval_tasks": 3, "eval_every": 1, "eval_every_tasks": 2,
}  # fmt: skip


def _words(model, output, **more):
    return words({**SETTINGS, "model": model, "output": output, **more})


@pytest.mark.parametrize("main", [train.main, compare.main], ids=["train", "compare"])
@pytest.mark.parametrize(("given", "text"), [
    (["--report_to", "neptune"], "`report_to` must be one of ('tensorboard', 'wandb', 'mlflow', 'none'), got 'neptune'."),
    (["--report_to", "none", "wandb"], "`report_to` must be different trackers, or 'none' alone, got ['none', 'wandb']."),
    (["--report_to", "wandb", "wandb"], "`report_to` must be different trackers, or 'none' alone, got ['wandb', 'wandb']."),
    (["--log_level", "loud"], "`log_level` must be one of ('debug', 'info', 'warning', 'error'), got 'loud'."),
    (["--callbacks", "examples.own_callback:main"], "`callbacks` must be classes or objects of `sweetrl_agent.Callback` or"),
    (["--callbacks", "nowhere:X"], "`callbacks` names a module that does not exist: 'nowhere'."),
])  # fmt: skip
def test_what_is_refused_before_anything_runs(main, given, text, tmp_path, capsys):
    assert main([*given, "--output", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {text}") and not (tmp_path / "run").exists()


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_tracker_that_is_not_installed_is_named_with_its_command(tiny_model_folder, tmp_path, capsys, monkeypatch, is_folder):
    """W&B leaves a folder of its name behind, which Python takes for a package without files."""
    real = importlib.util.find_spec

    def find(name, package=None):
        if name != "wandb":
            return real(name, package)
        spec = importlib.util.spec_from_loader(name, None, is_package=True)
        spec.submodule_search_locations = [str(tmp_path)]
        return spec if is_folder else None

    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert train.main([*_words(tiny_model_folder, tmp_path / "run"), "--report_to", "wandb"]) == 2
    assert capsys.readouterr().err == f"error: This machine lacks wandb (`{pip_install('[trackers]')}`).\n"
    assert not (tmp_path / "run" / "grpo").exists()


class Seen(Tracker):
    """A tracker in memory."""

    name, points, opened = "seen", {}, []

    def open(self, run):
        self.opened.append((self.run_name, self.group))

    def write(self, stage, step, values):
        self.points.setdefault(self.run_name, []).extend((f"{stage}/{name}", step) for name in values)

    def close(self, error):
        assert error is None


@pytest.fixture
def seen(monkeypatch):
    """`Seen`, opened for every run."""
    monkeypatch.setattr("sweetrl_agent.trainers.callbacks.make_trackers", lambda names, root: [Seen(root)])
    Seen.points, Seen.opened = {}, []
    return Seen


def test_a_whole_run_and_its_end(tiny_model_folder, tmp_path, seen, capsys):
    words = _words(tiny_model_folder, tmp_path / "run")
    assert train.main(words) == 0
    assert "return" in capsys.readouterr().out
    names = {name for name, _ in seen.points["run"]}
    assert names >= {
        "grpo/return", "grpo/loss", "grpo/test/success", "grpo/test/return_high", "grpo/seconds", "evaluate/test/success", "evaluate/test/n",
        "evaluate/test/return_low", "evaluate_initial/test/success", "evaluate/peak_mib",
    }  # fmt: skip
    assert [step for name, step in seen.points["run"] if name == "grpo/test/success"] == [1, 2]
    assert len(seen.points["run"]) == len({*seen.points["run"]})
    before = list(seen.points["run"])
    assert train.main([*words, "--log_level", "warning"]) == 0
    out = capsys.readouterr().out
    assert "done before" not in out and "initial" in out, "results are shown at every level"
    assert [point for point in seen.points["run"] if point not in before] == []
    assert train.main(words) == 0
    assert "grpo: done before" in capsys.readouterr().out
    assert {name for row in read_rows(tmp_path / "run" / "metrics.jsonl") for name in row} >= {"test/success", "test/return"}


def test_every_seed_of_a_comparison_is_a_run_in_its_group(tiny_model_folder, tmp_path, seen):
    words = _words(tiny_model_folder, tmp_path / "all", algorithms=["initial", "grpo"], seeds=2)
    place = words.index("--algorithm")
    assert compare.main(words[:place] + words[place + 2 :]) == 0
    assert seen.opened == [("all/seed_0", "all"), ("all/seed_1", "all")]
    names = {name for name, _ in seen.points["all/seed_1"]}
    assert names >= {"grpo/return", "evaluate_grpo/test/success", "evaluate_initial/test/success"}


def test_callbacks_from_python_stop_the_training_and_the_root_logger_is_left_alone(tiny_model_folder, tmp_path):
    class Stops(Callback):
        stages = []

        def on_stage_begin(self, run, stage):
            self.stages.append(stage)

        def on_iteration(self, run, stage, step, episodes):
            assert {episode.task_id for episode in episodes} == {"0", "1"}
            raise StopTraining

    root = logging.getLogger()
    before = root.level, list(root.handlers), logging.getLogger("sweetrl_agent").level
    results = run_train(callbacks=[Stops()], model=tiny_model_folder, output=tmp_path / "run", **SETTINGS)
    assert before == (root.level, list(root.handlers), logging.getLogger("sweetrl_agent").level)
    assert [row["step"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")] == [1]
    assert Stops.stages == ["sft", "grpo", "evaluate", "report"] and results["trained"]["test"]["n"] == 3
    assert all(map(StageRecords(tmp_path / "run").is_done, ("grpo", "evaluate")))
