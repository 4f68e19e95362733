"""Tasks of one's own: they can be solved, and a tiny model trains on them."""

from __future__ import annotations

import json

import gymnasium as gym

import colbench_gym  # noqa: F401  (registers the environment)
from colbench_gym.files import write_rows
from examples import own_tasks
from tests.examples.test_examples import SHORT
from tests.words import with_defaults


def test_a_tiny_model_trains_on_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert own_tasks.main(with_defaults(SHORT, ["--output", "run"])) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["algorithm"] == "grpo" and results["metric"] == "tests_passed" and results["trained"]["test"]["n"] == 5
    assert results["trained"]["test"]["void"] == 0


def test_the_references_of_own_tasks_pass_their_tests_and_differ(tmp_path):
    rows = own_tasks.rows(5)
    write_rows(tmp_path / "tasks.jsonl", rows)
    assert len({row["ground_truth"] for row in rows}) == 5
    env = gym.make("ColBench-Backend-v0", tasks=str(tmp_path / "tasks.jsonl"), sandbox="embedded")
    env.reset(options={"task_id": "tasks/0"})
    heard = {question: env.step(question)[4]["messages"][-1]["content"] for question in own_tasks.QUESTIONS}
    assert env.step(own_tasks.answer(heard))[1] == 1.0
    env.reset(options={"task_id": "tasks/1"})
    assert env.step(own_tasks.answer({}))[1] == 0.0
    env.close()
