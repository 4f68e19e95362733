"""Credit per turn in SkyRL (0.3): rows of `turn_credit` as a generator's output, and an estimator that takes rewards per token for advantages.

SkyRL's own estimators do not keep turns apart: grpo sums the rewards of a response, gae and reinforce++ discount per token. Import this module where the
trainer is built, and configure

    trainer.algorithm.advantage_estimator = "turn_credit"

Leave `trainer.algorithm.advantage_batch_normalize` off, as it is by default: its mean counts padding. Step-wise training ignores all rewards but the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator

from sweetrl_agent.bridges.turn_credit import TokenCredit


@register_advantage_estimator("turn_credit")
def as_given(token_level_rewards: Any, response_mask: Any, **others: Any) -> tuple[Any, Any]:
    """Advantages, and returns, are the rewards of the tokens that the agent sampled. Shapes (B, T)."""
    advantages = token_level_rewards * response_mask
    return advantages, advantages


def generator_output(rows: Sequence[TokenCredit]) -> dict[str, Any]:
    """Rows as what `GeneratorInterface.generate` returns. A void episode is masked."""
    return {
        "prompt_token_ids": [row.prompt_ids for row in rows],
        "response_ids": [row.completion_ids for row in rows],
        "rewards": [row.advantages for row in rows],
        "loss_masks": [row.mask if row.reward is not None else [0] * len(row.mask) for row in rows],
        "rollout_logprobs": [row.logprobs for row in rows],
        "stop_reasons": None,
        "rollout_metrics": None,
    }
