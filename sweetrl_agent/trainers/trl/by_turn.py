"""Pairs of the same turn side by side, so that the dialogue before them is read once for all (`policies.prefix_tree`).

Shuffled pairs read it once for each pair, and it is most of their tokens: a dialogue of 400 tokens, and two turns of 20. The loss of a batch is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from trl.trainer.dpo_trainer import DataCollatorForPreference

from sweetrl_agent.policies.slots import has_plain_head
from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer, pad_id


class ByTurn(Sampler[int]):
    """The pairs of a data set by turns: the turns in random order, the pairs of a turn one after the other.

    Args:
        prompts: Token ids of each pair's prompt, consumed one by one; those of a turn are neighbours.
        seed: Seed of the order, which differs between epochs.
    """

    def __init__(self, prompts: Iterable[Sequence[int]], seed: int) -> None:
        self.turns: list[range] = []
        self.seed, self.epoch = seed, 0
        before: Sequence[int] | None = None
        for i, prompt in enumerate(prompts):
            is_new = before is None or not np.array_equal(prompt, before)
            start = i if is_new else self.turns.pop().start
            self.turns.append(range(start, i + 1))
            before = prompt

    def set_epoch(self, epoch: int) -> None:
        """Called by accelerate before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return sum(map(len, self.turns))

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(len(self.turns), generator=torch.Generator().manual_seed(self.seed + self.epoch))
        for turn in order.tolist():
            yield from self.turns[turn]


class _Collator(DataCollatorForPreference):  # type: ignore[misc]
    """Adds "groups": pairs with the same prompt form one, as the head of `cpu_head` takes them."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        prompts = [example["prompt_ids"] for example in examples]
        groups = torch.tensor([prompts.index(prompt) for prompt in prompts])
        return {**super().torch_call(examples), "groups": groups.repeat(2)}


class TurnwiseDPOTrainer(PrecomputingDPOTrainer):
    """`PrecomputingDPOTrainer` on pairs by turns. Where a model has a head of its own kind, the order is the same, and nothing is read once."""

    def __init__(self, *, model: Any, processing_class: Any, **kwargs: Any) -> None:
        """As `DPOTrainer`; the collator is ours."""
        if has_plain_head(model):
            kwargs["data_collator"] = _Collator(pad_token_id=pad_id(processing_class))
        super().__init__(model=model, processing_class=processing_class, **kwargs)

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> ByTurn:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        return ByTurn((row["prompt_ids"] for row in dataset.with_format("numpy", ["prompt_ids"])), self.args.seed)
