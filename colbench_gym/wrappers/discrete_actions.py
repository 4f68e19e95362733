"""Discrete dialogue actions: numbers in, a choice out, for agents that are no language models (Stable-Baselines3's and the like).

    env = DiscreteActions(gym.make("ColBench-Backend-v0"), QuestionActions())
    observation, info = env.reset(seed=0)      # float32, shape (actions.observation_size,)
    env.step(0)                                # asks about the first topic

A list of actions says what an agent may choose, what each choice says in words, and what the agent sees. All of it follows from the dialogue
as an actor sees it, so the same agent can also speak as any other does: messages in, an utterance out.
"""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from colbench_gym.envs.colbench_env import ColBenchEnv

Messages = Sequence[dict[str, str]]
Observation = NDArray[np.float32]


class DialogueActions(ABC):
    """A numbered list of actions, and the dialogue as numbers. Without state: everything follows from the messages.

    Attributes:
        count: Number of actions.
        observation_size: Numbers of an observation.
        discount: Of later rewards, as suits learners: near 0 where every action is rewarded for what it changed, near 1 where only the end counts.
    """

    count: int
    observation_size: int
    discount: float = 0.95

    @abstractmethod
    def observe(self, messages: Messages) -> Observation:
        """What the agent knows, shape (observation_size,), all in [0, 1]."""

    @abstractmethod
    def say(self, action: int, messages: Messages) -> str:
        """The utterance that an action stands for in this dialogue.

        Raises:
            ValueError: If the dialogue is not of a kind that these actions were made for.
        """

    @abstractmethod
    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """Which actions make sense now, shape (count,); at least one does."""

    def potential(self, env: ColBenchEnv) -> float | None:
        """How good the dialogue of an environment is so far; None where only its end can be graded.

        An action then earns the change that it makes, and an episode's rewards sum to that of the end less that of the beginning. It is
        for learning only: the agent never sees it.
        """
        return None


class DiscreteActions(gym.Wrapper[Observation, np.int64, str, str], RecordConstructorArgs):
    """A ColBench environment whose actions are numbers, and whose observations are arrays.

    ## Observation
    float32 in [0, 1], shape (actions.observation_size,).

    ## Action
    0 .. actions.count - 1. `action_masks()` tells which make sense; others are said all the same.

    ## Reward
    The environment's own at the end; or, where the actions have a potential, what the action changed of it.

    Args:
        env: A ColBench environment.
        actions: What may be chosen.
    """

    def __init__(self, env: gym.Env[str, str], actions: DialogueActions) -> None:
        RecordConstructorArgs.__init__(self, actions=actions)
        gym.Wrapper.__init__(self, env)  # type: ignore[misc]  # its types cannot tell inner from outer observations here
        if not isinstance(env.unwrapped, ColBenchEnv):
            raise TypeError(f"`env` must be a ColBench environment, got {type(env.unwrapped).__name__}.")
        self.actions, self._env = actions, env.unwrapped
        self.action_space = spaces.Discrete(actions.count)
        self.observation_space = spaces.Box(0.0, 1.0, (actions.observation_size,), np.float32)
        self._before: float | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        _, info = self.env.reset(seed=seed, options=options)
        self._before = self.actions.potential(self._env)
        return self.actions.observe(info["messages"]), info

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Say what an action stands for."""
        inner: Any = self.env
        _, reward, terminated, truncated, info = inner.step(self.actions.say(int(action), self._env.messages))
        if self._before is not None and not truncated:
            after = self.actions.potential(self._env)
            assert after is not None
            reward, self._before = after - self._before, after
        return self.actions.observe(info["messages"]), float(reward), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Actions that make sense now, shape (actions.count,): what sb3-contrib's MaskablePPO asks for."""
        return self.actions.allowed(self._env.messages)


def turns_gone(messages: Messages, max_turns: int) -> Observation:
    """Share of the agent's turns that are over, at most 1, shape (1,)."""
    return np.array([min(sum(message["role"] == "assistant" for message in messages) / max_turns, 1.0)], np.float32)


def hashed_words(text: str, size: int) -> Observation:
    """A bag of words as numbers: 1 at the place of every word that is there, shape (size,). Words may share a place."""
    bag = np.zeros(size, np.float32)
    for word in re.findall(r"[a-z0-9$]+", text.lower()):
        bag[zlib.crc32(word.encode()) % size] = 1.0
    return bag
