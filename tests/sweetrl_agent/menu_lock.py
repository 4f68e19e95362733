"""A combination lock in words, with a menu of discrete actions and snapshots: the right combination is red, blue, red, and opens it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

COLOURS, COMBINATION = ("red", "blue", "green"), ("red", "blue", "red")


class Colours:
    """The menu; it sees how many turns are gone."""

    count, observation_size, discount = 3, 4, 1.0

    def observe(self, messages):
        """The turn, one-hot."""
        return np.eye(4, dtype=np.float32)[min(sum(m["role"] == "assistant" for m in messages), 3)]

    def say(self, action, messages):
        """A colour."""
        return COLOURS[action]

    def allowed(self, messages):
        """All but green at the first place."""
        return np.array([True, True, len(messages) > 1])


class Lock(gym.Env):
    """A wrong colour ends the episode with 0.1."""

    discrete_actions = Colours()

    def __init__(self):
        self.observation_space = self.action_space = gym.spaces.Text(max_length=200, min_length=0)
        self.place = 0

    def reset(self, *, seed=None, options=None):
        """Start."""
        super().reset(seed=seed)
        self.place = 0
        return "Which colour is first?", {}

    def step(self, action):
        """Press a colour."""
        if action != COMBINATION[self.place]:
            return "Wrong.", 0.1, True, False, {"success": False}
        self.place += 1
        is_open = self.place == len(COMBINATION)
        return "It clicks. And then?", float(is_open), is_open, False, {"success": is_open}

    def get_state(self):
        """The place."""
        return {"place": self.place}

    def set_state(self, state, reseed=None):
        """Return to a place."""
        self.place = state["place"]


if "MenuLock-v0" not in gym.registry:
    gym.register("MenuLock-v0", entry_point=Lock, disable_env_checker=True)


def settings(tmp_path, model):
    """Settings of a small run on a lock, without SFT."""
    return {
        "env": "MenuLock-v0", "tasks": "seeds:0-9", "test_tasks": "seeds:10-15", "unseen_tasks": "", "model": model, "dtype": "float32", "sft_dialogues": 0,
        "system_prompt": "", "max_new_tokens": 4, "threads": 1, "eval_tasks": 4, "output": tmp_path,
    }  # fmt: skip
