"""Turn-PPO (Li et al., arXiv:2512.17008), on-policy: PPO in a Markov decision process with turns, not tokens, as steps.

A state o_t is the dialogue up to the agent's turn t, an action a_t is that whole turn, and every turn has its own reward.

1. In every iteration the current policy plays G episodes of each of P training tasks. A critic replaces the group baseline, so G may be 1.
2. V(o_t) is computed at the last token before turn t by a linear head on the policy's body. Advantages are GAE(gamma, lambda) over turns
(arXiv:1506.02438, equation 16), normalized over the batch.
3. Several optimizer steps on min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta D_KL[pi || pi_ref], with one rho and one clip per turn, and on the
squared error of V to its target, the advantage before normalization plus the old value.

With the setting `asymmetric` the value is V(o_t, c) of the dialogue and the hidden information c: the head reads c before the dialogue, in a pass of its own. The
policy never does. As V(o_t, c) depends on the whole dialogue o_t, it is a baseline that leaves the policy gradient unbiased (Baisero and Amato,
arXiv:2105.11674). SWEET-RL has two ideas, credit from hidden information and preferences between turns instead of values; this is the first alone.

Differences from the paper: The paper trains a separate critic model. Here the critic shares the policy's body, and only its head has its own
learning rate.

Limits: Written from secondary sources, since the paper's text was not available. They state the turn-level decision process, GAE and clip per turn,
gamma, lambda and the learning rates. They do not state how a turn's ratio is computed from its tokens; `TurnPPO.policy_loss` derives it from the
decision process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sweetrl_agent.algorithms.grpo import standardized
from sweetrl_agent.core.batch import ActionTokens, Batch, Credit, clipped_gain
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig


def turn_gae(rewards: Sequence[float], values: Sequence[float], gamma: float, lam: float) -> list[float]:
    """Generalized advantage estimation over the turns of an episode; the last turn is terminal.

    Args:
        rewards: r_t of every turn.
        values: V(o_t) of every turn.
        gamma: Discount per turn.
        lam: lambda; 0 is one-step temporal difference, 1 is Monte Carlo.

    Returns:
        A_t = sum over l of (gamma lambda)^l (r_(t+l) + gamma V(o_(t+l+1)) - V(o_(t+l))).
    """
    advantages: list[float] = []
    advantage, following = 0.0, 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + gamma * following - value + gamma * lam * advantage
        following = value
        advantages.insert(0, advantage)
    return advantages


def gae_credit(rewards: Sequence[Sequence[float]], values: Sequence[Sequence[float]], gamma: float, lam: float) -> Credit:
    """Advantages of all steps of a batch by `turn_gae`, normalized over the batch, and targets of their values, which are not."""
    estimated = [turn_gae(*row, gamma, lam) for row in zip(rewards, values, strict=True)]
    returns = [[a + v for a, v in zip(*both, strict=True)] for both in zip(estimated, values, strict=True)]
    normalized = iter(standardized([advantage for steps in estimated for advantage in steps]) if estimated else [])
    return Credit([[next(normalized) for _ in steps] for steps in estimated], returns)


@dataclass(frozen=True)
class TurnPPOConfig(OnPolicyConfig):
    """Settings of Turn-PPO. Learning rates are from a search on a seed that no comparison uses."""

    learning_rate: float = setting(3e-4, "Learning rate of the policy; 1e-6 in the paper (3B model).")
    critic_learning_rate: float = setting(
        3e-3, "Learning rate of the value head, ten times the policy's; 1e-5 in the paper, for a critic model."
    )
    tasks: int = setting(60, "Tasks per batch.", least=1)
    group: int = setting(1, "Episodes per task; 1 in the paper.", least=1)
    epochs: int = setting(2, "Optimizer steps per batch.", least=1)
    gamma: float = setting(0.99, "Discount per turn; 0.99 in the paper.", most=1)
    lam: float = setting(0.9, "lambda of generalized advantage estimation over turns; 0.9 in the paper.", most=1)
    clip: float = setting(0.2, "Clip range eps of a turn's ratio.")
    first_value: float = setting(0.0, "Value of every state before training: a usual return of the task.", least=None)
    value_weight: float = setting(
        0.5,
        "Weight of the value head's squared error. Lower it for large returns: they outweigh the policy's loss in the body that both train.",
    )
    beta: float = setting(
        0.0, "Weight of the KL divergence to the initial policy; 0.001 in the paper, according to a secondary source."
    )
    asymmetric: bool = setting(
        False, "The value head reads the hidden information, in a pass of its own; the policy does not. The paper's does not."
    )


class TurnPPO(OnPolicyAlgorithm):
    """Turn-PPO; see the module's docstring."""

    name, title, Config = "turn_ppo", "Turn-PPO", TurnPPOConfig
    averages_over = "turns"

    def credit(self, batch: Batch) -> Credit:
        """Advantages of turns, normalized over all turns of the batch, and targets of their values."""
        rewards = [[turn.reward for turn in episode.turns] for episode in batch.episodes]
        return gae_credit(rewards, batch.values, self.config.gamma, self.config.lam)

    def turn_credit(self, batch: Batch, turns: Sequence[int]) -> list[float]:
        """See `OnPolicyAlgorithm`: the advantage before it is normalized."""
        rows = [[turn.reward for turn in episode.turns] for episode in batch.episodes]
        estimated = [turn_gae(*row, self.config.gamma, self.config.lam) for row in zip(rows, batch.values, strict=True)]
        return [of_episode[turn - 1] for of_episode, turn in zip(estimated, turns, strict=True)]

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """PPO's clipped objective, negated, averaged over turns.

        The ratio of a turn is pi(a_t | o_t) / pi_old(a_t | o_t). The probability of an action is the product of its tokens' probabilities, so the
        ratio is exp of the *sum* of their log-ratios. Their mean (GSPO, arXiv:2507.18071; the Turn-PPO of arXiv:2511.20718) is a different quantity:
        it allows a long turn to deviate further from the sampling policy than a short one.
        """
        zeros = torch.zeros_like(tokens.returns)
        ratio = torch.exp(zeros.index_add(0, tokens.turn, tokens.log_probs - tokens.sampled))
        advantages = zeros.scatter(0, tokens.turn, tokens.advantages)
        loss = -clipped_gain(ratio, advantages, self.config.clip).mean()
        return loss + self.config.beta * tokens.reference_divergence().mean() if self.uses_reference else loss

    def loss(self, tokens: ActionTokens) -> Tensor:
        """The policy's loss plus the critic's squared error, also averaged over turns."""
        return self.policy_loss(tokens) + self.config.value_weight * (tokens.values - tokens.returns).square().mean()
