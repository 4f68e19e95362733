"""Games of several agents, small enough to be learnt in seconds, with optima that are known."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Text

WORDS = ("0", "1")


def share(text):
    """Share of the letters of a text that are not ASCII: what a random tiny model says differs in it."""
    return float(np.mean([not letter.isascii() for letter in text or "."]))


class Team(gym.Env):
    """Agents speak one after the other, in the order of `order`. Snapshots keep everything but the random numbers, of which there are none after `reset`."""

    observation_space = action_space = Text(1000, min_length=0)
    order = ("generator", "verifier", "refiner")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.said, self.bits = [], self.np_random.integers(2, size=4)
        return self.seen(), {"agent": self.order[0]}

    def step(self, action):
        self.said.append(action)
        is_over = len(self.said) == len(self.order)
        info = {"agent": self.order[0 if is_over else len(self.said)]}
        return "" if is_over else self.seen(), self.reward() if is_over else 0.0, is_over, False, info

    def get_state(self):
        return copy.deepcopy((self.said, self.bits))

    def set_state(self, state, reseed=None):
        self.said, self.bits = copy.deepcopy(state)

    def seen(self):
        """What the next agent sees."""
        return "?".join(["I need it.", *self.said])

    def reward(self):
        """The share of the refiner's letters that are not ASCII, if one of the verifier's is not."""
        return share(self.said[2]) if share(self.said[1]) else 0.0


class Debate(Team):
    """An interviewer says something; then two coders say something in each of two rounds, scored by their letters."""

    order = ("interviewer", "coder1_1", "coder2_1", "coder1_2", "coder2_2")

    @property
    def hidden_information(self):
        return "nothing"

    def reward(self):
        return share(self.said[-1])

    def score_answer(self, text):
        """The verifier."""
        return {"success": share(text)}


class Bits(Debate):
    """Each coder knows a bit of its own, and from round 2 on what the other has said; both are to say whether the bits differ.

    In round 1 nobody can know more than by chance: 1/2. Where a coder's word tells its bit, the other knows the answer in round 2: 1.
    """

    def seen(self):
        number = len(self.said)
        if not number:
            return "talk"
        coder = (number - 1) % 2
        heard = f", heard {self.said[2 - coder]}" if number > 2 else ""
        return f"bit {self.bits[coder]}{heard}"

    @property
    def hidden_information(self):
        return WORDS[int(self.bits[0] != self.bits[1])]

    def score_answer(self, text):
        return float(text == self.hidden_information)


gym.register("Team-v0", entry_point=Team, disable_env_checker=True)
gym.register("Debate-v0", entry_point=Debate, disable_env_checker=True)
