"""benchmarks/actor_curve.py: pairs by exact credit, preferences by their definitions, and an actor that learns from them."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest
import torch

from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import family_of
from sweetrl_agent.algorithms.sweet import dpo_arguments
from sweetrl_agent.config.packaged import FOLDER
from tests.benchmark_modules import loaded

TASKS = load_tasks("embedded:train")


@pytest.fixture(scope="module")
def actor_curve():
    yield from loaded("actor_curve")


def _topic(task, text):
    (found,) = [i for i, topic in enumerate(family_of(task)[0].topics) if text in topic.asks]
    return found


def test_a_question_about_a_wish_is_chosen_and_no_other(actor_curve):
    tasks = TASKS[:200:10]
    pairs = list(actor_curve.exact_pairs(tasks, 3, Random(0)))
    for task in tasks:
        wishes = {i for i, fact in enumerate(task.hidden.facts) if fact.is_special}
        own = [pairs.pop(0) for _ in range(3 * len(wishes))]
        assert {pair["prompt"][0]["content"] for pair in own} == {task.description}
        assert {_topic(task, pair["chosen"]) for pair in own} == wishes
        assert not {_topic(task, pair["rejected"]) for pair in own} & wishes
    assert pairs == []


@pytest.mark.parametrize(
    ("order", "cue", "decoy"),
    [("wrd", 1, 1), ("rwd", 0, 1), ("dwr", 1, 0), ("rdw", 0, 0)],
)
def test_what_the_request_hints_at_and_what_never_matters_are_told_apart(order, cue, decoy, actor_curve, monkeypatch):
    decoys = actor_curve.decoys_of(TASKS)
    assert {"weight", "logging"} <= decoys and not decoys & {"rounding", "tax"}
    tasks = TASKS[::150]
    asked = iter(tasks)

    def scored(model, prompt, texts):
        task = next(asked)
        topics, facts = family_of(task)[0].topics, task.hidden.facts
        assert [_topic(task, text) for text in texts] == list(range(len(topics)))
        kinds = [
            "w" if fact.is_special else "d" if topic.name in decoys else "r" for topic, fact in zip(topics, facts, strict=True)
        ]
        return [torch.full((2,), -10.0 * order.index(kind)) for kind in kinds]  # from the likeliest to the least likely

    monkeypatch.setattr(actor_curve, "candidate_log_probs", scored)
    chat = SimpleNamespace(prompt=lambda messages: [0], turns=lambda messages, texts: texts)
    found = actor_curve.preferences(None, chat, "", tasks, decoys)
    assert (found["cue"], found["decoy"]) == (cue, decoy)
    if order[0] != "r":  # topics that can be a wish and are none here count as relevant
        assert found["relevant"] == pytest.approx(float(order[0] == "w"), abs=0.01)


def test_an_actor_learns_from_exact_credit(actor_curve, make_run, capsys):
    run = make_run(model=str(FOLDER), sft_dialogues=0, lora=True, **{"gain.actor_by_turn": True})
    config = dpo_arguments(run, "sweet")
    config.learning_rate = 5e-3
    rows = actor_curve.curve(run, config, num_tasks=10, every=5, probed=10, per_wish=4)
    assert [row["tasks"] for row in rows] == [0, 5, 10, 15, 20] and rows[-1]["step"] == 20
    assert rows[-1]["relevant"] > rows[0]["relevant"] + 0.05 and capsys.readouterr().out.count("relevant") == len(rows)
