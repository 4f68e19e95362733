"""Entries of the leaderboard: what a comparison writes, and what is refused."""

from __future__ import annotations

import copy
import json
import shlex
from pathlib import Path

import pytest

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.command_line import CommandError
from sweetrl_agent.evaluation.comparison_job import parse, run
from sweetrl_agent.evaluation.submission import BUDGET, command, entry, refuse_entry, refuse_submission

LEADERBOARD = Path(__file__).parents[3] / "benchmarks" / "leaderboard"


def a_score(success, low, high, seeds=3, **metric):
    return {
        "success": success, "ci95": {"success": [low, high], **{name: [value - 1, value + 1] for name, value in metric.items()}},
        "n": 20, "seeds": seeds, **metric,
    }  # fmt: skip


def results(**metric):
    costs = dict.fromkeys(BUDGET, 7)
    return {
        "metric": next(iter(metric), "tests_passed"),
        "algorithms": {name: {"test": a_score(0.25, 0.2, 0.5, **metric)} for name in ("initial", "grpo")},
        "ledger": {
            str(seed): {"initial": dict.fromkeys(BUDGET, 0), "grpo": {**costs, "dialogues": seed}} for seed in (1, 2, 4)
        },
        "tasks": {"train": "embedded:train", "test": "embedded:test"},
        "versions": {"python": "3.11", "git_commit": "abc"},
    }


WORDS = [
    "--algorithms",
    "initial",
    "grpo",
    "--seeds",
    "3",
    "--num_tasks",
    "20",
    "--grpo.clip",
    "0.1",
    "--grpo.anneal",
    "--output",
    "runs/x",
    "--workers",
    "2",
]


def test_an_entry_has_scores_budgets_and_what_runs_it_again():
    given, config = parse(WORDS)
    row = json.loads(json.dumps(entry(results(), given, config)))
    refuse_entry(row)
    assert row["metric"] == "success" and row["environment"] == "ColBench-Backend-v0" and row["commit"] == "abc"
    assert row["algorithms"]["grpo"]["budget"] == {
        "dialogues": 2,
        "generated_tokens": 7,
        "scored_tokens": 7,
        "trained_tokens": 7,
    }
    assert row["algorithms"]["grpo"]["title"] == "GRPO"
    assert row["algorithms"]["grpo"]["scores"]["test"] == {"n": 20, "seeds": 3, "success": {"mean": 0.25, "ci95": [0.2, 0.5]}}


@pytest.mark.parametrize(
    "words",
    [
        ["--env", "ColBench-Split-v0", "--env_kwargs", '{"alone": "first"}', "--algorithms", "initial", "grpo", "--seeds", "3"],
        ["--demonstrations", "embedded:train[:40]", "--algorithms", "initial", "grpo", "--seeds", "3"],
        ["--model", "hub/name", "--algorithms", "initial", "grpo", "--seeds", "3"],
        ["--algorithms", "examples.own_algorithm:Mine", "initial", "--seeds", "3", "--mine.iterations", "7"],
    ],
)
def test_the_command_has_that_on_which_defaults_depend(words):
    given, config = parse(words)
    again = parse(shlex.split(command(given, config))[3:])
    assert again[1].settings() == config.settings() and words[1] in shlex.split(command(given, config))


def test_the_command_has_the_settings_that_are_no_defaults():
    given, config = parse(WORDS)
    words = shlex.split(command(given, config))
    assert words[:3] == ["python", "-m", "sweetrl_agent.compare"]
    again = parse(words[3:])
    assert again[0].algorithms == given.algorithms and again[0].seeds == given.seeds
    assert again[1].settings() == config.settings()
    assert "--grpo.clip" in words and "--grpo.epochs" not in words and "--workers" not in words and "runs/x" not in words


@pytest.mark.parametrize(
    ("words", "seeds"),
    [(["--seed", "4", "--seeds", "3"], [4, 5, 6]), (["--seeds", "3"], [3]), (["--seeds", "2", "5", "9"], [2, 5, 9])],
)
def test_the_command_runs_the_same_seeds(words, seeds):
    assert parse(shlex.split(command(*parse(["--algorithms", "initial", *words])))[3:])[0].seeds == seeds


@pytest.mark.parametrize(
    ("seeds", "commit", "says"),
    [([0, 1], "abc", "--seeds 3"), ([0, 1, 2], "abc-dirty", "commit them"), ([0, 1, 2], "", "clone the repository")],
)
def test_what_can_have_no_entry_is_refused_before_it_runs(seeds, commit, says, monkeypatch, tmp_path, capsys):
    with pytest.raises(ValueError, match=says):
        refuse_submission(seeds, commit)
    monkeypatch.setattr("sweetrl_agent.evaluation.comparison_job.git_commit", lambda file: commit)
    words = ["--algorithms", "initial", "--seeds", *map(str, seeds), "--submit", str(tmp_path / "e.json")]
    with pytest.raises(CommandError, match=says):
        run([*words, "--output", str(tmp_path / "run"), "--dry_run"], {}, None)
    refuse_submission([0, 1, 2], "abc")


def test_a_games_metric_is_its_return():
    given, config = parse(["--env", "LMRL-Maze-v0", "--algorithms", "initial", "grpo", "--seeds", "3"])
    row = entry(results(**{"return": -7.0}), given, config)
    refuse_entry(row)
    assert row["metric"] == "return" and row["algorithms"]["grpo"]["scores"]["test"]["return"] == {
        "mean": -7.0,
        "ci95": [-8.0, -6.0],
    }
    assert "--env LMRL-Maze-v0" in row["command"] and row["command"].count("--env ") == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.pop("command"), "'command'"),
        (lambda r: r.update(commit="abc-dirty"), "abc-dirty"),
        (lambda r: r.update(commit=""), "'commit'"),
        (lambda r: r.update(schema=2), "schema 1"),
        (lambda r: r["algorithms"]["grpo"]["scores"]["test"].update(seeds=2), "3 seeds, got 20 and 2"),
        (lambda r: r["algorithms"]["grpo"]["scores"]["test"]["success"].update(mean=0.6), "'grpo' on 'test', 'success'"),
        (lambda r: r["algorithms"]["grpo"]["scores"]["test"]["success"].update(mean=float("nan")), "nan"),
        (lambda r: r["algorithms"]["grpo"]["budget"].pop("dialogues"), "budget"),
        (lambda r: r["algorithms"]["grpo"]["budget"].update(dialogues=-1), "budget"),
    ],
)
def test_what_is_not_complete_or_cannot_be_is_refused(change, says):
    row = copy.deepcopy(entry(results(), *parse(WORDS)))
    refuse_entry(row)
    change(row)
    with pytest.raises(ColBenchError, match=says):
        refuse_entry(row)
    with pytest.raises(ColBenchError, match="mapping"):
        refuse_entry([])


def test_all_entries_of_the_repository_hold():
    for path in sorted(LEADERBOARD.glob("*.json")):
        refuse_entry(json.loads(path.read_text()))
