"""Agents that choose from a menu of discrete actions, and agents from an object of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from colbench_gym.agents.agent import Agent, FunctionAgent, Messages, Said
from colbench_gym.reasoning import AUTO
from colbench_gym.wrappers.discrete_actions import DialogueActions, Observation

#: Observation, mask of valid actions and a generator -> an action.
Act = Callable[[Observation, NDArray[np.bool_], np.random.Generator], int]
NOT_A_POLICY = (
    "A policy of your own must be a function of the messages, an `Agent`, or have a method `act` or, in `sweetrl_agent`, `generate` "
    "(`sweetrl_agent.Policy`)"
)


class MenuAgent(Agent):
    """Chooses from a menu of discrete actions.

    Args:
        actions: The menu.
        act: Chooses an action.
    """

    def __init__(self, actions: DialogueActions, act: Act) -> None:
        self.actions, self.act, self._space = actions, act, Discrete(actions.count)

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """See `Agent.say`.

        Raises:
            ValueError: If `act` returns none of the actions.
        """
        observation, mask = self.actions.observe(messages), self.actions.allowed(messages)
        action = self.act(observation, mask, np.random.default_rng(seed))
        if not self._space.contains(action):
            raise ValueError(
                f"`act` must return an integer from 0 to {self.actions.count - 1}, got {action!r} (Stable-Baselines3's `predict` returns a pair)."
            )
        return Said(self.actions.say(int(action), messages))


def uniform(observation: Observation, mask: NDArray[np.bool_], random: np.random.Generator) -> int:
    """One of the valid actions, all with the same probability."""
    return int(random.choice(np.flatnonzero(mask)))


def own_agent(given: Any, menu: Callable[[], DialogueActions | None], reasoning: str = AUTO) -> Agent:
    """An agent from an object of the user's own: an `Agent`, a function of the messages, or an object with `act`; classes are instantiated.

    Args:
        given: The object. `act(observation, mask, generator)` chooses from the menu of the tasks.
        menu: Makes the menu of the tasks; None if they have none.
        reasoning: How a model behind a function marks its thoughts, see `colbench_gym.reasoning.Reasoning`.

    Raises:
        ValueError: If it is none of these, or chooses from a menu that the tasks do not have.
    """
    made = given() if isinstance(given, type) else given
    if isinstance(made, Agent):
        return made
    if hasattr(made, "act"):
        actions = menu()
        if actions is None:
            raise ValueError(
                "A policy with `act` chooses from the environment's menu, `discrete_actions`, which these tasks do not have. With a menu of your own, "
                "write a function of the messages: menu.say(choose(menu.observe(messages)), messages)."
            )
        return MenuAgent(actions, made.act)
    if callable(made):
        return FunctionAgent(made, reasoning)
    raise ValueError(f"{NOT_A_POLICY}, got an object of {type(made).__name__}.")
