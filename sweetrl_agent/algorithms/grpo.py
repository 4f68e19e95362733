"""GRPO (Shao et al., arXiv:2402.03300) over dialogues, on-policy.

1. In every iteration the current policy plays G episodes of each of P training tasks.
2. The advantage of every turn of episode i is (r_i - mean(r)) / std(r) over its group (section 4.1.2, outcome supervision).
3. Several optimizer steps on min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta D_KL[pi || pi_ref], averaged over the tokens of a dialogue and then
over dialogues (equation 3). rho is pi / pi_old of a sampled token; user messages are context and are not scored.
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
    """(r - mean(r)) / std(r); 0 for all if the returns are equal."""
    spread = float(np.std(returns))
    return [(value - float(np.mean(returns))) / spread if spread > 1e-8 else 0.0 for value in returns]


@dataclass(frozen=True)
class GRPOConfig(OnPolicyConfig):
    """Settings of GRPO. In the paper: learning rate 1e-6 (7B model), groups of 64, one step per batch."""

    group: int = setting(4, "Episodes per task; 64 in the paper.", least=2)
    epochs: int = setting(2, "Optimizer steps per batch; 1 in the paper.", least=1)
    clip: float = setting(0.2, "Clip range eps of a token's ratio.")
    beta: float = setting(0.0, "Weight of the KL divergence to the initial policy; 0.04 in the paper.")


class GRPO(OnPolicyAlgorithm):
    """GRPO; see the module's docstring."""

    name, title, Config = "grpo", "GRPO", GRPOConfig

    @property
    def uses_reference(self) -> bool:
        """True if the loss has a KL term."""
        return bool(self.config.beta > 0)

    def advantages(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """Group-relative advantages; the episodes of a task form a group."""
        return in_groups(episodes, standardized)

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """Equation 3, negated, with the KL estimator of equation 4."""
        ratio = torch.exp(tokens.log_probs - tokens.sampled)
        gain = clipped_gain(ratio, tokens.advantages, self.config.clip)
        if self.uses_reference:
            gain = gain - self.config.beta * tokens.reference_divergence()
        return -tokens.mean_over_dialogues(gain)
