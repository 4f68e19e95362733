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
        probabilities = self.choice(np.stack([self.actions.observe(dialogue) for dialogue in dialogues]))
        return [
            Utterance(
                self.actions.say(int(np.random.default_rng(seed).choice(len(row), p=row / row.sum())), dialogue), usage=(0, 0)
            )
            for dialogue, seed, row in zip(dialogues, seeds, probabilities, strict=True)
        ]


def uniform(count: int) -> Choice:
    """Uniform action probabilities."""
    return lambda observations: np.full((len(observations), count), 1 / count)


def ppo_choice(path: Path) -> Choice:
    """The policy of a saved PPO agent of Stable-Baselines3."""
    import torch
    from stable_baselines3 import PPO

    policy = PPO.load(path, device="cpu").policy

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
        best, _ = model.predict(observations, deterministic=True)
        return np.eye(int(model.action_space.n), dtype=np.float64)[best]  # type: ignore[attr-defined]

    return choose
