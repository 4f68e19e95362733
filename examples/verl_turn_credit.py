"""Credit per turn in verl (0.9): an estimator that takes scores per token for advantages. Read against 0.9.1's source, not run: verl needs a GPU.

A registered estimator gets `token_level_rewards`, `response_mask`, `index` and the configuration, and nothing else of the batch; `turn_scores` of an agent loop
are collected and not used. So the credit has to be `rm_scores`, of which both built-in agent loops write the last token alone:

* v1 trainer (the default): an agent loop of your own whose output class overrides `as_dict()` and sets `rm_scores` to the advantages of a row of
  `turn_credit`, padded to the response. v0: override `_postprocess`.
* `algorithm.adv_estimator=turn_credit`, `algorithm.use_kl_in_reward=False` (the divergence would be added to the credit), and import this module in the trainer.
"""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.core_algos import register_adv_est


@register_adv_est("turn_credit")
def as_given(token_level_rewards: Any, response_mask: Any, **others: Any) -> tuple[Any, Any]:
    """Advantages, and returns, are the scores of the tokens that the agent sampled. Shapes (B, T)."""
    advantages = token_level_rewards * response_mask
    return advantages, advantages
