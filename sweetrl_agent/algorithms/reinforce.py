"""REINFORCE with a leave-one-out baseline (RLOO; Ahmadian et al., arXiv:2402.14740) over turns, on-policy.

    1. In every iteration the current policy plays G episodes of each of P training tasks.
    2. The advantage of every turn is the episode's return minus the mean return of the other G - 1 episodes of the task.
    3. One policy-gradient step; user messages are context and are not scored.

It requires no capability of the environment, and by default plays as many episodes as the other algorithms collect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sweetrl_agent.core.batch import ActionTokens, Batch, Credit
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.groups import in_groups
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig


def leave_one_out(returns: Sequence[float]) -> list[float]:
    """Each return minus the mean of the others; 0 for a single return."""
    others = len(returns) - 1
    return [value - (sum(returns) - value) / others if others else 0.0 for value in returns]


@dataclass(frozen=True)
class ReinforceConfig(OnPolicyConfig):
    """Settings of REINFORCE. One step per iteration, as in the paper."""

    group: int = setting(4, "Episodes per task.", least=2)
    truncation: float = setting(2.0, "Maximum importance weight of a token sampled by an older policy.", above=0)


class Reinforce(OnPolicyAlgorithm):
    """REINFORCE with a leave-one-out baseline; see the module's docstring."""

    name, title, Config = "reinforce", "REINFORCE, leave-one-out", ReinforceConfig

    def credit(self, batch: Batch) -> Credit:
        """Leave-one-out advantages; the episodes of a task form a group."""
        return Credit(in_groups(batch.episodes, leave_one_out))

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """Policy-gradient loss with truncated importance weights, which are near 1 unless tokens are stale, as from the second epoch on."""
        return -(tokens.advantages * tokens.staleness_weights(self.config.truncation) * tokens.log_probs).mean()
