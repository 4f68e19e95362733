"""Turn-PPO (Li et al., arXiv:2512.17008), on-policy: PPO in a Markov decision process whose steps are turns, not tokens.

A state o_t is the dialogue up to the agent's turn t, an action a_t that turn as a whole, and the reward comes with the last turn.

1. In every iteration the current agent plays G episodes of each of P training tasks. A critic replaces the group, so G may be 1.
2. V(o_t) is read off the last token before turn t by a linear head on the policy's body. Advantages are GAE(gamma, lambda) over turns
(arXiv:1506.02438, equation 16), normalized over the batch.
3. Several steps on min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta D_KL[pi || pi_ref], with one rho and so one clip per turn, and on the squared
error of V to its target, the advantage before normalization plus the old value.

Differences from the paper: It trains a critic model of its own; here the critic shares the policy's body, and only its head has a rate of its own.

Limits: Written from accounts of the paper, for its text was not at hand. They give the turns' decision process, GAE and clip per turn, gamma, lambda
and the rates. How a turn's ratio is made of its tokens they leave open; `TurnPPO.policy_loss` says what follows from the decision process.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sweetrl_agent.algorithms.grpo import standardized
from sweetrl_agent.run import Run
from sweetrl_agent.trainers.on_policy import ActionTokens, Credit, OnPolicyAlgorithm, OnPolicyConfig, clipped_gain
from sweetrl_agent.trajectory import Trajectory


def turn_rewards(episode: Trajectory) -> list[float]:
    """Reward of every turn: the episode's in the last one, for turns have none of their own."""
    return [0.0] * (len(episode.turns) - 1) + [episode.reward]


def turn_gae(rewards: Sequence[float], values: Sequence[float], gamma: float, lam: float) -> list[float]:
    """Generalized advantage estimation over the turns of an episode; nothing follows the last one.

    Args:
        rewards: r_t of every turn.
        values: V(o_t) of every turn.
        gamma: Discount of a turn.
        lam: lambda; 0 trusts the next turn's value alone, 1 the rewards alone.

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


class TurnPPO(OnPolicyAlgorithm):
    """See the module.

    Attributes:
        gamma: Discount of a turn.
        lam: lambda.
        clip: eps.
        value_weight: Weight of the critic's squared error.
        beta: Weight of the KL divergence to the initial policy.
    """

    name = "turn_ppo"

    def __init__(self, config: OnPolicyConfig, gamma: float, lam: float, clip: float, value_weight: float, beta: float) -> None:
        """Take the configuration."""
        super().__init__(config)
        self.gamma, self.lam, self.clip, self.value_weight, self.beta = gamma, lam, clip, value_weight, beta

    def credit(self, episodes: Sequence[Trajectory], values: Sequence[Sequence[float]]) -> Credit:
        """Advantages of turns, normalized over all turns of the batch, and the targets of their values."""
        estimated = [
            turn_gae(turn_rewards(episode), before, self.gamma, self.lam)
            for episode, before in zip(episodes, values, strict=True)
        ]
        returns = [[a + v for a, v in zip(*both, strict=True)] for both in zip(estimated, values, strict=True)]
        normalized = iter(standardized([advantage for turns in estimated for advantage in turns]) if estimated else [])
        return Credit([[next(normalized) for _ in turns] for turns in estimated], returns)

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """PPO's clipped objective, negated, a mean over turns.

        The ratio of a turn is pi(a_t | o_t) / pi_old(a_t | o_t). The probability of an action is the product of its tokens' probabilities, so the
        ratio is exp of the *sum* of their log-ratios. Their mean (GSPO, arXiv:2507.18071; the Turn-PPO of arXiv:2511.20718) is another quantity: it
        lets a long turn go further from the policy that played than a short one.
        """
        zeros = torch.zeros_like(tokens.returns)
        ratio = torch.exp(zeros.index_add(0, tokens.turn, tokens.log_probs - tokens.sampled))
        advantages = zeros.scatter(0, tokens.turn, tokens.advantages)
        loss = -clipped_gain(ratio, advantages, self.clip).mean()
        return loss + self.beta * tokens.reference_divergence().mean() if self.beta else loss

    def loss(self, tokens: ActionTokens) -> Tensor:
        """The policy's loss and the critic's, a mean over turns too."""
        return self.policy_loss(tokens) + self.value_weight * (tokens.values - tokens.returns).square().mean()


def train(run: Run) -> None:
    """Episodes on the training tasks -> turn_ppo/agent/."""
    given = run.config.baselines
    config = OnPolicyConfig(
        given.turn_ppo_learning_rate, given.turn_ppo_iterations, given.turn_ppo_tasks, given.turn_ppo_group, given.turn_ppo_micro_batch,
        epochs=given.turn_ppo_epochs, uses_reference=given.turn_ppo_beta > 0, critic_learning_rate=given.turn_ppo_critic_learning_rate,
    )  # fmt: skip
    TurnPPO(
        config,
        given.turn_ppo_gamma,
        given.turn_ppo_lambda,
        given.turn_ppo_clip,
        given.turn_ppo_value_weight,
        given.turn_ppo_beta,
    ).train(run)
