"""Your own algorithm: GRPO in one file, with its settings, on an environment of your own.

    python examples/own_algorithm.py [--output runs/mine] [settings of `python -m sweetrl_agent.train`]

The class is all that an on-policy algorithm needs: what a turn is worth, and how that becomes a loss. Rollouts on every engine, updates on the
sampled tokens, checkpoints, metrics and the comparison with other algorithms are the trainer's. It is the same as

    python -m sweetrl_agent.train --algorithm examples.own_algorithm:Mine --mine_clip 0.1 ...
    python -m sweetrl_agent.compare --algorithms zero_shot grpo examples.own_algorithm:Mine ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from sweetrl_agent.core.on_policy import ActionTokens, OnPolicyAlgorithm, OnPolicyConfig, clipped_gain
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.groups import in_groups

if TYPE_CHECKING:
    from sweetrl_agent.core.episode import Episode


@dataclass(frozen=True)
class MineConfig(OnPolicyConfig):
    """Has learning_rate, iterations, tasks, group, epochs and micro_batch; adds one setting of its own."""

    clip: float = setting(0.2, "Bound of a token's ratio, in both directions.")  # --mine_clip


class Mine(OnPolicyAlgorithm):
    """GRPO (arXiv:2402.03300)."""

    name, title, Config = "mine", "GRPO, once more", MineConfig

    def advantages(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """One number for every turn of every episode; the episodes of a task form a group."""
        return in_groups(episodes, standardized)

    def policy_loss(self, tokens: ActionTokens) -> torch.Tensor:
        """PPO's clipped objective, negated, over the tokens that the agent sampled."""
        ratio = torch.exp(tokens.log_probs - tokens.sampled)
        return -tokens.mean_over_dialogues(clipped_gain(ratio, tokens.advantages, self.config.clip))


def standardized(returns: Sequence[float]) -> list[float]:
    """Returns of a group, with mean 0 and standard deviation 1."""
    values = torch.tensor(returns)
    scaled: list[float] = ((values - values.mean()) / (values.std() + 1e-6)).tolist()
    return scaled


def main(arguments: list[str]) -> int:
    """Train on `examples.own_environment`; returns the exit status."""
    from examples import own_environment
    from sweetrl_agent.config.command_line import with_defaults

    defaults = {
        "algorithm": "examples.own_algorithm:Mine", "output": "runs/mine", "mine_iterations": 60, "mine_tasks": 16, "mine_group": 8,
        "mine_learning_rate": 5e-4,
    }  # fmt: skip
    return own_environment.main(with_defaults(defaults, arguments))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
