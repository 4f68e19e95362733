"""Rejection fine-tuning (arXiv:2503.15478, section 5.1; also STaR, filtered behaviour cloning): SFT on the policy's own successes.

1. Collect k trajectories per task with the initial policy (shared with the other algorithms).
2. Keep those that pass all tests (or a fraction of `min_best`), and of those the best of each task, since pages are never fully right.
3. Maximise the likelihood of the agent's turns in them; user messages are context and have no loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers

from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import EXPECTED_SHARE, Lengths, Work, training
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.models.loading import initial_model, load_tokenizer, system_prompt
from sweetrl_agent.rollouts.collection import NothingToLearnError, iter_trajectories, lost_turns
from sweetrl_agent.trainers.running import trainer_arguments


@dataclass(frozen=True)
class RFTConfig:
    """Settings of rejection fine-tuning. Defaults are from a hyperparameter search with equal budgets for all algorithms."""

    learning_rate: float = setting(1e-3, "Learning rate of rejection fine-tuning; 2e-7 in the paper (8B model).")
    batch: int = setting(8, "Dialogues per optimizer step; 32 in the paper.", least=1)
    epochs: float = setting(6.0, "Epochs; 4 in the paper.")


def best_of_each_task(trajectories: Iterable[Episode], metric: str, least: float) -> list[Episode]:
    """Trajectories with a metric of at least `least` that are the best of their task, ties included."""
    valid = [t for t in trajectories if not t.is_void]
    best: dict[str, float] = {}
    for episode in valid:
        best[episode.task_id] = max(best.get(episode.task_id, -math.inf), float(episode.metrics[metric]))
    return [t for t in valid if float(t.metrics[metric]) >= max(least, best[t.task_id])]


class RejectionFineTuning(Algorithm):
    """Rejection fine-tuning; see the module's docstring."""

    name, title, Config = "rft", "Rejection fine-tuning", RFTConfig

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`."""
        config, count = self.config, len(run.tasks) * run.config.collect.trajectories_per_task
        rows = lengths.rows(count * EXPECTED_SHARE, run.config.model.history)
        work = Work(f"at most {count:,} episodes, {config.epochs:g} epochs")
        return {self.name: work + training(*rows, config.batch, config.batch, config.epochs)}

    def train(self, run: Run) -> None:
        """Train on trajectories.jsonl; writes rft/agent/.

        Raises:
            NothingToLearnError: If no trajectory succeeded.
        """
        _train(run, self.config, run.path(self.policies[AGENT]))


def _train(run: Run, config: RFTConfig, folder: Path) -> None:
    kept = best_of_each_task(iter_trajectories(run), run.record.metric, run.config.collect.min_best)
    if not kept:
        raise NothingToLearnError(
            f"No trajectory passes {run.config.collect.min_best:.0%} of its tests, so there is nothing to train on. Lower `--min_best`, or "
            f"start another run with more tasks, more SFT, or a better model.{lost_turns(run)}"
        )
    fine_tune(run, "rft", kept, config, folder)


def fine_tune(run: Run, stage: str, episodes: Iterable[Episode], config: Any, folder: Path, is_merged: bool = False) -> None:
    """SFT of the initial policy on the agent's turns of episodes.

    Args:
        run: The run.
        stage: Name of the stage in the metrics.
        episodes: The episodes.
        config: Settings `learning_rate`, `batch` and `epochs`.
        folder: Folder of the trained policy.
        is_merged: Whether a trained adapter is merged into the weights.
    """
    # here, as in all algorithms: trainers take seconds to import, and reading the settings imports this module
    from trl import SFTConfig, SFTTrainer

    from sweetrl_agent.trainers.sft import sft_dataset
    from sweetrl_agent.trainers.stage_training import train_stage

    transformers.set_seed(run.seed)
    tokenizer = load_tokenizer(run.initial_model, run.config.model)
    instructions = system_message(system_prompt(run.config.model))
    arguments: dict[str, Any] = trainer_arguments(
        folder, run.seed, run.config.model, config.batch, config.batch, config.learning_rate, config.epochs
    )
    trainer = SFTTrainer(
        **initial_model(run.initial_model, run.config.model),
        args=SFTConfig(**arguments, max_length=None),
        train_dataset=sft_dataset(
            [[*instructions, *episode.messages_to_imitate] for episode in episodes],
            Chat(tokenizer, run.config.model.reasoning),
            run.config.model.history,
        ),
        processing_class=tokenizer,
    )
    run.add_metrics(stage, train_stage(trainer, tokenizer, folder, stage, run.callbacks, is_merged))
