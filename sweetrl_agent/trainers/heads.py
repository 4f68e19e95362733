"""Trains critics with a head (`critics.heads`) on transformers' `Trainer`: TRL's reward trainer scores whole texts, not turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Trainer

from sweetrl_agent.core.messages import hint_message
from sweetrl_agent.data.chat import encode_dialogue
from sweetrl_agent.data.files import Row
from sweetrl_agent.data.padding import is_token, right_padded

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


class HeadTrainer(Trainer):  # type: ignore[misc]
    """`Trainer` on `encoded_rows`: pairs for "regression", single dialogues for "value"."""

    def __init__(self, *, loss: Loss, beta: float, collate: Any = None, **kwargs: Any) -> None:
        """As `Trainer`, by default with our collator."""
        self.loss, self.beta = loss, beta
        super().__init__(data_collator=collate or _collate, **kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> Tensor:
        """`head_loss` of a batch."""
        scores = model(inputs["input_ids"], inputs["attention_mask"], inputs["turn_ids"])
        return head_loss(scores, inputs["turn_ids"].amax(dim=1), self.loss, self.beta, inputs["success"])

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save body and head; also used for checkpoints."""
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.accelerator.unwrap_model(self.model).save(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load the files of `save_model`."""
        scorer: Any = model or self.model
        folder = Path(resume_from_checkpoint)
        scorer.load_head(folder)
        if (folder / "adapter_config.json").exists():
            from peft import load_peft_weights, set_peft_model_state_dict

            set_peft_model_state_dict(scorer.model, load_peft_weights(str(folder)))
        else:
            saved = type(scorer.model).from_pretrained(
                folder, dtype=scorer.model.dtype, use_safetensors=True, trust_remote_code=False
            )
            scorer.model.load_state_dict(saved.state_dict())


def pair_rows(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Both dialogues ("messages", "hidden", "success") of every row of `pairs.outcome_pairs`, the chosen one first."""
    for row in rows:
        yield [
            {"messages": row[side], "hidden": row["hidden"], "success": float(side == "chosen")}
            for side in ("chosen", "rejected")
        ]


def encoded_rows(groups: Iterable[list[Row]], tokenizer: Any, instructions: str, max_length: int) -> Iterator[Row]:
    """Tokenized dialogues ("messages", "hidden", "success"); dialogues that are compared are in one row.

    Rows with a dialogue longer than `max_length` tokens are skipped.
    """
    for group in groups:
        sides = []
        for row in group:
            dialogue = encode_dialogue([*hint_message(row["hidden"], instructions), *row["messages"]], tokenizer)
            sides.append({"input_ids": dialogue.token_ids, "turn_ids": dialogue.turn_ids, "success": float(row["success"])})
        if all(len(side["input_ids"]) <= max_length for side in sides):
            yield {"sides": sides}


def _collate(rows: list[Row]) -> dict[str, Tensor]:
    """Pad and stack; the first dialogues of all rows come first."""
    sides = [row["sides"][i] for i in range(len(rows[0]["sides"])) for row in rows]
    ids = [side["input_ids"] for side in sides]
    return {
        "input_ids": right_padded(ids),
        "turn_ids": right_padded([side["turn_ids"] for side in sides]),
        "attention_mask": is_token(ids),
        "success": torch.tensor([side["success"] for side in sides]),
    }
