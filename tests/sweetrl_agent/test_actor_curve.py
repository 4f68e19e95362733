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
    asked = iter(task for task in tasks for _ in range(2))  # each with its hints and without

    def scored(model, prompt, texts):
        task = next(asked)
        if prompt == actor_curve.without_hints(task):
            return [torch.zeros(2) for _ in texts]
        topics, facts = family_of(task)[0].topics, task.hidden.facts
        assert [_topic(task, text) for text in texts] == list(range(len(topics)))
        kinds = [
            "w" if fact.is_special else "d" if topic.name in decoys else "r" for topic, fact in zip(topics, facts, strict=True)
        ]
        return [torch.full((2,), -10.0 * order.index(kind)) for kind in kinds]  # from the likeliest to the least likely

    monkeypatch.setattr(actor_curve, "candidate_log_probs", scored)
    chat = SimpleNamespace(prompt=lambda messages: messages[-1]["content"], turns=lambda messages, texts: texts)
    found = actor_curve.preferences(None, chat, "", tasks, decoys)
    assert (found["cue"], found["decoy"], found["read"], found["n"]) == (cue, decoy, cue, len(tasks))
    if order[0] != "r":  # topics that can be a wish and are none here count as relevant
        assert found["relevant"] == pytest.approx(float(order[0] == "w"), abs=0.01)


def test_an_actor_learns_from_exact_credit(actor_curve, make_run, capsys):
    run = make_run(model=str(FOLDER), sft_dialogues=0, lora=True, **{"gain.actor_by_turn": True})
    config = dpo_arguments(run, "sweet")
    config.learning_rate = 5e-3
    rows = actor_curve.curve(run, config, num_tasks=10, every=5, probed=10, per_wish=4)
    assert [row["tasks"] for row in rows] == [0, 5, 10, 15, 20] and rows[-1]["step"] == 20
    assert rows[-1]["relevant"] > rows[0]["relevant"] + 0.05 and capsys.readouterr().out.count("relevant") == len(rows)


def test_a_question_that_is_asked_whatever_the_request_hints_at_is_not_read(actor_curve, monkeypatch):
    """Wishes are likelier than other topics with hints and without: their order is no sign of reading."""
    task = TASKS[0]
    family, facts = family_of(task)[0], task.hidden.facts
    plain = actor_curve.without_hints(task)
    assert len(plain) < len(task.description) and not any(cue in plain for cue in family.cues)

    def scored(model, prompt, texts):
        hinted = 0.0 if prompt == plain else -0.5
        return [torch.full((2,), (-1.0 + hinted) if fact.is_special else -3.0) for fact in facts]

    monkeypatch.setattr(actor_curve, "candidate_log_probs", scored)
    chat = SimpleNamespace(prompt=lambda messages: messages[-1]["content"], turns=lambda messages, texts: texts)
    found = actor_curve.preferences(None, chat, "", [task], actor_curve.decoys_of(TASKS))
    assert (found["cue"], found["decoy"], found["read"]) == (1, 1, 0)


def test_the_policies_are_the_base_model_with_its_own_prompt_and_those_of_the_run(actor_curve, make_run, monkeypatch, capsys):
    run = make_run(model=str(FOLDER), sft_dialogues=4, eval_pretrained="example", system_prompt="brief", algorithm="gain")
    monkeypatch.setattr(actor_curve, "load_model", lambda path, base, settings, is_trained: torch.nn.Linear(1, 1))
    chats = []
    monkeypatch.setattr(actor_curve, "load_chat", lambda path, settings: chats.append(path))
    monkeypatch.setattr(
        actor_curve, "preferences", lambda model, chat, prompt, tasks, decoys: {"n": len(tasks), "prompt": prompt}
    )
    rows = actor_curve.policies(run, 7)
    assert [(row["policy"], row["n"], "An example" in row["prompt"]) for row in rows] == [
        ("pretrained", 7, True), ("initial", 7, False), ("trained", 7, False),
    ]  # fmt: skip
    assert chats == [str(FOLDER), run.initial_model, run.initial_model] and len(capsys.readouterr().out.splitlines()) == 3
