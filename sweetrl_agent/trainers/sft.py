"""Imitation: supervised fine-tuning on the agent's turns of demonstrated dialogues.

On transformers' `Trainer` with TRL's collator rather than on `SFTTrainer`: the latter's fused language-model head, made for large
vocabularies on a GPU, takes twice the time of the plain loss for a tiny model on a CPU (measured: 3 against 7 steps a second).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import nn
from transformers import Trainer

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.data.chat import encode_dialogues
from sweetrl_agent.trainers.muon import MuonWithAdamW

#: Batches that are sorted by length together.
POOL = 20
#: Dialogues that are encoded in one call.
ENCODED = 100


def sft_dataset(dialogues: Sequence[Messages], tokenizer: Any) -> Dataset:
    """Tokens and labels of dialogues; only the agent's turns are labelled, everything else is -100.

    A turn whose message has "weight" 0 is not labelled either: it is there to be read (the name is that of OpenAI's fine-tuning files).
    """
    rows = []
    encoded = (
        dialogue
        for i in range(0, len(dialogues), ENCODED)
        for dialogue in encode_dialogues(dialogues[i : i + ENCODED], tokenizer)
    )
    for messages, dialogue in zip(dialogues, encoded, strict=True):
        spoken = [message for message in messages if message["role"] == "assistant"]
        imitated = {turn for turn, message in enumerate(spoken, 1) if message.get("weight", 1)}
        labels = [
            token if turn in imitated else -100 for token, turn in zip(dialogue.token_ids, dialogue.turn_ids, strict=True)
        ]
        rows.append({"input_ids": dialogue.token_ids, "labels": labels})
    return Dataset.from_list(rows)


def bucketed_order(lengths: Sequence[int], batch: int, epochs: int, seed: int) -> list[int]:
    """An order over rows whose consecutive batches hold rows of similar length, the batches themselves shuffled.

    The library's own grouping by length takes long rows before short ones again and again, and the loss swings with it.

    Args:
        lengths: Tokens of each row.
        batch: Rows of a batch; the rows of an epoch that fill none are left to chance of the next epoch's shuffle.
        epochs: Passes over the rows.
        seed: Seed of the shuffles.
    """
    rng = np.random.default_rng(seed)
    order: list[int] = []
    for _ in range(epochs):
        rows = rng.permutation(len(lengths))
        pools = [sorted(rows[i : i + batch * POOL], key=lambda row: lengths[row]) for i in range(0, len(rows), batch * POOL)]
        batches = [pool[i : i + batch] for pool in pools for i in range(0, len(pool), batch)]
        full = [chunk for chunk in batches if len(chunk) == batch] or batches
        order.extend(int(row) for i in rng.permutation(len(full)) for row in full[i])
    return order


class CloningTrainer(Trainer):  # type: ignore[misc]
    """`Trainer` over `sft_dataset`, with Muon, and with the language-model head on labelled tokens only.

    Half of the tokens are the human's. Without logits for them a step takes about 0.7 times as long.
    """

    def __init__(self, *, muon_learning_rate: float, **kwargs: Any) -> None:
        """As `Trainer`, whose learning rate is AdamW's, of embeddings and norms; the other is of the matrices inside the layers."""
        self.muon_learning_rate = muon_learning_rate
        super().__init__(**kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> torch.Tensor:
        """Mean cross-entropy of the labelled tokens of a batch: the model's own loss.

        Without a mask: the padding stands behind the tokens, which never look there.
        """
        hidden = model.model(inputs["input_ids"]).last_hidden_state[:, :-1]
        targets = inputs["labels"][:, 1:]
        labelled = targets != -100
        return nn.functional.cross_entropy(model.lm_head(hidden[labelled]), targets[labelled])

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Muon and AdamW, each at its learning rate."""
        if self.optimizer is None:
            self.optimizer = MuonWithAdamW(
                model or self.model, self.args.learning_rate, self.muon_learning_rate, weight_decay=self.args.weight_decay
            )
        return self.optimizer
