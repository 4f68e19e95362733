"""The trainer of token-level action values (`trainers.token_values`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from colbench_gym.files import Row
from sweetrl_agent.critics.token_values import TokenEstimates
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.trainers.muon import ModuleTrainer


class ValueTrainer(ModuleTrainer):
    """`ModuleTrainer` of `TokenValues` on `action_tokens`."""

    def __init__(self, *, loss: Callable[[TokenEstimates], Tensor], **kwargs: Any) -> None:
        """As `MuonTrainer`, with our collator and a loss of `TokenEstimates`."""
        self.loss = loss
        super().__init__(data_collator=_collate, **kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> Tensor:
        """The algorithm's loss of a batch."""
        return self.loss(
            model(*(inputs[name] for name in ("input_ids", "is_action", "rewards", "dialogue", "is_cut", "attention_mask")))
        )


class TargetUpdate(TrainerCallback):
    """Moves the target after every optimizer step."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Polyak averaging. The step's checkpoint is written afterwards."""
        model.update_target(self.rate)


def _collate(rows: list[Row]) -> dict[str, Tensor]:
    ids, acts, rewards = (
        [sequence for row in rows for sequence in row[name]] for name in ("input_ids", "is_action", "rewards")
    )
    return {
        "input_ids": right_padded(ids),
        "attention_mask": is_token(ids),
        "is_action": right_padded(acts),
        "rewards": right_padded(rewards).float(),
        "dialogue": torch.tensor([i for i, row in enumerate(rows) for _ in row["input_ids"]]),
        "is_cut": torch.tensor([row["is_cut"] for row in rows]),
    }
