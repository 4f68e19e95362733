"""A game over discrete actions with a known optimum: each of six lights asks for one of six levers, three lights an episode."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
LIGHTS = ("red", "blue", "green", "white", "amber", "pink")
LEVERS = ("stone", "copper", "oak", "glass", "iron", "wool")
RIGHT = (3, 5, 0, 1, 4, 2)  # lever of each light
TURNS = 3


def light_of(messages):
    """The number of the light that was on last; the end of an episode shows none."""
    shown = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    return LIGHTS.index(re.search(r"The (\w+) light", shown)[1])


class Levers:
    """One lever of six; the student sees which light is on."""

    count, observation_size, discount = len(LEVERS), len(LIGHTS), 0.5

    def observe(self, messages):
        return np.eye(len(LIGHTS), dtype=np.float32)[light_of(messages)]

    def say(self, action, messages):
        return f"I pull the {LEVERS[action]} lever."

    def allowed(self, messages):
        return np.ones(self.count, bool)


class Signals(gym.Env):
    """The return is the share of right levers: 1 is the optimum, and chance has 1 / 6."""

    discrete_actions = Levers()

    def __init__(self):
        self.observation_space = self.action_space = gym.spaces.Text(max_length=200, min_length=0, charset=CHARACTERS)

    def _shown(self):
        self.light = int(self.np_random.integers(len(LIGHTS)))
        return f"The {LIGHTS[self.light]} light is on."

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        return self._shown(), {}

    def step(self, action):
        self.turn += 1
        is_right = f"{LEVERS[RIGHT[self.light]]} lever" in action
        return self._shown(), is_right / TURNS, self.turn == TURNS, False, {}


gym.register("Signals-v0", entry_point=Signals, disable_env_checker=True)
STATES = [[{"role": "user", "content": f"The {light} light is on."}] for light in LIGHTS]


class FixedTeacher:
    """Proposes a fixed lever for each light, with a probability of 0.9."""

    scored_tokens = 0

    def __init__(self, levers):
        self.table = np.log(
            np.full((len(LIGHTS), len(LEVERS)), 0.1 / (len(LEVERS) - 1)) + np.eye(len(LEVERS))[list(levers)] * 0.88
        )

    def log_probs(self, dialogues):
        return self.table[[light_of(dialogue) for dialogue in dialogues]]


def accuracy(teacher):
    """Share of lights for which the teacher proposes the right lever."""
    return float((teacher.log_probs(STATES).argmax(axis=1) == np.array(RIGHT)).mean())
