"""SWEET-RL by the oracles in a comparison, on candidates with a known order; and a critic that prefers nothing, which leaves the start as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from colbench_gym.files import read_rows, write_rows
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import family_of
from sweetrl_agent import compare, train
from tests.words import words

from .killed_runs import record_again

SETTINGS = {
    "sft_dialogues": 64, "sft_epochs": 1, "tiny_hidden_size": 32, "tiny_layers": 1, "tiny_vocab_size": 600,
    "num_tasks": 4, "trajectories_per_task": 2, "sweet.num_states": 4, "sweet.num_candidates": 3, "eval_tasks": 2, "shown_dialogues": 2,
    "max_new_tokens": 16, "max_turns": 3, "min_best": 0.0, "generation_batch": 4, "sweet.critic_batch": 2, "sweet.critic_micro_batch": 2,
    "sandbox": "embedded", "threads": 1, "seeds": 1, "credit_tasks": 0, "unseen_tasks": "",
}  # fmt: skip
#: Those that the main job does not have.
COMPARISON = ("seeds", "credit_tasks")


def _arguments(folder, *algorithms):
    return [*words(SETTINGS, output=folder), "--algorithms", *algorithms]


@pytest.fixture(scope="module")
def known_candidates(tmp_path_factory):
    """The folder of a comparison whose candidates are a useful question, one without a use, and a wrong answer, at every turn."""
    folder = tmp_path_factory.mktemp("oracles") / "run"
    own = folder / "seed_0"
    given = words({name: value for name, value in SETTINGS.items() if name not in COMPARISON}, output=own)
    for stage in ("sft", "collect"):
        assert train.main([*given, "--stage", stage]) == 0
    rows = read_rows(own / "trajectories.jsonl")
    for row in rows:
        row["metrics"]["tests_passed"] = 0.5 if row["episode"] == 0 else 0.0
    write_rows(own / "trajectories.jsonl", rows)
    record_again(own, "collect")
    for stage in ("pairs", "critic", "candidates"):
        assert train.main([*given, "--stage", stage]) == 0
    tasks = {task.id: task for task in load_tasks("embedded:train")}
    rows = read_rows(own / "candidates.jsonl")
    for row in rows:
        task = tasks[row["task_id"]]
        useful = next(fact for fact in task.hidden.facts if fact.is_special)
        useless = next(fact for i, fact in enumerate(task.hidden.facts) if i not in family_of(task)[0].relevant)
        row["texts"] = [useful.phrases[0], useless.phrases[0], "I WANT TO ANSWER:\nNone"]
    write_rows(own / "candidates.jsonl", rows)
    record_again(own, "candidates")
    return folder


@pytest.fixture
def begun(known_candidates, tmp_path):
    """A copy of that folder."""
    return Path(shutil.copytree(known_candidates, tmp_path / "run"))


def test_the_oracles_rank_candidates_and_train_actors(begun, capsys):
    assert compare.main(_arguments(begun, "initial", "exact", "marginal")) == 0
    results = json.loads((begun / "results.json").read_text())
    assert list(results["algorithms"]) == ["initial", "exact", "marginal"]
    for name in ("exact", "marginal"):
        own = begun / "seed_0" / name
        assert (own / "policy" / "model.safetensors").exists() and not (own / "critic").exists()
        turns = {(row["task_id"], row["episode"], row["turn"]): row["advantages"] for row in read_rows(own / "scores.jsonl")}
        firsts = [advantages for (_, _, turn), advantages in turns.items() if turn == 1]
        assert firsts and all(useful > useless >= wrong for useful, useless, wrong in firsts)
    assert "advantage of the task (oracle)" in capsys.readouterr().out


def test_a_critic_without_a_preference_leaves_the_start_as_it_is_and_the_comparison_says_so(begun, capsys):
    """The tiny start as judge says the same letter in both orders, which counts for nothing."""
    assert compare.main(_arguments(begun, "initial", "judge")) == 0
    results = json.loads((begun / "results.json").read_text())
    start, judge = (results["algorithms"][name]["test"] for name in ("initial", "judge"))
    assert judge["n"] == start["n"] == 2
    said = (
        "SWEET-RL, LLM as judge did not change the initial policy on seed 0. The critic 'judge' gives all candidates of every turn the same score, so there is "
        "nothing to train the actor on. Sample more turns by `--sweet.num_states`."
    )
    assert results["notes"] == [said]
    assert said in capsys.readouterr().out and not (begun / "seed_0" / "judge" / "policy").exists()
    episodes = {name: [row["dialogue_history"] for row in read_rows(begun / "seed_0" / "evaluation.jsonl") if row["agent"] == name]
                for name in ("initial", "judge")}  # fmt: skip
    assert episodes["judge"] == episodes["initial"]
