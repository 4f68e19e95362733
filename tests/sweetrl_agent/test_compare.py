"""The comparison end to end on a very small setting, what it refuses, and that its numbers are those of the rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sweetrl_agent import compare, train
from sweetrl_agent.comparison import compare_scores, tables
from sweetrl_agent.files import read_rows, write_rows

SETTINGS = {
    "imitation_dialogues": 64, "imitation_epochs": 1, "imitation_batch": 16, "tiny_hidden_size": 32, "tiny_layers": 1,
    "tiny_vocab_size": 600, "num_tasks": 4, "trajectories_per_task": 2, "num_states": 4, "num_candidates": 3,
    "eval_tasks": 4, "shown_dialogues": 2, "max_new_tokens": 16, "max_turns": 3, "min_best": 0.0, "generation_batch": 4,
    "critic_batch": 2, "critic_micro_batch": 2, "rft_batch": 4, "mtdpo_batch": 2, "sandbox": "embedded", "threads": 1,
}  # fmt: skip
ALGORITHMS = ("zero_shot", "rft", "mtdpo", "sweet")


def _arguments(folder, **changes):
    settings = {**SETTINGS, "output": folder, **changes}
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def _begin(folder, seed):
    """Collect, and let every first episode pass half of its tests: a model this small never does, and without there are no pairs."""
    for stage in ("imitate", "collect"):
        assert train.main([*_arguments(folder / f"seed_{seed}", seed=seed), "--stage", stage]) == 0
    path = folder / f"seed_{seed}" / "trajectories.jsonl"
    rows = read_rows(path)
    for row in rows:
        row["metrics"]["tests_passed"] = 0.5 if row["episode"] == 0 else 0.0
    write_rows(path, rows)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a comparison of two seeds."""
    folder = tmp_path_factory.mktemp("compare")
    for seed in (0, 1):
        _begin(folder, seed)
    assert compare.main([*_arguments(folder), "--algorithms", *ALGORITHMS, "--seeds", "2"]) == 0
    return folder


def test_every_algorithm_is_measured_on_the_same_tasks_and_seeds(finished):
    results = json.loads((finished / "results.json").read_text())
    assert list(results["algorithms"]) == list(ALGORITHMS)
    for splits in results["algorithms"].values():
        assert {split: (score["n"], score["seeds"]) for split, score in splits.items()} == {"test": (4, 2), "unseen": (4, 2)}
    assert len(results["paired"]) == 2 * 6
    for seed in (0, 1):
        rows = read_rows(finished / f"seed_{seed}" / "evaluation.jsonl")
        asked = {name: [(row["split"], row["task_id"]) for row in rows if row["agent"] == name] for name in ALGORITHMS}
        assert len({tuple(tasks) for tasks in asked.values()}) == 1


def test_the_algorithms_start_alike_and_end_unlike(finished):
    """One start for all of a seed; every algorithm's own training has moved its weights."""
    folder = finished / "seed_0"
    weights = {
        name: (folder / name / "model.safetensors").read_bytes() for name in ("start", "policy_rft", "policy_mtdpo", "policy")
    }
    assert len(set(weights.values())) == 4


def test_the_ledger_counts_what_is_in_the_files(finished):
    ledger = json.loads((finished / "results.json").read_text())["ledger"]["1"]
    turns = sum(len(row["turns"]) for row in read_rows(finished / "seed_1" / "trajectories.jsonl"))
    assert ledger["zero_shot"] == {"environment_turns": 0, "generated_tokens": 0, "candidates": 0, "seconds": 0}
    assert [ledger[name]["environment_turns"] for name in ALGORITHMS] == [0, turns, turns, turns]
    assert ledger["sweet"]["candidates"] == 4 * 3 and ledger["rft"]["candidates"] == 0


def test_what_is_done_is_not_done_again(finished, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")}
    assert compare.main([*_arguments(finished), "--algorithms", *ALGORITHMS, "--seeds", "2"]) == 0
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")} == before
    assert "SWEET-RL - Multi-turn DPO" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--algorithms", "ppo"], "`algorithms` must be of ('zero_shot', "),
        (["--algorithms", "rft", "rft"], "`algorithms` must name each once"),
        (["--seeds", "0"], "`seeds` must be at least 1, got 0."),
        (["--seed_count", "3"], "Unknown settings: seed_count."),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, capsys, changes, message):
    assert compare.main([*_arguments(tmp_path / "run"), *changes]) == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_algorithm_that_needs_what_is_not_there_is_refused(monkeypatch):
    from colbench_gym.envs.backend import BackendEnv
    from sweetrl_agent.algorithms.registry import missing_capabilities

    assert missing_capabilities("sweet", BackendEnv) == [] and missing_capabilities("sweet", object) == ["hidden"]


def _row(agent, task, success, outcome="answered", episode=0):
    return {"agent": agent, "split": "test", "task_id": task, "episode": episode, "outcome": outcome, "success": success,
            "tests_passed": success and success / 2}  # fmt: skip


def test_scores_are_means_of_the_episodes_and_void_tasks_are_left_out_for_all():
    rows = [
        _row("a", "x", 1), _row("a", "x", 0, episode=1), _row("a", "y", 1), _row("a", "z", 1),
        _row("b", "x", 1), _row("b", "x", 1, episode=1), _row("b", "y", 0), _row("b", "z", None, "void"),
    ]  # fmt: skip
    found = tables({0: rows, 1: rows}, "test", "success")
    assert {name: scores.tolist() for name, scores in found.items()} == {"a": [[0.5, 1.0]] * 2, "b": [[1.0, 0.0]] * 2}


def test_a_real_difference_is_seen_and_the_pairing_is_by_task_and_seed():
    rng = np.random.default_rng(0)
    evaluations = {}
    for seed in range(4):
        hard = rng.random(200)
        evaluations[seed] = [
            _row(name, str(task), int(hard[task] < chance))
            for name, chance in (("worse", 0.3), ("better", 0.45))
            for task in range(200)
        ]
    (pair,) = compare_scores(evaluations)["paired"]
    assert (pair["a"], pair["b"], pair["seeds_ahead"]) == ("better", "worse", 4)
    assert pair["difference"] == pytest.approx(0.15, abs=0.04) and pair["ci95"][0] > 0.08 and pair["p_holm"] < 0.001
