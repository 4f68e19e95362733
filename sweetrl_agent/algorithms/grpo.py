"""GRPO (Shao et al., arXiv:2402.03300) over dialogues, on-policy.

1. In every iteration the current agent plays G episodes of each of P training tasks.
2. The advantage of every turn of episode i is (r_i - mean(r)) / std(r) over its group (section 4.1.2, outcome supervision).
3. Several steps on min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta D_KL[pi || pi_ref], a mean over the tokens of a dialogue and then over
dialogues (equation 3). rho is pi / pi_old of a token as it was sampled; the human's words are read and never scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.on_policy import ActionTokens, OnPolicyAlgorithm, OnPolicyConfig, clipped_gain
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.groups import in_groups


def standardized(returns: Sequence[float]) -> list[float]:
    """Returns less their mean, over their standard deviation; 0 for all where they are equal."""
    spread = float(np.std(returns))
    return [(value - float(np.mean(returns))) / spread if spread > 1e-8 else 0.0 for value in returns]


@dataclass(frozen=True)
class GRPOConfig(OnPolicyConfig):
    """In the paper: learning rate 1e-6 (7B model), groups of 64, one step on a batch."""

    group: int = setting(4, "Episodes of each task; 64 in the paper.", least=2)
    epochs: int = setting(2, "Optimizer steps on a batch; 1 in the paper.", least=1)
    clip: float = setting(0.2, "eps: bound of a token's ratio, in both directions.")
    beta: float = setting(0.0, "Weight of the KL divergence to the initial policy; 0.04 in the paper.")


class GRPO(OnPolicyAlgorithm):
    """See the module."""

    name, title, Config = "grpo", "GRPO", GRPOConfig

    @property
    def uses_reference(self) -> bool:
        """For the KL divergence."""
        return bool(self.config.beta > 0)

    def advantages(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """Episodes of a task are a group."""
        return in_groups(episodes, standardized)

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """Equation 3, negated, with the estimator of the KL divergence of equation 4."""
        ratio = torch.exp(tokens.log_probs - tokens.sampled)
        gain = clipped_gain(ratio, tokens.advantages, self.config.clip)
        if self.uses_reference:
            gain = gain - self.config.beta * tokens.reference_divergence()
        return -tokens.mean_over_dialogues(gain)
