"""Implicit Language Q-Learning (Snell et al., arXiv:2206.11871): offline Q-learning over tokens that never asks for an action outside of the data.

1. Q_1, Q_2 and V are MLP heads on a copy of the initial policy's body, and all are trained. The action a_i is a token of the agent, s_i the dialogue
before it. s_(i+1) is the dialogue before the agent's *next* token: after the end of a turn, before the first token of the next turn. V is 0 after an
episode's end. The reward of a turn stands at its last token.
2. Loss, the mean over tokens of (section 4, with the released code's factors)
    sum over k of 1/2 (Q_k(s_i, a_i) - r_i - gamma V(s_(i+1)))^2
    + 1/2 |tau - 1[u < 0]| u^2  with  u = min_k Q'_k(s_i, a_i) - V(s_i)
    + cql times the sum over k of the cross-entropy of Q_k(s_i, .) as logits with a_i.
With tau near 1, V is the largest Q among the data's actions, so that Q becomes the optimal one within the data; 1/2 is SARSA.
3. The target heads Q' and their body follow by Polyak averaging after every step.
4. The agent samples from the softmax of log pi_beta + beta (min_k Q'_k - V); pi_beta is the initial policy, which stays as it is.

Source of constants: LMRL-Gym's code (arXiv:2311.18232), `LLM_RL/algorithms/ilql`. There, Maze is played by ranking the four legal moves by Q; here
every environment samples tokens. Where a limit of turns cuts an episode off, the state after it is not in the data, and the last token is left out of Q's loss;
there it counts as an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.critics.token_values import TokenEstimates
from sweetrl_agent.trainers.token_values import ValueAlgorithm, ValueConfig, values_work


@dataclass(frozen=True)
class ILQLConfig(ValueConfig):
    """Settings of ILQL."""

    cql: float = setting(0.01, "Weight of the CQL term; released: 0 on Maze and Text-Nav, 0.1 on Car Dealer, 0.01 elsewhere.")
    tau: float = setting(
        0.7, "Expectile of V; released: 0.95 on Maze, 0.8 on Text-Nav, 0.5 on Car Dealer, 0.7 elsewhere.", most=1
    )
    polyak: float = setting(0.005, "Rate at which the target follows, per optimizer step; released: 0.005.", most=1)


def expectile_loss(gap: Tensor, tau: float) -> Tensor:
    """1/2 |tau - 1[u < 0]| u^2 of gaps u, of any shape. Source: Kostrikov et al., arXiv:2110.06169, section 4."""
    return 0.5 * (tau - (gap < 0).to(gap.dtype)).abs() * gap.square()


def ilql_loss(estimates: TokenEstimates, gamma: float, tau: float, cql: float) -> Tensor:
    """The loss of the module's docstring, of a batch."""
    v, target_q = estimates.v, estimates.target_q
    if v is None or target_q is None:
        raise ValueError("The loss of ILQL needs estimates with V and a target.")
    following = torch.where(estimates.is_last, 0.0, v.roll(-1)).detach()
    errors = estimates.taken - (estimates.rewards + gamma * following)
    if estimates.is_cut is not None:
        errors = errors[:, ~estimates.is_cut]
    of_q = 0.5 * errors.square().sum() / max(errors.shape[1], 1)  # mean over tokens, of which none may be left, sum over heads
    return of_q + expectile_loss(target_q - v, tau).mean() + cql * estimates.cql_loss()


class ILQL(ValueAlgorithm):
    """Implicit Language Q-Learning; see the module's docstring."""

    name, title, Config, bootstraps = "ilql", "ILQL", ILQLConfig, True

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`."""
        return {self.name: values_work(run, self.config, lengths, bootstraps=True)}

    def loss(self, estimates: TokenEstimates) -> Tensor:
        """`ilql_loss`."""
        return ilql_loss(estimates, self.config.gamma, self.config.tau, self.config.cql)
