"""A step is on the whole batch: its gradient does not depend on how many dialogues a forward pass has, nor on what is computed again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.core.batch import Credit
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.trainers import sampler
from sweetrl_agent.trainers.checkpoint import Checkpoint
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm
from sweetrl_agent.trainers.running import SCORED_TOKENS, TRAINED_TOKENS


def _gradient(begin, run, name, micro_batch, lengths=None, **settings):
    """The gradient of the first step on six dialogues of two turns, the costs, and the algorithm."""
    made = ALGORITHMS[name]
    algorithm = made.with_config(replace(made.config, learning_rate=0.0, micro_batch=micro_batch, tasks=3, group=2, **settings))
    learner = begin(run, algorithm)
    if learner.head is not None:
        torch.nn.init.normal_(learner.head.weight, generator=torch.Generator().manual_seed(0))
    keys = episodes_of([task.id for task in run.tasks[:3]], 2)
    episodes = [episode for (episode,) in sampler.play(learner.policy, None, keys, 0, "x")]
    episodes = [
        replace(
            episode, reward=float(i), turns=[replace(turn, reward=float(i) * (t + 1)) for t, turn in enumerate(episode.turns)]
        )
        for i, episode in enumerate(episodes)
    ]
    episodes[0] = replace(  # a dialogue with fewer tokens and turns than the others
        episodes[0], messages=episodes[0].messages[:2], turns=[replace(episodes[0].turns[0], reward=3.0)]
    )
    gradients = []

    def step():
        gradients.append(torch.cat([p.grad.flatten() for p in learner.trainable.module.parameters() if p.grad is not None]))
        return 1.0

    learner.trainable.step = step
    algorithm.update(episodes, 0)
    return gradients[0], algorithm


@pytest.mark.parametrize("name", ["reinforce", "online_filtered_bc", "grpo", "turn_ppo", "token_ppo"])
def test_the_gradient_is_the_same_for_any_micro_batch(begin, make_game, name):
    settings = {"critic_learning_rate": 1e-3} if hasattr(ALGORITHMS[name].config, "critic_learning_rate") else {}
    whole, _ = _gradient(begin, make_game(2), name, 6, **settings)
    assert float(whole.abs().max()) > 0
    for micro_batch in (1, 4):
        parts, _ = _gradient(begin, make_game(2), name, micro_batch, **settings)
        assert torch.allclose(parts, whole, atol=1e-5 * float(whole.abs().max()) + 1e-7, rtol=1e-3), micro_batch


def test_activations_that_are_computed_again_give_the_same_gradient(begin, make_game):
    plain, _ = _gradient(begin, make_game(2), "grpo", 6)
    again, algorithm = _gradient(begin, make_game(2, gradient_checkpointing=True), "grpo", 6)
    assert algorithm.learners["grpo/agent"].model.is_gradient_checkpointing
    assert torch.allclose(again, plain, atol=1e-6)


def test_the_reference_of_a_step_is_among_the_costs(begin, make_game):
    costs = [_gradient(begin, make_game(2), "grpo", 6, beta=beta)[1].spent[SCORED_TOKENS] for beta in (0.0, 0.1)]
    assert costs[0] == 0 < costs[1]


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_dialogues_without_an_advantage_are_skipped_unless_the_initial_policy_holds_them(begin, make_game, beta):
    made, run = ALGORITHMS["grpo"], make_game(2)
    algorithm = made.with_config(replace(made.config, beta=beta, tasks=3, group=2))
    learner = begin(run, algorithm)
    keys = episodes_of([task.id for task in run.tasks[:3]], 2)
    episodes = [replace(of, reward=1.0) for (of,) in sampler.play(learner.policy, None, keys, 0, "x")]
    metrics = algorithm.update(episodes, 0)
    assert (algorithm.spent[TRAINED_TOKENS] > 0) == (beta > 0) == ("reference_kl" in metrics), metrics


class Logs(OnPolicyAlgorithm):
    """Logs numbers of numpy and torch, as an author would write them."""

    name, title = "logs", "Logs"

    def credit(self, batch):
        return Credit(
            [[1.0] * len(e.turns) for e in batch.episodes], metrics={"mean": np.float64(2.5), "part": torch.tensor(3)}
        )


def test_metrics_are_numbers_that_a_checkpoint_restores(begin, make_game, tmp_path):
    run, algorithm = make_game(2), Logs()
    begin(run, algorithm)
    keys = episodes_of([task.id for task in run.tasks[:2]], 1)
    played = [episode for (episode,) in sampler.play(algorithm.learners["logs/agent"].policy, None, keys, 0, "x")]
    row = algorithm.update(played, 0)
    assert (type(row["mean"]), row["mean"], type(row["part"]), row["part"]) == (float, 2.5, int, 3)
    Checkpoint(tmp_path / "checkpoint.pt", []).save([{"step": 1, **row}])
    assert Checkpoint(tmp_path / "checkpoint.pt", []).load() == [{"step": 1, **row}]


def test_a_further_call_for_branches_draws_others(begin, make_game):
    run, algorithm = make_game(2), Logs()
    begin(run, algorithm)
    asked = []
    algorithm.play_branches = lambda keys, stage: (
        asked.append([(key.task_id, key.turn, key.number) for key in keys]) or [None] * len(keys)
    )
    keys = episodes_of([task.id for task in run.tasks[:2]], 1)
    played = [episode for (episode,) in sampler.play(algorithm.learners["logs/agent"].policy, None, keys, 0, "x")]
    first, second = (episode.task_id for episode in played)
    batch = algorithm.batch(played, 0)
    batch.branch([(played[0], 1), (played[1], 2)], 2)
    batch.branch([(played[0], 1), (played[0], 2)], 1)
    assert asked == [[(first, 1, 0), (first, 1, 1), (second, 2, 0), (second, 2, 1)], [(first, 1, 2), (first, 2, 0)]]
    algorithm.batch(played, 1).branch([(played[0], 1)], 1)
    assert asked[-1] == [(first, 1, 0)], "another iteration has other seeds"
