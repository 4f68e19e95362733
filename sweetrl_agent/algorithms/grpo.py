"""GRPO (Shao et al., arXiv:2402.03300) over dialogues, on-policy.

1. In every iteration the current agent plays G episodes of each of P training tasks.
2. The advantage of every turn of episode i is (r_i - mean(r)) / std(r) over its group (section 4.1.2, outcome supervision).
3. Several steps on min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta D_KL[pi || pi_ref], a mean over the tokens of a dialogue and then over
dialogues (equation 3). rho is pi / pi_old of a token as it was sampled; the human's words are read and never scored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sweetrl_agent.run import Run
from sweetrl_agent.trainers.groups import in_groups
from sweetrl_agent.trainers.on_policy import ActionTokens, OnPolicyAlgorithm, OnPolicyConfig, clipped_gain
from sweetrl_agent.trajectory import Trajectory


def standardized(returns: Sequence[float]) -> list[float]:
    """Returns less their mean, over their standard deviation; 0 for all where they are equal."""
    spread = float(np.std(returns))
    return [(value - float(np.mean(returns))) / spread if spread > 1e-8 else 0.0 for value in returns]


class GRPO(OnPolicyAlgorithm):
    """See the module.

    Attributes:
        clip: eps.
        beta: Weight of the KL divergence to the initial policy.
    """

    name = "grpo"

    def __init__(self, config: OnPolicyConfig, clip: float, beta: float) -> None:
        """Take the configuration."""
        super().__init__(config)
        self.clip, self.beta = clip, beta

    def advantages(self, episodes: Sequence[Trajectory]) -> list[list[float]]:
        """Episodes of a task are a group."""
        return in_groups(episodes, standardized)

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """Equation 3, negated, with the estimator of the KL divergence of equation 4."""
        ratio = torch.exp(tokens.log_probs - tokens.sampled)
        gain = clipped_gain(ratio, tokens.advantages, self.clip)
        if self.beta:
            gain = gain - self.beta * tokens.reference_divergence()
        return -tokens.mean_over_dialogues(gain)


def train(run: Run) -> None:
    """Episodes on the training tasks -> grpo/agent/."""
    settings = run.config.baselines
    config = OnPolicyConfig(
        settings.grpo_learning_rate, settings.grpo_iterations, settings.grpo_tasks, settings.grpo_group, settings.grpo_micro_batch,
        epochs=settings.grpo_epochs, uses_reference=settings.grpo_beta > 0,
    )  # fmt: skip
    GRPO(config, settings.grpo_clip, settings.grpo_beta).train(run)
