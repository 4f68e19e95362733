"""REINFORCE with a leave-one-out baseline over turns (RLOO; Ahmadian et al., arXiv:2402.14740), on-policy.

    1. In every iteration the current agent plays G episodes of each of P training tasks.
    2. Every turn's advantage is the episode's return less the mean return of the other G - 1 episodes of the task.
    3. One step along the policy gradient; the human's words are read and never scored.

It needs nothing of the environment beyond episodes, and plays as many of them as the other algorithms collect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.on_policy import ActionTokens, OnPolicyAlgorithm, OnPolicyConfig
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.groups import in_groups


def leave_one_out(returns: Sequence[float]) -> list[float]:
    """Each return less the mean of the others; 0 for a return without others."""
    others = len(returns) - 1
    return [value - (sum(returns) - value) / others if others else 0.0 for value in returns]


@dataclass(frozen=True)
class ReinforceConfig(OnPolicyConfig):
    """One step on the episodes of an iteration, as in the paper."""

    group: int = setting(4, "Episodes of each task.", least=2)
    truncation: float = setting(
        2.0, "Largest importance weight of a token whose policy is older than that in training.", above=0
    )


class Reinforce(OnPolicyAlgorithm):
    """See the module."""

    name, title, Config = "reinforce", "REINFORCE, leave-one-out", ReinforceConfig

    def advantages(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """Episodes of a task are a group."""
        return in_groups(episodes, leave_one_out)

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """The policy gradient, negated; weights near 1 unless the tokens are stale, as from the second epoch on."""
        return -(tokens.advantages * tokens.staleness_weights(self.config.truncation) * tokens.log_probs).mean()
