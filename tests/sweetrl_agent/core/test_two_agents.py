"""A proof of the contracts, with two agents in one game: each sees half of what is to be known, and alone wins half of the games."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Text

from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.episode import EpisodeKey
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm
from sweetrl_agent.trainers.views import select, views_of

from .toys import TabularPolicy, dialogues, played


class Halves(gym.Env):
    """The scout sees a bit and says a word; the guesser hears the word with a bit of its own, and is to say whether the bits are equal."""

    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bits = self.np_random.integers(2, size=2)
        self.hidden_information, self.is_first = f"bit {self.bits[0]}", True
        return f"your bit is {self.bits[0]}", {"agent": "scout"}

    def step(self, action):
        if self.is_first:
            self.is_first, self.hidden_information = False, f"bits {self.bits}"
            return f"{action}, {self.bits[1]}", 0.0, False, False, {"agent": "guesser"}
        return "", float(action == ("equal" if self.bits[0] == self.bits[1] else "unlike")), True, False, {"agent": "scout"}


class Halved(OnPolicyAlgorithm):
    name, policies = "halved", {"scout": "halved/scout", "guesser": "halved/guesser"}

    def credit(self, batch):
        mean = np.mean([episode.reward for episode in batch.episodes])
        return Credit([[episode.reward - mean] * len(episode.turns) for episode in batch.episodes])


def two_policies():
    scout = TabularPolicy(("red", "blue"), ("your bit is 0", "your bit is 1"), rate=4.0)
    guesser = TabularPolicy(("equal", "unlike"), [f"{word}, {bit}" for word in scout.texts for bit in (0, 1)], rate=4.0)
    scout.logits.data[0, 0] = 0.3  # which word means which bit is a convention; a nudge saves the steps that find one
    return {"scout": scout, "guesser": guesser}


def _train(policies, trained, iterations=45):
    envs, algorithm, keys = dialogues(Halves, 48, num_envs=48), Halved(), [EpisodeKey(str(i)) for i in range(48)]
    for iteration in range(iterations):
        episodes = played(policies, envs, keys, f"halved {iteration}")
        credit = algorithm.credit(Batch(episodes))
        for agent in trained:
            views = views_of(episodes, [agent])
            policies[agent].reinforce(
                [view.episode for view in views], select(credit.advantages, episodes, views, per_token=False)
            )
    return np.mean([episode.reward for episode in episodes])


@pytest.mark.parametrize(("trained", "low", "high"), [(("scout", "guesser"), 0.95, 1.0), (("scout",), 0.3, 0.7)])
def test_two_agents_learn_what_one_of_them_cannot(trained, low, high):
    assert low <= _train(two_policies(), trained) <= high
