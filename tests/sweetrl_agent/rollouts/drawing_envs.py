"""Environments that draw from the global generators, or are not reproducible in other ways; a module, so that workers can import it."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch

from sweetrl_agent.core.environment import EnvironmentRecord


class Guess(gym.Env):
    """Guess a number from 1 to 15 in four turns; the number, and a remark on every guess, are drawn from a generator of the kind that is given."""

    shared: ClassVar[list[str]] = []

    def __init__(self, kind="python", at_construction=False):
        self.observation_space = self.action_space = gym.spaces.Text(100, min_length=0)
        self.kind, self.plays, self.unseeded = kind, 0, random.SystemRandom()
        self.drawn = self.draw() if at_construction else None

    def draw(self):
        drawn: dict[str, Any] = {
            "python": lambda: random.randint(1, 15),
            "numpy": lambda: int(np.random.randint(1, 16)),
            "normal": lambda: int(abs(np.random.randn()) * 4) + 1,
            "torch": lambda: int(torch.randint(1, 16, ())),
            "seeded": lambda: int(self.np_random.integers(1, 16)),
            "unseeded": lambda: self.unseeded.randint(1, 15),
            "leftover": lambda: 1 + self.plays % 15,
            "shared": lambda: 1 + len(self.shared) % 15,
        }
        return drawn[self.kind]()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.plays, self.turn = self.plays + 1, 0
        self.number = self.drawn or self.draw()
        return "Guess my number from 1 to 15, such as [7].", {}

    def step(self, action):
        self.turn += 1
        self.shared.append(action)
        digits = "".join(c for c in action if c in "0123456789")[:3]
        if digits and int(digits) == self.number:
            return "Right!", 1.0, True, False, {}
        reply = "A number, please." if not digits else "Higher." if int(digits) < self.number else "Lower."
        return f"{reply} My cat says {self.draw()}.", 0.0, False, self.turn >= 4, {}


class Snapshots(Guess):
    """The same with snapshots, which keep everything, forget the number, the turn or the generator, or are the live state."""

    def __init__(self, keeps="all"):
        super().__init__("seeded")
        self.keeps = keeps

    @property
    def hidden_information(self):
        return f"The number is {self.number}."

    def get_state(self):
        generator = self.np_random if self.keeps == "alias" else self.np_random.bit_generator.state
        return {"number": self.number, "turn": self.turn, "generator": generator}

    def set_state(self, state, reseed=None):
        self.number = self.number if self.keeps == "no number" else state["number"]
        self.turn = 0 if self.keeps == "no turn" else state["turn"]
        if self.keeps in ("all", "no number"):
            self.np_random.bit_generator.state = state["generator"]
        elif self.keeps == "alias":
            self._np_random = state["generator"]


class Reveals(Guess):
    """The same with a word that is hidden; the opening names it, all words, or none."""

    words = ("harbour", "thistle", "lantern")

    def __init__(self, named="it"):
        super().__init__("seeded")
        self.named, self.hidden_information = named, ""

    def reset(self, *, seed=None, options=None):
        opening, info = super().reset(seed=seed)
        self.hidden_information = self.words[self.number % 3]
        choices = {
            "it": f"It is {self.hidden_information}.",
            "all": f"It is one of {', '.join(self.words)}.",
            "nothing": "Which word?",
        }
        return f"{opening} {choices[self.named]}", info


class Late(Guess):
    """Breaks the contract after a word that no trial says."""

    def __init__(self):
        super().__init__("seeded")

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, float("nan") if action == "odd" else reward, *rest


class Waits(EnvironmentRecord):
    waits = True

    def make(self, given):
        raise AssertionError("no environment is made for a trial")


def odd(messages):
    """A policy that says the word."""
    return "odd"


def guesses(messages):
    """A policy."""
    return f"Is it {1 + len(messages)}?"


if "DrawnNumber-v0" not in gym.registry:
    gym.register("DrawnNumber-v0", entry_point=Guess, disable_env_checker=True)
    gym.register("Reveals-v0", entry_point=Reveals, disable_env_checker=True)
    gym.register("Snapshots-v0", entry_point=Snapshots, disable_env_checker=True)
    gym.register("Late-v0", entry_point=Late, disable_env_checker=True)
