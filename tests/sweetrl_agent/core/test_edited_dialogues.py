"""A proof of the contracts, with InfoPO's gain: a rule that scores edited dialogues teaches to ask the question whose reply is used."""

from __future__ import annotations

import math
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Text

from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.episode import EpisodeKey
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm

from .toys import TabularPolicy, dialogues, played

KEEN = 3.0  # logit of repeating the reply "0" or "1"; after "hm" the policy says anything


class Replies(gym.Env):
    """Asked well, it says a fair bit; asked badly, "hm". Nothing is rewarded: the gain of the reply is all there is to learn from."""

    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.is_over = False
        return "?", {}

    def step(self, action):
        is_over, self.is_over = self.is_over, True
        return (str(self.np_random.integers(2)) if action == "well" else "hm"), 0.0, is_over, False, {}


class Gain(OnPolicyAlgorithm):
    """log p(next turn | real reply) - mean log p(next turn | reply of another episode that asked the same), for the turn that asked."""

    name = "gain"

    def credit(self, batch):
        edited = [
            replace(episode, messages=[*episode.messages[:2], other.messages[2], episode.messages[3]])
            for episode in batch.episodes
            for other in batch.episodes
        ]
        scores = iter(batch.score(edited))
        real = batch.score(batch.episodes)
        gains = []
        for episode, own in zip(batch.episodes, real, strict=True):
            others = [np.mean(next(scores)[-1]) for _ in batch.episodes]
            same = [x for x, other in zip(others, batch.episodes, strict=True) if other.turns[0].text == episode.turns[0].text]
            gains.append(np.mean(own[-1]) - np.mean(same))
        return Credit([[float(gain - np.mean(gains)), 0.0] for gain in gains]), gains


def test_the_question_that_tells_something_is_learnt():
    policy = TabularPolicy(("well", "badly", "0", "1"), ("?", "0", "1", "hm"), rate=4.0)
    policy.logits.data += torch.tensor([[0, 0, -20, -20], [-20, -20, KEEN, 0], [-20, -20, 0, KEEN], [-20, -20, 0, 0]])
    envs, keys = dialogues(Replies, 48, num_envs=48), [EpisodeKey(str(i)) for i in range(48)]

    @torch.no_grad()
    def score(episodes):
        return [
            [[float(policy.log_probs(e.prefix(t))[turn.token_ids[0]])] for t, turn in enumerate(e.turns, 1)] for e in episodes
        ]

    for iteration in range(8):
        episodes = played(policy, envs, keys, f"gain {iteration}")
        credit, gains = Gain().credit(Batch(episodes, score=score))
        well = [gain for gain, episode in zip(gains, episodes, strict=True) if episode.turns[0].text == "well"]
        if not iteration:
            repeats = 1 / (1 + math.exp(-KEEN))
            assert np.mean(well) == pytest.approx(
                (2 * repeats - 1) * KEEN / 2, abs=0.4
            )  # half of the others heard the other bit
            assert all(gain == pytest.approx(0) for gain, e in zip(gains, episodes, strict=True) if e.turns[0].text == "badly")
        policy.reinforce(episodes, credit.advantages)
    assert len(well) > 0.9 * len(episodes)
