"""The offline baselines end to end, on the number game of `examples.own_environment`."""

from __future__ import annotations

import json

import pytest

from colbench_gym.files import read_rows, write_rows
from sweetrl_agent import compare, evaluate, train

from .behaviour import guesses

BASELINES = ("bc", "filtered_bc", "mc", "ilql")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Settings of a small run on the number game, and a file of behaviour data."""
    file = tmp_path_factory.mktemp("behaviour") / "data.jsonl"
    write_rows(file, [episode.to_row() for episode in guesses(64)])
    given = {
        "env": "examples.own_environment:Guess-v0", "demonstrations": file, "sft_dialogues": 64, "tiny_hidden_size": 32, "tiny_layers": 1,
        "tiny_vocab_size": 300, "max_new_tokens": 8, "tasks": "seeds:0-7", "test_tasks": "seeds:100-103", "threads": 1,
        "filtered_bc.epochs": 1.0, "mc.epochs": 1.0, "ilql.epochs": 1.0,
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in given.items()]


def test_they_are_compared_and_evaluated(words, tmp_path):
    folder = tmp_path / "compared"
    assert compare.main([*words, "--algorithms", *BASELINES, "--seeds=1", f"--output={folder}"]) == 0
    results = json.loads((folder / "results.json").read_text())["algorithms"]
    assert tuple(results) == BASELINES and all(results[name]["test"]["n"] == 4 for name in BASELINES)
    trained = {row["stage"] for row in read_rows(folder / "seed_0" / "metrics.jsonl")}
    assert trained == {"sft", "filtered_bc", "mc", "ilql"}
    again = tmp_path / "again"
    assert evaluate.main([f"{folder}/seed_0:ilql", f"{folder}/seed_0:bc", f"--output={again}", "--threads=1"]) == 0
    played = read_rows(again / "evaluation.jsonl")
    assert [row["agent"] for row in played] == ["seed_0/ilql"] * 4 + ["seed_0/bc"] * 4
    assert all(row["turns"] == sum(said["role"] == "assistant" for said in row["dialogue_history"]) for row in played)


def test_a_run_without_behaviour_data_is_refused_before_anything_runs(tmp_path, tiny_model_folder, capsys):
    given = [
        "--env=examples.own_environment:Guess-v0", f"--model={tiny_model_folder}", "--algorithm=mc", f"--output={tmp_path / 'run'}",
    ]  # fmt: skip
    assert train.main(given) == 2
    assert capsys.readouterr().err.strip() == (
        "error: 'mc' requires an environment with behaviour data with rewards (`behaviour_episodes` of its record, or episodes by "
        "`--demonstrations FILE`), which examples.own_environment:Guess-v0 does not have."
    )
    assert not (tmp_path / "run").exists()


def test_bare_messages_are_refused_in_one_line(words, tmp_path, capsys):
    file = tmp_path / "bare.jsonl"
    write_rows(file, [{"messages": episode.messages} for episode in guesses(16)])
    others = [word for word in words if not word.startswith("--demonstrations=")]
    given = [*others, f"--demonstrations={file}", "--algorithm=ilql", f"--output={tmp_path / 'run'}"]
    assert train.main(given) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(
        f"error: '{file}', row 1: expected an episode with a reward for every turn, as rows of trajectories.jsonl have, got "
    )
    assert said.endswith("; bare messages are enough for `bc` only.")
