"""Trains critics with a head (`critics.heads`) on transformers' `Trainer`: TRL's reward trainer scores whole texts, not turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from colbench_gym.files import Row
from sweetrl_agent.data.chat import Chat, encode_hinted
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.data.pairs import hidden_by_turn
from sweetrl_agent.trainers.muon import ModuleTrainer
from sweetrl_agent.trainers.running import report_skipped

Loss = Literal["regression", "value"]


def head_loss(scores: Tensor, num_turns: Tensor, loss: Loss, beta: float, success: Tensor) -> Tensor:
    """The loss of a batch of dialogues.

    Args:
        scores: Score of every turn, shape (B, T); 0 where a dialogue has fewer turns.
        num_turns: Turns of each dialogue, shape (B,).
        loss: "regression": rows are pairs, chosen dialogues first; -log sigmoid(beta (sum of scores - sum of scores)). "value":
            binary cross-entropy of every turn's score with the dialogue's success, all turns with equal weight.
        beta: Beta of SWEET-RL's equation 2.
        success: 1.0 for a success, else 0.0, shape (B,); for "value" only.
    """
    if loss == "regression":
        chosen, rejected = scores.sum(dim=1).chunk(2)
        return -F.logsigmoid(beta * (chosen - rejected)).mean()
    is_turn = torch.arange(scores.shape[1], device=scores.device) < num_turns[:, None]
    targets = success[:, None].expand_as(scores)
    return F.binary_cross_entropy_with_logits(scores[is_turn], targets[is_turn])


class HeadTrainer(ModuleTrainer):
    """`ModuleTrainer` of a `critics.heads.ModelWithHead` on `encoded_rows`: pairs for "regression", single dialogues for "value"."""

    def __init__(self, *, loss: Loss, beta: float, collate: Any = None, **kwargs: Any) -> None:
        """As `Trainer`, by default with our collator."""
        self.loss, self.beta = loss, beta
        super().__init__(data_collator=collate or _collate, **kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> Tensor:
        """`head_loss` of a batch."""
        count = int(inputs["parts"].max()) + 1
        is_split = count < len(inputs["parts"])
        groups = inputs["parts"] % (count // 2 if self.loss == "regression" else count) if is_split else None
        scores = model(inputs["input_ids"], inputs["attention_mask"], inputs["turn_ids"], groups)
        if is_split:  # dialogues in several parts: their turns' scores in one row
            scores = scores.new_zeros(count, scores.shape[1]).index_add(0, inputs["parts"], scores)
        return head_loss(scores, inputs["turn_ids"].amax(dim=1), self.loss, self.beta, inputs["success"])


def pair_rows(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Both dialogues ("messages", "hidden", "success") of every row of `pairs.outcome_pairs`, the chosen one first."""
    for row in rows:
        yield [
            {"messages": row[side], "hidden": hidden_by_turn(row, side), "success": float(side == "chosen")}
            for side in ("chosen", "rejected")
        ]


def encoded_rows(
    groups: Iterable[list[Row]], chat: Chat, instructions: str, max_length: int, noun: str = "answer"
) -> Iterator[Row]:
    """Tokenized dialogues ("messages", "hidden", "success"); dialogues that are compared are in one row.

    Where the hidden information differs between turns, a dialogue has a part for each turn (`data.chat.encode_hinted`): its "side" says which dialogue of the
    row it is of. A dialogue that is not compared has a row for each. Rows with a part longer than `max_length` tokens are skipped.

    Raises:
        ColBenchError: If all are skipped.
    """
    kept = total = 0
    for group in groups:
        total += 1
        parts = []
        for i, row in enumerate(group):
            hidden = [row["hidden"]] if isinstance(row["hidden"], str) else row["hidden"]
            for dialogue in encode_hinted(row["messages"], hidden, instructions, noun, chat):
                encoded = {"input_ids": dialogue.token_ids, "turn_ids": dialogue.turn_ids, "success": float(row["success"])}
                parts.append({**encoded, "side": i})
        if all(len(part["input_ids"]) <= max_length for part in parts):
            kept += 1
            yield from ({"sides": sides} for sides in ([parts] if len(group) > 1 else [[part] for part in parts]))
    report_skipped(kept, total, max_length, "rows of dialogues")


def _collate(rows: list[Row]) -> dict[str, Tensor]:
    """Pad and stack; the first dialogues of all rows come first. "parts" is the dialogue that each part is of."""
    order = sorted((part.get("side", i), n, i) for n, row in enumerate(rows) for i, part in enumerate(row["sides"]))
    sides = [rows[n]["sides"][i] for _, n, i in order]
    ids = [side["input_ids"] for side in sides]
    return {
        "input_ids": right_padded(ids),
        "turn_ids": right_padded([side["turn_ids"] for side in sides]),
        "attention_mask": is_token(ids),
        "success": torch.tensor([side["success"] for side in sides]),
        "parts": torch.tensor([side * len(rows) + n for side, n, _ in order]),
    }
