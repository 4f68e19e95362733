"""Observe only the last message, for agents that store the dialogue themselves."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs


class LastMessage(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Observe the last message instead of the whole transcript.

    During the episode this is the last reply of the simulated human. After the end it is the agent's own last message, since no
    reply follows. `info` is unchanged.

    Args:
        env: A ColBench environment.
    """

    def __init__(self, env: gym.Env[str, str]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; the observation is the request."""
        _, info = self.env.reset(seed=seed, options=options)
        return _last(info), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Say `action`; the observation is the reply."""
        _, reward, terminated, truncated, info = self.env.step(action)
        return _last(info), reward, terminated, truncated, info


def _last(info: dict[str, Any]) -> str:
    return str(info["messages"][-1]["content"])
