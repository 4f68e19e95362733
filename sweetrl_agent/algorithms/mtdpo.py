"""Multi-turn DPO (arXiv:2503.15478, section 5.1): one preference per pair of whole dialogues.

    1. Collect k trajectories per task with the start policy and pair the best of a task with every worse one (shared with SWEET-RL).
    2. -log sigmoid(beta (s(chosen) - s(rejected))), s = sum over all tokens of the agent's turns of log [pi_theta / pi_ref], plus
       an NLL term. The human's tokens are read and never scored.

It is SWEET-RL's first stage without the hidden information, without the mean over a turn, and with the agent itself as what learns.
"""

from __future__ import annotations

from transformers import set_seed

from sweetrl_agent.credit import SUM
from sweetrl_agent.files import iter_rows
from sweetrl_agent.run import Run
from sweetrl_agent.trainers.critic import pair_trainer
from sweetrl_agent.trainers.running import train_stage, trainer_arguments

POLICY = "mtdpo/agent"


def train(run: Run) -> None:
    """outcome_pairs.jsonl -> mtdpo/agent/."""
    config, folder = run.config.baselines, run.path(POLICY)
    set_seed(run.seed)
    pairs = (
        {"hidden": "", "chosen": row["chosen"], "rejected": row["rejected"]}
        for row in iter_rows(run.path("outcome_pairs.jsonl"))
    )
    arguments = trainer_arguments(
        folder,
        run.seed,
        run.config.model,
        config.mtdpo_batch,
        config.mtdpo_batch,
        config.mtdpo_learning_rate,
        config.mtdpo_epochs,
    )
    trainer = pair_trainer(
        run.start_model, run.config.model, pairs, folder, arguments,
        form=SUM, beta=config.mtdpo_beta, nll_coef=config.mtdpo_nll, max_length=run.config.critic.critic_max_length,
    )  # fmt: skip
    run.add_metrics("mtdpo", train_stage(trainer, trainer.processing_class, folder, "mtdpo"))
