"""A proof of the contracts, with VinePPO's credit: values by fresh continuations from snapshots, in a walk whose values are known."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Text

from sweetrl_agent.core.batch import Credit
from sweetrl_agent.core.episode import EpisodeKey
from sweetrl_agent.trainers.learners import Learners
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm

from .toys import TabularPolicy, dialogues, played

SIZE = 4


class Walk(gym.Env):
    """From 1 to one of the ends, 0 or `SIZE`; the last pays 1. A step goes astray with probability 0.2. V(s) of a fair walker is s / SIZE."""

    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.hidden_information = 1, ""
        return "1", {}

    def step(self, action):
        self.place += 1 if (action == "up") == (self.np_random.random() >= 0.2) else -1
        self.hidden_information += str(self.place)
        return str(self.place), float(self.place == SIZE), self.place in (0, SIZE), False, {}

    def get_state(self):
        return {"place": self.place, "hidden": self.hidden_information, "rng": self.np_random.bit_generator.state}

    def set_state(self, state, reseed=None):
        self.place, self.hidden_information = state["place"], state["hidden"]
        if reseed is None:
            self.np_random.bit_generator.state = state["rng"]
        else:
            self.np_random = np.random.default_rng(reseed)


class Vine(OnPolicyAlgorithm):
    """A_t = r_t + V(s_{t+1}) - V(s_t), V by the mean return of K continuations."""

    name, requires = "vine", frozenset({"snapshot"})
    K = 60

    def credit(self, batch):
        states = [(episode, turn) for episode in batch.episodes for turn in range(1, len(episode.turns) + 1)]
        values = {
            (id(episode), turn): np.mean([sum(t.reward for t in one.turns[turn - 1 :]) for one in branches])
            for (episode, turn), branches in zip(states, batch.branch(states, self.K), strict=True)
        }
        return Credit([
            [turn.reward + values.get((id(e), t + 1), 0.0) - values[id(e), t] for t, turn in enumerate(e.turns, 1)] for e in batch.episodes
        ])  # fmt: skip


@pytest.fixture
def vine():
    """The algorithm with its environment and a fair walker, as its loop sets it up."""
    policy, envs, algorithm = TabularPolicy(("up", "down"), map(str, range(SIZE + 1))), dialogues(Walk, 4, num_envs=16), Vine()
    algorithm.run, algorithm._costs, algorithm.learners = SimpleNamespace(tasks=(), seed=0), Counter(), Learners({}, {}, False)
    algorithm.replay, algorithm.sampler = [], SimpleNamespace(play=lambda tasks, keys, stage: played(policy, envs, keys, stage))
    algorithm.episodes = played(policy, envs, [EpisodeKey(str(i)) for i in range(4)], "vine", keeps_states=True)
    return algorithm


def test_credit_by_continuations_is_the_exact_advantage(vine):
    credit = vine.credit(vine.batch(vine.episodes, 0))
    places = [[*(int(message["content"]) for message in e.messages[::2]), SIZE if e.reward else 0] for e in vine.episodes]
    exact, found = np.concatenate([np.diff(of_episode) for of_episode in places]) / SIZE, np.concatenate(credit.advantages)
    assert np.abs(found - exact).max() < 4 * 0.5 * np.sqrt(2 / Vine.K) and np.corrcoef(found, exact)[0, 1] > 0.8
