"""Discrete dialogue actions: a finite menu of utterances, for agents that are no language models (Stable-Baselines3's and the like).

An environment that has them offers an attribute `discrete_actions`, which keeps `DialogueActions`. `DiscreteDialogue` is then the environment that such
an agent trains in: numbers in, a choice out.
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
    """A numbered menu of actions, and the dialogue as numbers. Without state: everything follows from the messages.

    Attributes:
        count: Number of actions.
        observation_size: Numbers of an observation.
        discount: gamma that suits its rewards.
    """

    count: int
    observation_size: int
    discount: float

    def observe(self, messages: Messages) -> Observation:
        """What the agent knows, shape (observation_size,), all in [0, 1]."""
        ...

    def say(self, action: int, messages: Messages) -> str:
        """The utterance that an action stands for in this dialogue."""
        ...

    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """The mask: which actions make sense now, shape (count,); at least one does."""
        ...


class DiscreteDialogue(gym.Env[Observation, np.int64]):
    """A dialogue whose actions are numbers and whose observations are arrays; every episode is about one of some tasks, drawn at random.

    ## Observation
    float32 in [0, 1], shape (actions.observation_size,).

    ## Action
    0 .. actions.count - 1. `action_masks()` says which make sense, as sb3-contrib's MaskablePPO asks.

    ## Reward
    The environment's own.

    Args:
        dialogue: What is stepped.
        actions: The menu.
        task_ids: Tasks to draw from.
    """

    def __init__(self, dialogue: TextDialogue, actions: DialogueActions, task_ids: Sequence[str]) -> None:
        self.dialogue, self.actions, self._task_ids = dialogue, actions, task_ids
        self.action_space = spaces.Discrete(actions.count)
        self.observation_space = spaces.Box(0.0, 1.0, (actions.observation_size,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.dialogue.reset(options={"task_id": self._task_ids[int(self.np_random.integers(len(self._task_ids)))]})
        return self.actions.observe(self.dialogue.messages), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Say what an action stands for. A world that fails ends the episode without a reward."""
        said = self.actions.say(int(action), self.dialogue.messages)
        _, reward, terminated, truncated, _ = self.dialogue.step(said)
        return self.actions.observe(self.dialogue.messages), reward, terminated, truncated, {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Actions that make sense now, shape (actions.count,)."""
        return self.actions.allowed(self.dialogue.messages)

    def close(self) -> None:
        """Close the dialogue's environment."""
        self.dialogue.close()
