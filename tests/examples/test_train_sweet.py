"""SWEET-RL from Python, which trains and reads its own results; and GRPO in TRL with credit per turn."""

from __future__ import annotations

import json

import pytest

from examples import train_sweet, trl_turn_credit
from sweetrl_agent.config.packaged import FOLDER
from tests.words import words


def test_sweet_from_python_reads_its_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = {
        "sft_dialogues": 200, "sft_epochs": 2, "num_tasks": 10, "sweet.num_states": 4, "sweet.num_candidates": 4, "min_best": -1, "eval_tasks": 4, "threads": 1,
    }  # fmt: skip
    assert train_sweet.main(words(sizes, output="run")) == 0
    said = capsys.readouterr().out
    assert "of 4 test tasks" in said and "--- initial\nuser: " in said and "--- trained\nuser: " in said


def test_the_policy_is_evaluated_as_it_was_trained_without_a_system_prompt(tmp_path):
    score = trl_turn_credit.success(FOLDER, tmp_path, f"{trl_turn_credit.TEST.removesuffix('[:300]')}[:60]", 0)
    assert score["n"] == 60 and score["success"] > 0  # 10% of the package's policy; with instructions that it has never read, 0


@pytest.mark.filterwarnings("ignore")  # of TRL
def test_grpo_in_trl_has_both_arms_and_goes_on_where_it_was(tmp_path, capsys):
    words = ["--seeds", "0", "--steps", "1", "--dialogues", "4", "--test", "embedded:test[:2]", "--output", str(tmp_path)]
    assert trl_turn_credit.main(words) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert [*results] == ["grpo 0", "grpo with turn credit 0"] and all(one["n"] == 2 for one in results.values())
    results["grpo 0"]["success"] = 0.75
    (tmp_path / "results.json").write_text(json.dumps(results))
    capsys.readouterr()
    assert trl_turn_credit.main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3 and "0.75" in said[0] and said[2].startswith("grpo with turn credit minus grpo: ")
    assert {*json.loads((tmp_path / "comparison.json").read_text())["algorithms"]} == {"grpo", "grpo with turn credit"}
