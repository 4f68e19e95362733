"""A policy over discrete dialogue actions behind the common interface: messages in, an utterance out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweetrl_agent.core.actions import DialogueActions
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance

#: Observations of shape (N, observation_size) -> probabilities of actions, shape (N, count).
Choice = Callable[[NDArray[np.float32]], NDArray[np.float64]]


class DiscretePolicy:
    """Samples an action in every dialogue and says its utterance.

    Args:
        actions: The menu of actions.
        choice: Action probabilities given observations.
    """

    def __init__(self, actions: DialogueActions, choice: Choice) -> None:
        self.actions, self.choice = actions, choice

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`."""
        probabilities = self.choice(self.observations(dialogues))
        return [
            Utterance(
                self.actions.say(int(np.random.default_rng(seed).choice(len(row), p=row / row.sum())), dialogue), usage=(0, 0)
            )
            for dialogue, seed, row in zip(dialogues, seeds, probabilities, strict=True)
        ]

    def observations(self, dialogues: Sequence[Messages]) -> NDArray[np.float32]:
        """What the choice is given, shape (N, observation_size)."""
        return np.stack([self.actions.observe(dialogue) for dialogue in dialogues])


class MenuPolicy:
    """Samples an action by a prior over the menu, or by what is chosen given the prior, and says its utterance.

    Args:
        actions: The menu of actions.
        prior: Prior probabilities of actions after a dialogue, shape (count,); its attribute `scored_tokens` counts what a model has read for them.
        choose: Action probabilities given the observation, the turn counted from 1, and the prior; None for the prior.
    """

    def __init__(self, actions: DialogueActions, prior: Any, choose: Callable[[Any, int, Any], Any] | None = None) -> None:
        self.actions, self.prior, self.choose = actions, prior, choose

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`."""
        return [self._utterance(dialogue, seed) for dialogue, seed in zip(dialogues, seeds, strict=True)]

    def _utterance(self, dialogue: Messages, seed: int) -> Utterance:
        before = self.prior.scored_tokens
        probabilities = self.prior(dialogue)
        if self.choose is not None:
            turn = 1 + sum(message["role"] == "assistant" for message in dialogue)
            probabilities = self.choose(self.actions.observe(dialogue), turn, probabilities)
        action = int(np.random.default_rng(seed).choice(len(probabilities), p=probabilities))
        return Utterance(self.actions.say(action, dialogue), usage=(self.prior.scored_tokens - before, 0))


def uniform(count: int) -> Choice:
    """Uniform action probabilities."""
    return lambda observations: np.full((len(observations), count), 1 / count)


def ppo_choice(path: Path) -> Choice:
    """The policy of a saved PPO agent of Stable-Baselines3."""
    from stable_baselines3 import PPO

    return policy_choice(PPO.load(path, device="cpu").policy)


def policy_choice(policy: Any) -> Choice:
    """The action probabilities of an actor-critic policy of Stable-Baselines3."""
    import torch

    @torch.inference_mode()
    def choose(observations: NDArray[np.float32]) -> NDArray[np.float64]:
        distribution: Any = policy.get_distribution(torch.as_tensor(observations))
        probabilities: NDArray[np.float64] = distribution.distribution.probs.double().numpy()
        return probabilities

    return choose


def dqn_choice(path: Path) -> Choice:
    """The greedy policy of a saved DQN agent of Stable-Baselines3."""
    from stable_baselines3 import DQN

    model = DQN.load(path, device="cpu")

    def choose(observations: NDArray[np.float32]) -> NDArray[np.float64]:
        actions, _ = model.predict(observations, deterministic=True)
        return np.eye(int(model.action_space.n), dtype=np.float64)[actions]  # type: ignore[attr-defined]

    return choose
