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
from dataclasses import dataclass

import torch
from torch import Tensor

from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.critics.token_values import TokenEstimates
from sweetrl_agent.trainers.token_values import load_perturbed, train_values, values_work


@dataclass(frozen=True)
class MCConfig:
    """Settings of Monte Carlo returns. "Released" is LMRL-Gym's code, with GPT-2."""

    learning_rate: float = setting(1e-3, "Learning rate of the values; released: 1e-4 on Maze, 1e-5 on Wordle.")
    muon_learning_rate: float = setting(
        0.0,
        "Learning rate of Muon, for all matrices but embeddings; `learning_rate` is then for the rest. 0 for AdamW alone, as released.",
    )
    batch: int = setting(32, "Dialogues per optimizer step; released: 32.", least=1)
    epochs: float = setting(4.0, "Epochs over the behaviour data; released: 1, on more data.")
    gamma: float = setting(0.99, "Discount per token of the agent; released: 0.99.", most=1)
    cql: float = setting(0.01, "Weight of the CQL term; released: 0 on Maze, 0.1 on Car Dealer, 0.01 elsewhere.")
    reward_scale: float = setting(
        1.0,
        "Rewards are divided by it, so that values are of the order of 1: choose a usual return. None in the released code.",
        above=0,
    )
    beta: float = setting(16.0, "Weight of Q in the logits that actions are sampled from; released: 8 on Maze, 16 elsewhere.")


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
    return 0.5 * (estimates.taken - targets).square().mean() + cql * estimates.imitation()


class MonteCarlo(Algorithm):
    """Monte Carlo returns; see the module's docstring."""

    name, title, Config = "mc", "Monte Carlo returns", MCConfig
    shared, requires, engines = START, frozenset({"behaviour"}), ("transformers",)

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`."""
        return {self.name: values_work(run, self.settings(run), lengths, bootstraps=False)}

    def train(self, run: Run) -> None:
        """Train Q on the behaviour data; writes mc/agent/."""
        config = self.settings(run)

        def loss(estimates: TokenEstimates) -> Tensor:
            return mc_loss(estimates.scaled(config.reward_scale), config.gamma, config.cql)

        train_values(run, self.name, run.path(self.policy), config, loss, bootstraps=False)

    def load(self, run: Run) -> Policy:
        """Load the initial policy, perturbed by Q."""
        return load_perturbed(run, run.path(self.policy), self.settings(run).beta, bootstraps=False)
