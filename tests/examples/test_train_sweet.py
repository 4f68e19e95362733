"""SWEET-RL from Python: trains, and reads its own results."""

from __future__ import annotations

from examples import train_sweet
from tests.words import words


def test_sweet_from_python_reads_its_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = {
        "sft_dialogues": 200, "sft_epochs": 2, "num_tasks": 10, "sweet.num_states": 4, "sweet.num_candidates": 4, "min_best": -1, "eval_tasks": 4, "threads": 1,
    }  # fmt: skip
    assert train_sweet.main(words(sizes, output="run")) == 0
    said = capsys.readouterr().out
    assert "of 4 test tasks" in said and "--- initial\nuser: " in said and "--- trained\nuser: " in said
