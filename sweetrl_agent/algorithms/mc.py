"""Monte Carlo returns: regression of Q on the return that followed each token of the behaviour data, then one step of policy improvement.

1. Q(s_i, .) is an MLP head on a copy of the initial policy's body, and both are trained. The action a_i is a token of the agent, s_i the dialogue
before it. The target of Q(s_i, a_i) is the discounted sum of rewards from a_i on, G_i = sum over j >= i of gamma^(j - i) r_j; j counts tokens of the
agent only, and the reward of a turn stands at its last token.
2. Loss: the mean over tokens of 1/2 (Q(s_i, a_i) - G_i)^2, plus `cql` times the cross-entropy of Q(s_i, .) as logits with a_i.
3. The agent samples from the softmax of log pi_beta + beta Q; pi_beta is the initial policy, which stays as it is.

Source: arXiv:2311.18232 (MC returns) and its code, `LLM_RL/algorithms/mc_returns`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.critics.token_values import TokenEstimates
from sweetrl_agent.trainers.token_values import ValueAlgorithm, values_work


def returns_to_go(rewards: Tensor, is_last: Tensor, gamma: float) -> Tensor:
    """Discounted sum of rewards from each action token on, within its dialogue.

    Args:
        rewards: Rewards of the action tokens, dialogue after dialogue. Shape (N,).
        is_last: Whether a token is the last action of its dialogue. Shape (N,).
        gamma: Discount per action token.
    """
    returns: list[float] = []
    following = 0.0
    for reward, ends in zip(reversed(rewards.tolist()), reversed(is_last.tolist()), strict=True):
        following = reward + (0.0 if ends else gamma * following)
        returns.append(following)
    return torch.tensor(returns[::-1], dtype=rewards.dtype, device=rewards.device)


def mc_loss(estimates: TokenEstimates, gamma: float, cql: float) -> Tensor:
    """The loss of the module's docstring, of a batch."""
    targets = returns_to_go(estimates.rewards, estimates.is_last, gamma)
    return 0.5 * (estimates.taken - targets).square().mean() + cql * estimates.cql_loss()


class MonteCarlo(ValueAlgorithm):
    """Monte Carlo returns; see the module's docstring."""

    name, title = "mc", "Monte Carlo returns"

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`."""
        return {self.name: values_work(run, self.config, lengths, bootstraps=False)}

    def loss(self, estimates: TokenEstimates) -> Tensor:
        """`mc_loss`."""
        return mc_loss(estimates, self.config.gamma, self.config.cql)
