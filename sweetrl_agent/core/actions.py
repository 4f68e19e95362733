"""Discrete dialogue actions: a finite menu of utterances, for agents that are not language models (such as Stable-Baselines3's).

An environment that supports them has an attribute `discrete_actions`, a `DialogueActions`. `DiscreteDialogue` wraps such an environment for
training: its observations are arrays and its actions are integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sweetrl_agent.core.dialogues import TextDialogue
from sweetrl_agent.core.episode import Messages

Observation = NDArray[np.float32]


class DialogueActions(Protocol):
    """A numbered menu of actions and an encoding of the dialogue as an array. Stateless: everything is computed from the messages.

    Attributes:
        count: Number of actions.
        observation_size: Length of an observation.
        discount: Discount factor gamma for its rewards.
    """

    count: int
    observation_size: int
    discount: float

    def observe(self, messages: Messages) -> Observation:
        """What the agent observes, shape (observation_size,), values in [0, 1]."""
        ...

    def say(self, action: int, messages: Messages) -> str:
        """The utterance of an action in this dialogue."""
        ...

    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """Action mask: the actions that are valid now, shape (count,); at least one is."""
        ...


class DiscreteDialogue(gym.Env[Observation, np.int64]):
    """A dialogue with discrete actions and array observations. Every episode is on one of the given tasks, drawn at random.

    ## Observation
    float32 in [0, 1], shape (actions.observation_size,).

    ## Action
    0 .. actions.count - 1. `action_masks()` gives the valid ones, in the form that sb3-contrib's MaskablePPO expects.

    ## Reward
    The reward of the wrapped environment.

    ## Info
    "messages": the dialogue so far, as chat messages.

    Args:
        dialogue: The wrapped dialogue.
        actions: The menu of actions.
        task_ids: Ids of the tasks to draw from.
    """

    def __init__(self, dialogue: TextDialogue, actions: DialogueActions, task_ids: Sequence[str]) -> None:
        self.dialogue, self.actions, self._task_ids = dialogue, actions, task_ids
        self.action_space = spaces.Discrete(actions.count)
        self.observation_space = spaces.Box(0.0, 1.0, (actions.observation_size,), np.float32)

    @property
    def messages(self) -> Messages:
        """The dialogue so far, as the agent may see it."""
        return self.dialogue.messages

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.dialogue.reset(options={"task_id": self._task_ids[int(self.np_random.integers(len(self._task_ids)))]})
        return self.actions.observe(self.dialogue.messages), {"messages": self.dialogue.messages}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Say the utterance of an action. If the environment fails, the episode is truncated with reward 0."""
        said = self.actions.say(int(action), self.dialogue.messages)
        _, reward, terminated, truncated, _ = self.dialogue.step(said)
        return self.actions.observe(self.dialogue.messages), reward, terminated, truncated, {"messages": self.dialogue.messages}

    def action_masks(self) -> NDArray[np.bool_]:
        """Actions that are valid now, shape (actions.count,)."""
        return self.actions.allowed(self.dialogue.messages)

    def close(self) -> None:
        """Close the dialogue's environment."""
        self.dialogue.close()
