"""Trains a language model on single turns, from the initial policy: by preferences between two texts (DPO), or by imitation of texts (SFT). Both by TRL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import set_seed
from trl import DPOConfig, SFTConfig, SFTTrainer

from colbench_gym.files import Row
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.run import Run
from sweetrl_agent.models.loading import initial_model, load_chat, system_prompt
from sweetrl_agent.trainers.running import trainer_arguments
from sweetrl_agent.trainers.sft import sft_dataset
from sweetrl_agent.trainers.stage_training import train_stage
from sweetrl_agent.trainers.trl.on_disk import on_disk
from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer, preference


def train_on_preferences(
    run: Run, stage: str, rows: Sequence[Row], folder: Path, arguments: Mapping[str, Any], beta: float, nll: float
) -> list[Row]:
    """DPO on single turns (arXiv:2305.18290, equation 7), with an NLL term on the chosen ones; resumes from its last checkpoint.

    Args:
        run: The run.
        stage: Name of the stage, for callbacks and metrics.
        rows: "prompt" (messages before the turn), "chosen" and "rejected" (texts).
        folder: Folder of the trained model.
        arguments: "batch", "micro_batch", "learning_rate" and "epochs" of `trainer_arguments`.
        beta: Beta of DPO.
        nll: Weight of the NLL term.

    Returns:
        Metrics of the logged steps.
    """
    set_seed(run.seed)
    chat = load_chat(run.initial_model, run.config.model)
    trainer = PrecomputingDPOTrainer(
        **initial_model(run.initial_model, run.config.model),
        args=DPOConfig(
            **trainer_arguments(folder, run.seed, run.config.model, **arguments),
            beta=beta,
            loss_type=["sigmoid", "sft"],
            loss_weights=[1.0, nll],
            max_length=None,
            precompute_ref_log_probs=True,
        ),
        train_dataset=on_disk((preference(row, chat, run.config.model) for row in rows), folder),
        processing_class=chat.tokenizer,
    )
    return train_stage(trainer, chat.tokenizer, folder, stage, run.callbacks)


def train_on_turns(
    run: Run, stage: str, dialogues: Iterable[Messages], folder: Path, arguments: Mapping[str, Any]
) -> list[Row]:
    """SFT on the last turns of dialogues, whose earlier turns are context; resumes from its last checkpoint.

    Args:
        run: The run.
        stage: Name of the stage, for callbacks and metrics.
        dialogues: Dialogues that end with a turn of the agent.
        folder: Folder of the trained model.
        arguments: As of `train_on_preferences`.

    Returns:
        Metrics of the logged steps.
    """
    set_seed(run.seed)
    chat = load_chat(run.initial_model, run.config.model)
    instructions = system_message(system_prompt(run.config.model))
    rows: list[Any] = [
        [*instructions, *({**message, "weight": 0} for message in dialogue[:-1]), dialogue[-1]] for dialogue in dialogues
    ]
    trainer = SFTTrainer(
        **initial_model(run.initial_model, run.config.model),
        args=SFTConfig(**trainer_arguments(folder, run.seed, run.config.model, **arguments), max_length=None),
        train_dataset=_labelled(sft_dataset(rows, chat, run.config.model.history)),
        processing_class=chat.tokenizer,
    )
    return train_stage(trainer, chat.tokenizer, folder, stage, run.callbacks)


def _labelled(dataset: Any) -> Any:
    """Rows with a label: an agent that reads only some earlier turns has a row for each turn, of which the last alone is trained on."""
    return dataset.filter(lambda row: any(label >= 0 for label in row["labels"]))
