"""Discrete dialogue actions and array observations, for agents that are not language models (e.g. from Stable-Baselines3).

    env = DiscreteActions(gym.make("ColBench-Backend-v0"))
    observation, info = env.reset(seed=0)      # float32, shape (env.actions.observation_size,)
    env.step(0)                                # asks about the first topic

A `DialogueActions` defines the set of actions, the utterance of each action and the observation. All of it is computed from the
messages that an actor sees, so the same agent can also be used like a language model: messages in, an utterance out.
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

Messages = Sequence[dict[str, str]]
Observation = NDArray[np.float32]
#: What a set of actions must have.
_PARTS = ("count", "observation_size", "observe", "say", "allowed")


class DialogueActions(ABC):
    """A set of discrete actions and a vector encoding of the dialogue. It has no state: everything is computed from the messages.

    Attributes:
        count: Number of actions.
        observation_size: Length of the observation vector.
        discount: Recommended discount factor gamma: near 0 if every action is rewarded for its own effect, near 1 if only the end counts.
    """

    count: int
    observation_size: int
    discount: float = 0.95

    @abstractmethod
    def observe(self, messages: Messages) -> Observation:
        """The observation of a dialogue, shape (observation_size,), in [0, 1]."""

    @abstractmethod
    def say(self, action: int, messages: Messages) -> str:
        """The utterance of an action in this dialogue.

        Raises:
            ValueError: If these actions do not support the dialogue.
        """

    @abstractmethod
    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """Mask of the actions that make sense now, shape (count,). At least one entry is True."""

    def potential(self, env: Any) -> float | None:
        """The potential of the current state, for reward shaping; None if only the end of a dialogue can be graded.

        The reward of an action is then the change of the potential, and the rewards of an episode sum to its final minus its initial
        potential. The potential is for training only: the agent never observes it.

        Args:
            env: The environment without its wrappers.
        """
        return None


def _own_actions(env: gym.Env[str, str]) -> DialogueActions:
    """The menu of an environment.

    Raises:
        TypeError: If it has none, or none for its arguments.
    """
    inner: Any = env.unwrapped
    try:
        return inner.discrete_actions  # type: ignore[no-any-return]
    except AttributeError as error:
        why = (
            str(error).rstrip(".")
            if hasattr(type(inner), "discrete_actions")
            else f"{type(inner).__name__} has no `discrete_actions`"
        )
        raise TypeError(f"{why}; give a menu as the second argument of `DiscreteActions`.") from None


class DiscreteActions(gym.Wrapper[Observation, np.int64, str, str], RecordConstructorArgs):
    """A text environment with discrete actions and array observations.

    ## Observation
    float32 in [0, 1], shape (actions.observation_size,).

    ## Action
    0 .. actions.count - 1. `action_masks()` returns which of them make sense; the others are allowed as well.

    ## Reward
    The reward of the environment; or, if the actions have a potential, the change of the potential.

    Args:
        env: The environment. Its dialogue is its attribute `messages`; without one, `info["messages"]`, or else its observations and the agent's messages.
        actions: The set of actions: a `DialogueActions`, or an object with its `count`, `observation_size`, `observe`, `say` and `allowed`. None for the
            environment's own, its attribute `discrete_actions`.

    Raises:
        TypeError: If it is no text environment, has no actions of its own, or `actions` is no set of actions.
    """

    def __init__(self, env: gym.Env[str, str], actions: DialogueActions | None = None) -> None:
        RecordConstructorArgs.__init__(self, actions=actions)
        gym.Wrapper.__init__(self, env)  # type: ignore[misc]  # its types do not distinguish inner from outer observations here
        name = type(env.unwrapped).__name__
        if env.action_space.dtype != np.dtype(str):
            raise TypeError(f"`env` must be a text environment, got {name} with the actions {env.action_space}.")
        self.actions: DialogueActions = _own_actions(env) if actions is None else actions
        if isinstance(self.actions, type) or not all(hasattr(self.actions, part) for part in _PARTS):
            raise TypeError(
                f"`actions` must be an object with {', '.join(_PARTS)}, such as QuestionActions(), got {actions!r}."
            )
        self.action_space = spaces.Discrete(self.actions.count)
        self.observation_space = spaces.Box(0.0, 1.0, (self.actions.observation_size,), np.float32)
        self._recorded: list[dict[str, str]] = []
        self._before: float | None = None

    @property
    def messages(self) -> Messages:
        """The dialogue so far, as an actor may see it.

        Raises:
            RuntimeError: Before the first `reset`.
        """
        messages: Messages = getattr(self.env.unwrapped, "messages", self._recorded)
        if not messages:
            raise RuntimeError("Expected an episode; call `reset` first.")
        return messages

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        text, info = self.env.reset(seed=seed, options=options)
        self._recorded = info.get("messages") or [_heard(text)]
        self._before = self._potential()
        return self.actions.observe(self.messages), info

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Say the utterance of an action.

        Raises:
            ValueError: If it is none of the actions.
            RuntimeError: Before the first `reset`.
        """
        if not self.action_space.contains(action):
            raise ValueError(f"`action` must be an integer from 0 to {self.actions.count - 1}, got {action!r}.")
        inner: Any = self.env
        utterance = self.actions.say(int(action), self.messages)
        text, reward, terminated, truncated, info = inner.step(utterance)
        self._recorded = info.get("messages") or [*self._recorded, {"role": "assistant", "content": utterance}, _heard(text)]
        if self._before is not None and not truncated:
            after = self._potential()
            assert after is not None
            reward, self._before = after - self._before, after
        return self.actions.observe(self.messages), float(reward), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Mask of the actions that make sense now, shape (actions.count,), as sb3-contrib's MaskablePPO expects it."""
        return self.actions.allowed(self.messages)

    def _potential(self) -> float | None:
        potential = getattr(self.actions, "potential", None)  # actions of the user's own may lack it
        return potential(self.env.unwrapped) if potential else None


def _heard(text: Any) -> dict[str, str]:
    return {"role": "user", "content": str(text)}


def turns_gone(messages: Messages, max_turns: int) -> Observation:
    """Fraction of the agent's turns that are used up, at most 1, shape (1,)."""
    return np.array([min(sum(message["role"] == "assistant" for message in messages) / max_turns, 1.0)], np.float32)


def hashed_words(text: str, size: int) -> Observation:
    """A hashed bag of words: 1 at the index of every word in the text, shape (size,). Words may collide."""
    bag = np.zeros(size, np.float32)
    for word in re.findall(r"[a-z0-9$]+", text.lower()):
        bag[zlib.crc32(word.encode()) % size] = 1.0
    return bag
