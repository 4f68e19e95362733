"""Supervised training on turns of different weight: advantage-weighted regression (Peng et al., arXiv:1910.00177, equation 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor

from colbench_gym.files import Row
from sweetrl_agent.data.chat import EncodedDialogue
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.trainers.muon import MuonTrainer
from sweetrl_agent.trainers.token_passes import action_log_probs, begins_turn


def weighted_loss(log_probs: Tensor, weights: Tensor) -> Tensor:
    """The mean over actions of - w log pi(a|o), from the log-probabilities of whole actions. Both of shape (K,)."""
    return -(weights * log_probs).mean()


class WeightedTrainer(MuonTrainer):
    """`Trainer` of a language model by `weighted_loss` on `weighted_rows`."""

    def __init__(self, **kwargs: Any) -> None:
        """As `MuonTrainer`, with our collator."""
        super().__init__(data_collator=_collate, **kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> Tensor:
        """`weighted_loss` of a batch of dialogues."""
        ids, turns, lengths = inputs["input_ids"], inputs["turn_ids"], inputs["attention_mask"].sum(dim=1).tolist()
        dialogues = [
            EncodedDialogue(row[:length], numbers[:length])
            for row, numbers, length in zip(ids.tolist(), turns.tolist(), lengths, strict=True)
        ]
        log_probs = action_log_probs(model, dialogues, groups=inputs["dialogue"].tolist())
        action = (begins_turn(turns).flatten().cumsum(0) - 1)[(turns[:, 1:] > 0).flatten()]
        of_actions = torch.zeros_like(inputs["weights"]).index_add(0, action, log_probs.float())
        return weighted_loss(of_actions, inputs["weights"])


def weighted_rows(encoded: Sequence[Sequence[EncodedDialogue]], weights: Sequence[float]) -> Dataset:
    """Dialogues, one row each: "input_ids" and "turn_ids", lists of its sequences, and the "weights" of its turns.

    Args:
        encoded: The sequences of the dialogues.
        weights: Of all turns, dialogue after dialogue.
    """
    rows, left = [], iter(weights)
    for parts in encoded:
        of_dialogue = [next(left) for part in parts for _ in range(part.num_turns)]
        sequences = {"input_ids": [part.token_ids for part in parts], "turn_ids": [part.turn_ids for part in parts]}
        rows.append({**sequences, "weights": of_dialogue})
    return Dataset.from_list(rows)


def _collate(rows: list[Row]) -> dict[str, Tensor]:
    ids, turns = ([sequence for row in rows for sequence in row[name]] for name in ("input_ids", "turn_ids"))
    return {
        "input_ids": right_padded(ids),
        "attention_mask": is_token(ids),
        "turn_ids": right_padded(turns),
        "dialogue": torch.tensor([i for i, row in enumerate(rows) for _ in row["input_ids"]]),
        "weights": torch.tensor([weight for row in rows for weight in row["weights"]]),
    }
