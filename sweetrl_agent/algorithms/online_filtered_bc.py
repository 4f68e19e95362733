"""Online filtered behaviour cloning (Abdulhai et al., LMRL-Gym, arXiv:2311.18232): SFT on the best of the policy's own episodes.

1. In every iteration the current policy plays episodes of P training tasks.
2. The fraction `keep` of them with the highest returns is kept, over all tasks of the iteration.
3. Optimizer steps on the negative log-likelihood of the agent's tokens in them, as they were sampled; user messages are context.

Step 3 is the policy gradient with the advantage 1 for every turn of a kept episode and 0 for all others, so this file defines only that advantage.
`rft` differs in two ways: it learns from episodes of the initial policy, and it keeps those that pass enough tests.

Differences from the released code: Its scripts for Wordle keep a fraction, as here. Those for the maze and for chess compute none: they keep every episode
that ends with success, whatever its return. An optimizer step is on all kept episodes, not on batches of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig


def best_fraction(returns: Sequence[float], keep: float) -> list[int]:
    """Indices of the highest returns, in order.

    Args:
        returns: One number per episode.
        keep: Fraction that is kept, rounded to a whole number of episodes, at least one; the earlier of two equal returns is kept first.
    """
    ranked = sorted(range(len(returns)), key=lambda i: -returns[i])
    return sorted(ranked[: max(1, round(keep * len(returns)))])


@dataclass(frozen=True)
class OnlineFilteredBCConfig(OnPolicyConfig):
    """Settings of online filtered behaviour cloning. "Scripts" are those that LMRL-Gym released."""

    learning_rate: float = setting(3e-4, "AdamW's; 1e-5 (Wordle) or 1e-4 (maze, chess) in the scripts, for GPT-2.")
    tasks: int = setting(60, "Tasks per iteration; the scripts play 128 episodes.", least=1)
    group: int = setting(1, "Episodes per task.", least=1)
    epochs: int = setting(
        2, "Optimizer steps per iteration, each on all kept episodes; in the scripts one epoch of batches.", least=1
    )
    keep: float = setting(0.3, "Fraction of the episodes of an iteration that is trained on; 1 for all.", above=0, most=1)


class OnlineFilteredBC(OnPolicyAlgorithm):
    """Online filtered behaviour cloning; see the module's docstring."""

    name, title, Config = "online_filtered_bc", "Online filtered BC", OnlineFilteredBCConfig

    def credit(self, batch: Batch) -> Credit:
        """1 for every turn of the best fraction of the episodes, 0 for all others, which the trainer skips."""
        kept = {*best_fraction([episode.reward for episode in batch.episodes], self.config.keep)}
        return Credit([[float(i in kept)] * len(episode.turns) for i, episode in enumerate(batch.episodes)])
