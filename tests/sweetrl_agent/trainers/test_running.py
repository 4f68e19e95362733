"""The clock of training stages: the time of every logged step, apart from the metrics, and continued where training is resumed."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import pytest

from colbench_gym.files import read_rows
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.trainers import running
from sweetrl_agent.trainers.running import StageClock, atomic_folder, save_model
from sweetrl_agent.trainers.stage_training import StageProgress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = SimpleNamespace(time=100.0)
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: now.time))
    return now


def test_a_clock_goes_on_from_the_last_row_that_has_a_time(clock):
    new, resumed = StageClock([]), StageClock([{SECONDS: 2.0}, {SECONDS: 7.5}, {"loss": 1.0}])
    clock.time += 1.25
    assert (new.seconds(), resumed.seconds()) == (1.25, 8.75)


def test_every_logged_step_gets_its_time(clock):
    progress, state = StageProgress("sft"), SimpleNamespace(log_history=[], max_steps=2, global_step=0)
    progress.on_train_begin(None, state, None)
    for seconds in (3.0, 4.0):
        clock.time += seconds
        state.log_history.append({"loss": 1.0})
        progress.on_log(None, state, None, {"loss": 1.0})
    progress.on_train_end(None, state, None)
    assert [entry[SECONDS] for entry in state.log_history] == [3.0, 7.0]
    again = StageProgress("sft")
    again.on_train_begin(None, state, None)  # resumed from a checkpoint, which holds the history
    clock.time += 1.0
    state.log_history.append({"loss": 1.0})
    again.on_log(None, state, None, {"loss": 1.0})
    again.on_train_end(None, state, None)
    assert state.log_history[-1][SECONDS] == 8.0


def test_times_have_a_file_of_their_own(make_run):
    run = make_run()
    for seconds in (1.5, 2.5):  # a stage that is run again replaces its rows
        run.add_metrics(
            "sft", [{"stage": "sft", "step": 1, "loss": 0.5, SECONDS: seconds}, {"stage": "sft", "step": 2, "loss": 0.25}]
        )
    run.add_metrics("grpo", [{"stage": "grpo", "step": 1, "return": 0.5, SECONDS: 9.0}])
    assert [SECONDS in row for row in read_rows(run.path("metrics.jsonl"))] == [False] * 3
    assert read_rows(run.path("timings.jsonl")) == [
        {"stage": "sft", "step": 1, SECONDS: 2.5}, {"stage": "grpo", "step": 1, SECONDS: 9.0},
    ]  # fmt: skip


def test_a_folder_is_replaced_at_the_end_and_kept_if_writing_fails(tmp_path):
    folder = tmp_path / "initial"
    folder.mkdir()
    (folder / "old").touch()
    with pytest.raises(KeyboardInterrupt), atomic_folder(folder) as beside:
        beside.mkdir()
        (beside / "torn").touch()
        raise KeyboardInterrupt
    assert [path.name for path in folder.iterdir()] == ["old"]
    with atomic_folder(folder) as beside:
        beside.mkdir()
        (beside / "new").touch()
    assert [path.name for path in folder.iterdir()] == ["new"] and not beside.exists()


def test_a_kill_while_checkpoints_are_removed_leaves_none_that_lacks_files(tmp_path, monkeypatch):
    """The old folder is moved away whole before any of its files is removed."""
    folder = tmp_path / "initial"
    (folder / "checkpoints" / "checkpoint-10").mkdir(parents=True)
    remove = running.shutil.rmtree

    def killed(path, **given):
        if path.exists():
            raise KeyboardInterrupt
        remove(path, **given)

    monkeypatch.setattr(running.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt), atomic_folder(folder) as beside:
        beside.mkdir()
        (beside / "new").touch()
    assert [path.name for path in folder.iterdir()] == ["new"]
    monkeypatch.undo()
    with atomic_folder(folder) as beside:
        beside.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["initial"] and not list(folder.iterdir())


def test_an_adapters_modules_are_written_in_one_order(tmp_path):
    def saved(names, folder):
        folder.mkdir(exist_ok=True)
        (folder / "adapter_config.json").write_text(json.dumps({"target_modules": names, "r": 4}))

    for number, names in enumerate((["v_proj", "q_proj"], ["q_proj", "v_proj"])):
        model, tokenizer = SimpleNamespace(save_pretrained=partial(saved, names)), SimpleNamespace(save_pretrained=str)
        save_model(model, tokenizer, tmp_path / str(number))
    written = [(tmp_path / name / "adapter_config.json").read_bytes() for name in "01"]
    assert written[0] == written[1] and json.loads(written[0]) == {"target_modules": ["q_proj", "v_proj"], "r": 4}
