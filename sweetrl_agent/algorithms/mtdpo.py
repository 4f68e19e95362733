"""Multi-turn DPO (arXiv:2503.15478, section 5.1): one preference per pair of whole dialogues.

    1. Collect k trajectories per task with the initial policy and pair the best of a task with each worse one (shared with SWEET-RL).
    2. -log sigmoid(beta (s(chosen) - s(rejected))), s = sum over all tokens of the agent's turns of log [pi_theta / pi_ref], plus
       an NLL term. The user's tokens are context and are not scored.

It equals SWEET-RL's first stage without the hidden information and without the mean over a turn; the trained model is the agent itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers

from colbench_gym.files import iter_rows
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.critics.credit import SUM
from sweetrl_agent.data.pairs import SIDES, generated
from sweetrl_agent.trainers.running import trainer_arguments
from sweetrl_agent.trainers.stage_work import pair_work


@dataclass(frozen=True)
class MultiTurnDPOConfig:
    """Settings of multi-turn DPO. Defaults are from a hyperparameter search with equal budgets for all algorithms."""

    learning_rate: float = setting(3e-4, "Learning rate of multi-turn DPO; 2e-7 in the paper (8B model).")
    beta: float = setting(1.0, "Beta of DPO; 0.1 in the paper.")
    nll: float = setting(1.0, "Weight of the NLL of the chosen dialogue; 0.01 in the paper.")
    batch: int = setting(8, "Pairs per optimizer step; 8 in the paper.", least=1)
    epochs: float = setting(4.0, "Epochs; 4 in the paper.")
    max_length: int = setting(2048, "Maximum length in tokens; longer pairs are skipped.", least=1)


class MultiTurnDPO(Algorithm):
    """Multi-turn DPO; see the module's docstring."""

    name, title, Config = "mtdpo", "Multi-turn DPO", MultiTurnDPOConfig

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`."""
        config = self.config
        return {self.name: pair_work(run, lengths, config.batch, config.batch, config.epochs)}

    def refuse_model(self, model: Any) -> None:
        """See `Algorithm`; a preference is over whole dialogues, so the agent must read them."""
        super().refuse_model(model)
        if model.history >= 0:
            raise ValueError(
                f"{self.name!r} compares whole dialogues, which the agent must read: take `--history -1`, got {model.history}."
            )

    def train(self, run: Run) -> None:
        """Train on outcome_pairs.jsonl; writes mtdpo/agent/."""
        _train(run, self.config, run.path(self.policies[AGENT]))


def _train(run: Run, config: MultiTurnDPOConfig, folder: Path) -> None:
    from sweetrl_agent.trainers.critic import pair_trainer
    from sweetrl_agent.trainers.stage_training import train_stage

    transformers.set_seed(run.seed)
    path = run.path("outcome_pairs.jsonl")
    has_more = any(  # rows of a data set have the same keys
        f"{side}_{more}" in row for row in iter_rows(path) for side in SIDES for more in ("thoughts", "cut")
    )
    pairs = (
        {"hidden": "", **{side: generated(row, side) if has_more else row[side] for side in SIDES}} for row in iter_rows(path)
    )
    arguments = trainer_arguments(
        folder,
        run.seed,
        run.config.model,
        config.batch,
        config.batch,
        config.learning_rate,
        config.epochs,
    )
    trainer = pair_trainer(
        run.initial_model, run.config.model, pairs, folder, arguments,
        form=SUM, beta=config.beta, nll_coef=config.nll, max_length=config.max_length,
    )  # fmt: skip
    run.add_metrics("mtdpo", train_stage(trainer, trainer.processing_class, folder, "mtdpo", run.callbacks))
