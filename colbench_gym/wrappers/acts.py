"""Episodes as acts: numbers in, a choice out, for agents that are no language models (Stable-Baselines3's and the like).

    env = DiscreteActs(gym.make("ColBench-Backend-v0"), QuestionActs())
    observation, info = env.reset(seed=0)      # float32, shape (acts.observation_size,)
    env.step(0)                                # asks about the first topic

A list of acts says what an agent may choose, what each choice says in words, and what the agent sees. All of it follows from the dialogue
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


class Acts(ABC):
    """A numbered list of acts, and the dialogue as numbers. Without state: everything follows from the messages.

    Attributes:
        count: Number of acts.
        observation_size: Numbers of an observation.
        discount: Of later rewards, as suits learners: near 0 where every act is rewarded for what it changed, near 1 where only the end counts.
    """

    count: int
    observation_size: int
    discount: float = 0.95

    @abstractmethod
    def observe(self, messages: Messages) -> Observation:
        """What the agent knows, shape (observation_size,), all in [0, 1]."""

    @abstractmethod
    def say(self, act: int, messages: Messages) -> str:
        """The utterance that an act stands for in this dialogue.

        Raises:
            ValueError: If the dialogue is not of a kind that these acts were made for.
        """

    @abstractmethod
    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """Which acts make sense now, shape (count,); at least one does."""

    def potential(self, env: ColBenchEnv) -> float | None:
        """How good the dialogue of an environment is so far; None where only its end can be graded.

        An act then earns the change that it makes, and an episode's rewards sum to that of the end less that of the beginning. It is
        for learning only: the agent never sees it.
        """
        return None


class DiscreteActs(gym.Wrapper[Observation, np.int64, str, str], RecordConstructorArgs):
    """A ColBench environment whose actions are numbers of acts, and whose observations are arrays.

    ## Observation
    float32 in [0, 1], shape (acts.observation_size,).

    ## Action
    0 .. acts.count - 1. `action_masks()` tells which make sense; others are said all the same.

    ## Reward
    The environment's own at the end; or, where the acts have a potential, what the act changed of it.

    Args:
        env: A ColBench environment.
        acts: What may be chosen.
    """

    def __init__(self, env: gym.Env[str, str], acts: Acts) -> None:
        RecordConstructorArgs.__init__(self, acts=acts)
        gym.Wrapper.__init__(self, env)  # type: ignore[misc]  # its types cannot tell inner from outer observations here
        if not isinstance(env.unwrapped, ColBenchEnv):
            raise TypeError(f"`env` must be a ColBench environment, got {type(env.unwrapped).__name__}.")
        self.acts, self._env = acts, env.unwrapped
        self.action_space = spaces.Discrete(acts.count)
        self.observation_space = spaces.Box(0.0, 1.0, (acts.observation_size,), np.float32)
        self._before: float | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        _, info = self.env.reset(seed=seed, options=options)
        self._before = self.acts.potential(self._env)
        return self.acts.observe(info["messages"]), info

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Say what an act stands for."""
        inner: Any = self.env
        _, reward, terminated, truncated, info = inner.step(self.acts.say(int(action), self._env.messages))
        if self._before is not None and not truncated:
            after = self.acts.potential(self._env)
            assert after is not None
            reward, self._before = after - self._before, after
        return self.acts.observe(info["messages"]), float(reward), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Acts that make sense now, shape (acts.count,): what sb3-contrib's MaskablePPO asks for."""
        return self.acts.allowed(self._env.messages)


def turns_gone(messages: Messages, max_turns: int) -> Observation:
    """Share of the agent's turns that are over, at most 1, shape (1,)."""
    return np.array([min(sum(message["role"] == "assistant" for message in messages) / max_turns, 1.0)], np.float32)


def hashed_words(text: str, size: int) -> Observation:
    """A bag of words as numbers: 1 at the place of every word that is there, shape (size,). Words may share a place."""
    bag = np.zeros(size, np.float32)
    for word in re.findall(r"[a-z0-9$]+", text.lower()):
        bag[zlib.crc32(word.encode()) % size] = 1.0
    return bag
