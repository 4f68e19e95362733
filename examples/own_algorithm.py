"""Your own algorithm: GRPO in one file, with its settings, on an environment of your own.

    python examples/own_algorithm.py [--output runs/mine] [settings of `python -m sweetrl_agent.train`]

An on-policy algorithm is a class with advantages and a loss. The trainer does the rest: rollouts on every engine, updates on the sampled tokens,
checkpoints, metrics and the comparison with other algorithms. The script is the same as

    python -m sweetrl_agent.train --algorithm examples.own_algorithm:Mine --mine.clip 0.1 ...
    python -m sweetrl_agent.compare --algorithms initial grpo examples.own_algorithm:Mine ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from sweetrl_agent.core.batch import ActionTokens, Batch, Credit, clipped_gain
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.groups import in_groups
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig


@dataclass(frozen=True)
class MineConfig(OnPolicyConfig):
    """Has learning_rate, iterations, tasks, group, epochs and micro_batch; adds one setting of its own."""

    clip: float = setting(0.2, "Bound of a token's ratio, in both directions.")  # --mine.clip


class Mine(OnPolicyAlgorithm):
    """GRPO (arXiv:2402.03300)."""

    name, title, Config = "mine", "GRPO, once more", MineConfig
    averages_over = "dialogues"

    def credit(self, batch: Batch) -> Credit:
        """One number for every turn of every episode; the episodes of a task form a group."""
        return Credit(in_groups(batch.episodes, standardized))

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

    defaults = {
        "algorithm": "examples.own_algorithm:Mine", "output": "runs/mine", "mine.iterations": 60, "mine.tasks": 16, "mine.group": 8,
        "mine.learning_rate": 5e-4,
    }  # fmt: skip
    return own_environment.main(arguments, defaults)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
