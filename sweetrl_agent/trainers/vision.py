"""Trains the vision critic of pages (`critics.vision`), with the trainer of the other critics with a head."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from torch import Tensor

from colbench_gym.files import Row
from sweetrl_agent.critics.vision import Views, turns_of
from sweetrl_agent.data.pairs import hidden_by_turn, with_hidden_by_turn
from sweetrl_agent.trainers.heads import HeadTrainer, head_loss


class VisionTrainer(HeadTrainer):
    """`HeadTrainer` for "regression" on rows of `vision_rows`; pages are rendered per batch."""

    def __init__(self, *, beta: float, views: Views, **kwargs: Any) -> None:
        """As `HeadTrainer`; `views` encodes dialogues as tensors."""
        super().__init__(loss="regression", beta=beta, collate=lambda rows: _collate(rows, views), **kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> Tensor:
        """Bradley-Terry loss on the sums over turns of a batch of pairs."""
        num_turns: Tensor = inputs["num_turns"]
        is_turn = torch.arange(int(num_turns.max()), device=num_turns.device) < num_turns[:, None]
        scores = model(**inputs["views"])
        table = torch.zeros(is_turn.shape, dtype=scores.dtype, device=scores.device).masked_scatter(is_turn, scores)
        return head_loss(table, num_turns, self.loss, self.beta, num_turns)


def vision_rows(rows: list[Row]) -> Dataset:
    """The columns of `pairs.outcome_pairs` that training needs, as a data set."""
    return Dataset.from_list(
        [with_hidden_by_turn({name: row[name] for name in ("chosen", "rejected", "hidden")}) for row in rows]
    )


def _each(hidden: list[str], count: int) -> list[str]:
    """Hidden information of each of `count` turns."""
    return hidden * count if len(hidden) == 1 else hidden


def _collate(rows: list[Row], views: Views) -> dict[str, Any]:
    """Views of all turns, those of the chosen dialogues first."""
    dialogues = [(turns_of(row[side]), hidden_by_turn(row, side)) for side in ("chosen", "rejected") for row in rows]
    encoded = views.encode([view for turns, hidden in dialogues for view in zip(turns, _each(hidden, len(turns)), strict=True)])
    return {
        "views": encoded,
        "input_ids": encoded["input_ids"],  # the trainer counts these
        "num_turns": torch.tensor([len(turns) for turns, _ in dialogues]),
    }
