"""GRPO (Shao et al., arXiv:2402.03300) over dialogues, on-policy.

1. In every iteration the current policy plays G episodes of each of P training tasks.
2. The advantage of every turn of episode i is (r_i - mean(r)) / std(r) over its group (section 4.1.2, outcome supervision).
3. Several optimizer steps on min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta D_KL[pi || pi_ref], averaged over the tokens of a dialogue and then
over the dialogues with an advantage other than 0 (equation 3; the others have no gradient, unless beta is above 0: then all count). rho is pi / pi_old of a sampled token; user messages are context and are not scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sweetrl_agent.core.batch import ActionTokens, Batch, Credit, clipped_gain
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.groups import in_groups
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig


def standardized(returns: Sequence[float]) -> list[float]:
    """(r - mean(r)) / std(r); 0 for all if the returns are equal."""
    spread = float(np.std(returns))
    return [(value - float(np.mean(returns))) / spread if spread > 1e-8 else 0.0 for value in returns]


@dataclass(frozen=True)
class GRPOConfig(OnPolicyConfig):
    """Settings of GRPO."""

    learning_rate: float = setting(3e-4, "AdamW's; 1e-6 in the paper (7B model).")
    group: int = setting(4, "Episodes per task; 64 in the paper.", least=2)
    epochs: int = setting(2, "Optimizer steps per batch; 1 in the paper.", least=1)
    clip: float = setting(0.2, "Clip range eps of a token's ratio.")
    beta: float = setting(0.0, "Weight of the KL divergence to the initial policy; 0.04 in the paper.")


class GRPO(OnPolicyAlgorithm):
    """GRPO; see the module's docstring."""

    name, title, Config = "grpo", "GRPO", GRPOConfig
    averages_over = "dialogues"

    def credit(self, batch: Batch) -> Credit:
        """Group-relative advantages; the episodes of a task form a group."""
        return Credit(in_groups(batch.episodes, standardized))

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """Equation 3, negated, with the KL estimator of equation 4."""
        ratio = torch.exp(tokens.log_probs - tokens.sampled)
        gain = clipped_gain(ratio, tokens.advantages, self.config.clip)
        if self.uses_reference:
            gain = gain - self.config.beta * tokens.reference_divergence()
        return -tokens.mean_over_dialogues(gain)
