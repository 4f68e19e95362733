"""GRPO: its advantages, its loss against a slow loop, and that it finds the optimum of a game of two turns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig, standardized
from sweetrl_agent.core.batch import ActionTokens, Batch
from sweetrl_agent.core.episode import Episode, Turn

CONFIG = GRPOConfig(learning_rate=0.0)


def test_the_advantage_is_the_standardized_return_of_the_group():
    assert standardized([1.0, 0.0]) == [1.0, -1.0]
    assert standardized([0.3, 0.3, 0.3]) == [0.0] * 3
    assert standardized([1.0, 0.0, 0.0, 0.0])[0] == pytest.approx(0.75 / math.sqrt(0.1875))
    rows = [Episode(task, 0, [], [Turn("x")] * turns, {"outcome": "wrong"}, reward)
            for task, turns, reward in (("a", 2, 1.0), ("b", 1, 0.5), ("a", 1, 0.0), ("b", 3, 0.5))]  # fmt: skip
    assert GRPO(CONFIG).credit(Batch(rows)).advantages == [[1.0, 1.0], [0.0], [-1.0], [0.0] * 3]


def test_the_initial_policy_is_asked_for_the_kl_term_alone():
    assert [GRPO(replace(CONFIG, beta=beta)).uses_reference for beta in (0.0, 0.001)] == [False, True]


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_loss_and_its_gradient_are_those_of_a_slow_loop(beta):
    rng = np.random.default_rng(0)
    lengths, clip = [3, 1, 5], 0.2
    dialogue = np.repeat(range(3), lengths)
    now, sampled, reference = rng.normal(-1.0, 0.4, (3, 9))
    advantages = rng.normal(0.0, 1.0, 9)
    gains, slopes = [], []
    for of_dialogue, length in enumerate(lengths):
        gain = 0.0
        for i in np.flatnonzero(dialogue == of_dialogue):
            ratio = math.exp(now[i] - sampled[i])
            first, second = ratio * advantages[i], min(max(ratio, 1 - clip), 1 + clip) * advantages[i]
            away = reference[i] - now[i]
            gain += min(first, second) - beta * (math.exp(away) - away - 1)
            is_followed = first <= second  # the clipped one has no slope where it is the lower
            slopes.append(((ratio * advantages[i] if is_followed else 0.0) - beta * (1 - math.exp(away))) / length / 3)
        gains.append(gain / length)
    assert 0 < sum(slope == 0 for slope in slopes) < 9 or beta
    log_probs = torch.tensor(now, requires_grad=True)
    tokens = ActionTokens(log_probs, *map(torch.tensor, (sampled, reference, advantages)), torch.tensor(dialogue))
    loss = GRPO(replace(CONFIG, clip=clip, beta=beta)).policy_loss(tokens)
    loss.backward()
    assert loss.item() == pytest.approx(-sum(gains) / 3)
    assert log_probs.grad.tolist() == pytest.approx([-slope for slope in slopes])


@pytest.fixture
def make_run(make_game):
    """Function: settings -> a run of the game of two turns."""
    return lambda **settings: make_game(2, **{"grpo.tasks": 4, "grpo.group": 6, "grpo.learning_rate": 1e-2, **settings})


def test_it_finds_the_optimum_of_two_turns(make_run):
    run = make_run(**{"grpo.iterations": 40})
    run.config.algorithms["grpo"].train(run)
    success = [row["return"] for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "grpo"]
    assert len(success) == 40 and np.mean(success[:3]) < 0.6 and np.mean(success[-5:]) > 0.9


def test_a_heavy_kl_term_keeps_the_initial_policy(make_run):
    run = make_run(**{"grpo.iterations": 10, "grpo.beta": 100.0, "grpo.learning_rate": 1e-3})
    run.config.algorithms["grpo"].train(run)
    success = [row["return"] for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "grpo"]
    assert np.mean(success[-3:]) < np.mean(success[:3]) + 0.2
