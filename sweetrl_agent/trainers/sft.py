"""SFT (behaviour cloning) on the agent's turns of demonstrated dialogues.

Of the tiny model it uses transformers' `Trainer` with TRL's collator instead of `SFTTrainer`: the latter's fused language-model head, designed for large
vocabularies on a GPU, takes twice the time of the plain loss for a tiny model on a CPU (measured: 3 against 7 steps per second).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import nn

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.trainers.muon import MuonTrainer

#: Batches per chunk that is sorted by length.
POOL = 20
#: Dialogues per call of the tokenizer.
ENCODED = 100


def sft_dataset(dialogues: Sequence[Messages], chat: Chat, history: int = -1) -> Dataset:
    """Tokens and labels of dialogues, a row for each of `Chat.sequences`; only the agent's turns have labels, all other tokens have -100.

    A turn with "weight" 0 in its message has no labels either: it is context only (as in OpenAI's fine-tuning files).

    Args:
        dialogues: The dialogues.
        chat: Tokenizer and template.
        history: Earlier turns that the agent reads, as in `core.messages.as_read`.
    """
    rows = []
    for start in range(0, len(dialogues), ENCODED):
        some = dialogues[start : start + ENCODED]
        for messages, parts in zip(some, chat.all_sequences(some, history=history), strict=True):
            weights = iter([message.get("weight", 1) for message in messages if message["role"] == "assistant"])
            for part in parts:
                labelled = {turn for turn in range(1, part.num_turns + 1) if next(weights)}
                pairs = zip(part.token_ids, part.turn_ids, strict=True)
                rows.append(
                    {"input_ids": part.token_ids, "labels": [token if turn in labelled else -100 for token, turn in pairs]}
                )
    return Dataset.from_list(rows)


def bucketed_order(lengths: Sequence[int], batch: int, epochs: int, seed: int) -> list[int]:
    """An order of rows in which each batch has rows of similar length and the batches are shuffled.

    The library's grouping by length repeatedly goes from long to short rows, and the loss oscillates with it.

    Args:
        lengths: Tokens of each row.
        batch: Rows per batch; the remaining rows of an epoch are dropped (another random subset in each epoch).
        epochs: Number of epochs.
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


class CloningTrainer(MuonTrainer):
    """`MuonTrainer` on `sft_dataset`, with the language-model head on labelled tokens only.

    Half of the tokens are the user's. Without logits for them, a step takes about 0.7 times as long.
    """

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> torch.Tensor:
        """Mean cross-entropy of the labelled tokens of a batch, equal to the model's own loss.

        No attention mask is needed: padding is on the right, and attention is causal.
        """
        hidden = model.model(inputs["input_ids"]).last_hidden_state[:, :-1]
        targets = inputs["labels"][:, 1:]
        labelled = targets != -100
        return nn.functional.cross_entropy(model.lm_head(hidden[labelled]), targets[labelled])
