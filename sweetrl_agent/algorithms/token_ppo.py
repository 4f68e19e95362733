"""PPO over tokens (Schulman et al., arXiv:1707.06347) as LMRL-Gym uses it (Abdulhai et al., arXiv:2311.18232), on-policy.

A state s_i is everything before the agent's i-th token of an episode, and an action a_i is that token. i counts the agent's tokens through all
turns: the state after the last token of a turn is the one before the first token of the next turn, with the user's message in it.

1. In every iteration the current policy plays episodes of P training tasks. The return needs no group, so one per task is enough.
2. The reward of a turn is given for its last token, and every token costs beta (log pi_old - log pi_ref), an estimate of the KL divergence from
the initial policy (arXiv:1909.08593, section 2).
3. V(s_i) is a linear head on the policy's body, at the token before a_i. Advantages are GAE(gamma, lambda) over tokens (arXiv:1506.02438, equation
16); V is 0 after the last token. They are normalized over the batch; the targets of V are the advantages before that plus the old values.
4. Several optimizer steps on the clipped objective of a token's ratio and on the clipped error of V.

With the setting `asymmetric` the head reads the hidden information too; see `turn_ppo`.

It is compared with `turn_ppo`, which takes whole turns for actions; the name `ppo` is that of Stable-Baselines3's, over discrete actions.

Differences from the released code (losses in `LLM_RL/algorithms/ppo`, defaults in the scripts of the tasks): An optimizer step is on the whole batch, not
on 32 dialogues of it. The head has its own learning rate. Two terms are left out: an adaptive beta,
which no script turns on, and behaviour cloning on the data set, which has the weight 1 in the scripts of Text-Nav, Wordle and the dialogues, and 0 in the
maze's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sweetrl_agent.algorithms.turn_ppo import gae_credit
from sweetrl_agent.core.batch import ActionTokens, Batch, Credit, clipped_gain
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig


def token_rewards(episode: Episode, reference: Sequence[float], beta: float) -> list[float]:
    """Reward of every action token of an episode.

    Args:
        episode: The episode.
        reference: Log-probability of every action token under the initial policy, in nats; empty without a KL penalty.
        beta: Weight of the penalty.

    Returns:
        r_i = (reward of the turn if a_i is its last token, else 0) - beta (log pi_old(a_i | s_i) - log pi_ref(a_i | s_i)).
    """
    rewards = [reward for turn in episode.turns for reward in (*[0.0] * (len(turn.token_ids) - 1), turn.reward)]
    if not beta:
        return rewards
    sampled = [log_prob for turn in episode.turns for log_prob in turn.log_probs]
    return [reward - beta * (old - first) for reward, old, first in zip(rewards, sampled, reference, strict=True)]


@dataclass(frozen=True)
class TokenPPOConfig(OnPolicyConfig):
    """Settings of PPO over tokens. "Scripts" are those that LMRL-Gym released; its paper's table has other values per task."""

    learning_rate: float = setting(
        3e-4, "Learning rate of the policy; 1e-5 in the scripts (GPT-2), 1e-7 for whole games of chess."
    )
    critic_learning_rate: float = setting(
        3e-3, "Learning rate of the value head, ten times the policy's; the policy's in the scripts."
    )
    tasks: int = setting(60, "Tasks per batch; the scripts play 128 episodes.", least=1)
    group: int = setting(1, "Episodes per task.", least=1)
    epochs: int = setting(4, "Optimizer steps per batch; in the scripts one epoch of batches of 32 dialogues.", least=1)
    gamma: float = setting(0.99, "Discount per token; 0.99 or 1 in the scripts.", most=1)
    lam: float = setting(0.95, "lambda of generalized advantage estimation over tokens.", most=1)
    clip: float = setting(0.2, "Clip range eps of a token's ratio.")
    value_clip: float = setting(
        0.2,
        "Largest change of a value within an iteration that the critic's loss rewards; 0 for no clip. Raise it for large returns.",
    )
    first_value: float = setting(
        0.0, "Value of every state before training; a usual return of the task in the scripts (-4.1 on Wordle).", least=None
    )
    value_weight: float = setting(
        0.5,
        "Weight of the critic's loss; 0.5 (maze) or 1 in the scripts. Lower it for large returns: squared errors of returns of -50 outweigh the policy's loss "
        "in the body that both train.",
    )
    beta: float = setting(0.001, "Weight of the KL penalty of every token's reward.")
    asymmetric: bool = setting(
        False, "The value head reads the hidden information, in a pass of its own; the policy does not. The paper's does not."
    )


class TokenPPO(OnPolicyAlgorithm):
    """PPO over tokens; see the module's docstring."""

    name, title, Config = "token_ppo", "PPO over tokens", TokenPPOConfig
    values_per_token = True

    def credit(self, batch: Batch) -> Credit:
        """Advantages of tokens, normalized over all tokens of the batch, and targets of their values."""
        config = self.config
        reference = batch.reference() if self.uses_reference else [[]] * len(batch.episodes)
        rewards = [token_rewards(*row, config.beta) for row in zip(batch.episodes, reference, strict=True)]
        return gae_credit(rewards, batch.values, config.gamma, config.lam)  # a step is a token

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """PPO's clipped objective (arXiv:1707.06347, equation 7), negated, averaged over tokens."""
        ratio = torch.exp(tokens.log_probs - tokens.sampled)
        return -clipped_gain(ratio, tokens.advantages, self.config.clip).mean()

    def value_loss(self, tokens: ActionTokens) -> Tensor:
        """Half the larger of the squared errors of V and of V clipped to V_old +- `value_clip`, averaged over tokens.

        The gradient is 0 where V has moved further than that towards its target. The clip is that of OpenAI Baselines; the paper has none.
        """
        error = (tokens.values - tokens.returns).square()
        if self.config.value_clip:
            change = (tokens.values - tokens.old_values).clamp(-self.config.value_clip, self.config.value_clip)
            error = torch.maximum(error, (tokens.old_values + change - tokens.returns).square())
        return 0.5 * error.mean()

    def loss(self, tokens: ActionTokens) -> Tensor:
        """The policy's loss plus the critic's."""
        return self.policy_loss(tokens) + self.config.value_weight * self.value_loss(tokens)
