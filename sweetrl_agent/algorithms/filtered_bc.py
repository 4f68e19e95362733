"""Filtered behaviour cloning (%BC): SFT on the episodes of the behaviour data with the highest returns.

1. Read the behaviour data, the same that made the initial policy.
2. Keep the fraction p of episodes with the highest returns. Returns equal to the lowest one kept are kept too, so with few different returns more
than p may remain.
3. Maximise the likelihood of the agent's turns in them; user messages are context and have no loss.

Differences from the paper: It fine-tunes the initial policy, which has been trained on all of the data, as all algorithms here start from it. The
released code starts from the language model.

Source: arXiv:2311.18232 (%BC); the threshold is the percentile of its `filter_items`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweetrl_agent.algorithms.rft import fine_tune
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work, training


@dataclass(frozen=True)
class FilteredBCConfig:
    """Settings of filtered behaviour cloning. Learning rate, batch and epochs are those of rejection fine-tuning."""

    fraction: float = setting(0.1, "Fraction p of the episodes that is kept; 0.1 in the paper.", least=None, above=0, most=1)
    learning_rate: float = setting(1e-3, "Learning rate of filtered behaviour cloning; 1e-4 in the released code (GPT-2).")
    batch: int = setting(8, "Dialogues per optimizer step; 128 in the released code.", least=1)
    epochs: float = setting(6.0, "Epochs over the kept episodes; 1 in the released code.")


def best_fraction(episodes: Sequence[Episode], fraction: float) -> list[Episode]:
    """Episodes with a return of at least the quantile 1 - fraction of all returns (linear interpolation), in their order."""
    least = np.quantile([episode.reward for episode in episodes], 1 - fraction)
    return [episode for episode in episodes if episode.reward >= least]


class FilteredBC(Algorithm):
    """Filtered behaviour cloning; see the module's docstring."""

    name, title, Config = "filtered_bc", "Filtered behaviour cloning", FilteredBCConfig
    shared, requires = START, frozenset({"behaviour"})

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`."""
        config = self.config
        count = run.config.sft.sft_dialogues * config.fraction
        work = Work(f"about {count:,.0f} episodes, {config.epochs:g} epochs")
        rows = lengths.rows(count, run.config.model.history)
        return {self.name: work + training(*rows, config.batch, config.batch, config.epochs)}

    def train(self, run: Run) -> None:
        """Train on the best of the behaviour data; writes filtered_bc/agent/."""
        from sweetrl_agent.trainers.offline import offline_episodes

        config = self.config
        fine_tune(run, self.name, best_fraction(offline_episodes(run), config.fraction), config, run.path(self.policies[AGENT]))
