"""`python -m sweetrl_agent.credit` on a small run: critics, rules of algorithms, and what it refuses."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from colbench_gym.files import read_rows
from sweetrl_agent import credit
from sweetrl_agent.algorithms.critics import open_critic
from sweetrl_agent.bridges.turn_credit import credit_by
from sweetrl_agent.evaluation.recorded_run import open_recorded
from sweetrl_agent.rollouts.collection import iter_trajectories

#: Small amounts of what a rule's critic is trained on.
FIT = ["iterations", "1", "tasks", "2"]


def exported(run, tmp_path, capsys, *words):
    out = tmp_path / "credit.jsonl"
    assert credit.main([str(run), "--out", str(out), *words]) == 0, capsys.readouterr().err
    return read_rows(out), json.loads((tmp_path / "credit.jsonl.about.json").read_text())


def test_a_critics_credit_is_that_of_its_turns(small_run, tmp_path, capsys):
    before = {path: path.stat().st_mtime_ns for path in sorted(small_run.rglob("*"))}
    rows, about = exported(
        small_run, tmp_path, capsys, "--critic", "untrained", "--outcome", "none", "--center", "none", "--scale", "none"
    )
    printed = capsys.readouterr().out
    assert about["episodes"] == 9 and about["rows"] == len(rows) and about["critic"] == "untrained" and about["temperature"] > 0
    assert "rows of 9 dialogues" in printed and ("rank correlation" in printed) == (about["accuracy"] is not None)
    assert {path: path.stat().st_mtime_ns for path in sorted(small_run.rglob("*"))} == before  # the run is only read
    run = open_recorded(str(small_run), ["untrained"])
    with open_critic(run, "untrained") as critic:
        for episode in iter_trajectories(run):
            own = [row for row in rows if row["episode"] == episode.index and len(row["turn_credit"]) == len(episode.turns)]
            expected = credit_by(critic, episode.messages, episode.hidden, False)
            assert any(row["turn_credit"] == pytest.approx(expected) for row in own)
    for row in rows:
        assert {a for a, t in zip(row["advantages"], row["turn_ids"], strict=True) if t} <= {*row["turn_credit"]}
        assert not row["task_id"].startswith("embedded/") or "=" not in row["task_id"]


def test_the_gain_gives_no_credit_to_an_answer(small_run, tmp_path, capsys):
    rows, about = exported(small_run, tmp_path, capsys)
    assert about["critic"] == "gain" and about["scale"]["outcome"] == "standardized" and about["unit"] == "nats"
    assert all(row["turn_credit"][-1] is None and None not in row["turn_credit"][:-1] for row in rows)
    rows, about = exported(
        small_run, tmp_path, capsys, "--outcome", "none", "--scale", "none", "--center", "none", "--gain.gain_threshold", "0.5"
    )
    assert about["unit"] == "" and {credit for row in rows for credit in row["turn_credit"][:-1]} <= {0.0, 1.0}


@pytest.mark.parametrize("rule", ["grpo", "infopo", "igpo", "gigpo", "vineppo", "turn_ppo", "token_ppo", "archer"])
def test_the_rule_of_an_algorithm_gives_a_number_to_every_turn(small_run, tmp_path, capsys, rule):
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    more = [word for name, value in zip(FIT[::2], FIT[1::2], strict=True) for word in (f"--{rule}.{name}", value)]
    more += {"vineppo": ["--vineppo.k", "1"], "archer": ["--archer.warm_up", "0", "--archer.critic_steps", "2"]}.get(rule, [])
    rows, about = exported(folder, tmp_path, capsys, "--critic", rule, *more)
    assert about["scale"] == {"outcome": "none", "weight": 1.0, "center": "none", "scale": "none"}
    for row in rows:
        assert np.isfinite(row["turn_credit"]).all()
        for advantage, turn in zip(row["advantages"], row["turn_ids"], strict=True):
            assert advantage == (row["turn_credit"][turn - 1] if turn else 0.0)
    if rule == "grpo":  # the same number for all turns, relative to the task's other dialogues
        assert all(len({*row["turn_credit"]}) == 1 for row in rows)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--critic", "sweet"], "has no trained critic 'sweet'"),
        (["--critic", "rft"], "got 'rft'"),
        (["--critic", "swete"], "Did you mean 'sweet'"),
        (["--center", "mean"], "center"),
        (["--num_tasks", "3"], "num_tasks"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(small_run, tmp_path, capsys, words, says):
    assert credit.main([str(small_run), "--out", str(tmp_path / "x.jsonl"), *words]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not (tmp_path / "x.jsonl").exists()


def test_a_folder_without_dialogues_and_a_changed_file_are_refused(small_run, tmp_path, capsys):
    assert credit.main([str(tmp_path), "--out", str(tmp_path / "x.jsonl")]) == 2
    assert "no collected dialogues" in capsys.readouterr().err
    assert credit.main([str(small_run)]) == 2
    assert "--out FILE" in capsys.readouterr().err
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    rows = (folder / "trajectories.jsonl").read_text()
    (folder / "trajectories.jsonl").write_text(rows.replace('"reward": 0.0', '"reward": 1.0'))
    assert credit.main([str(folder), "--out", str(tmp_path / "x.jsonl")]) == 2
    assert "is not as stage 'collect' wrote it" in capsys.readouterr().err
