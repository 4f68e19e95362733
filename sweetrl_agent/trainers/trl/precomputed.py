"""Precomputed reference log-probabilities, so that no reference model is held in memory during training.

`DPOTrainer` has `precompute_ref_log_probs`, with four limits: its head is slow on a CPU (see `cpu_head`), it stores one number per side
while the critic needs one per token, it needs a file of results under the same path in all processes (see `on_disk`), and it names that
file by a hash of all weights, which took over a minute for 8B beside an H100. The overrides touch private parts of TRL 1.16.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from accelerate.utils import gather_object
from datasets import Dataset, concatenate_datasets
from torch import Tensor
from torch.utils.data import DataLoader
from transformers.trainer_utils import get_last_checkpoint
from trl import DPOTrainer
from trl.models.utils import prepare_deepspeed
from trl.trainer import dpo_trainer

from colbench_gym.files import Row
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.distributed import is_first, refuse_other_sharding
from sweetrl_agent.models.loading import system_prompt
from sweetrl_agent.trainers.running import report_skipped
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only
from sweetrl_agent.trainers.trl.on_disk import left_on_disk, on_disk


class PrecomputingDPOTrainer(DPOTrainer):  # type: ignore[misc]
    """`DPOTrainer` with the given model, before the first step, as reference.

    Attributes:
        scored_tokens: Tokens that the reference has read.
    """

    scored_tokens: int = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """As `DPOTrainer`, without the hash."""
        with patch.object(dpo_trainer, "hash_module", return_value=""):
            super().__init__(*args, **kwargs)

    def _prepare_dataset(self, dataset: Dataset, processing_class: Any, args: Any, dataset_name: str) -> Dataset:
        """Rows of token ids are taken as they are, without those that have more than `max_length` tokens: none is cut. Others as in `DPOTrainer`.

        Raises:
            ColBenchError: If all are longer.
        """
        if "prompt_ids" not in dataset.column_names:
            return super()._prepare_dataset(dataset, processing_class, args, dataset_name)
        longest = args.max_length
        if longest is None:
            return dataset
        kept = dataset.filter(
            lambda row: len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"])) <= longest
        )
        report_skipped(len(kept), len(dataset), longest)
        return kept

    def _precompute_ref_logps(self, dataset: Dataset, name: str, batch_size: int) -> Dataset:
        refuse_other_sharding(self)
        score_labelled_tokens_only(self)
        model = self.ref_model or self.model
        if self.ref_model is None and self.is_deepspeed_enabled:  # gathers the shards of ZeRO
            model = prepare_deepspeed(self.model, self.accelerator)
        batches = self.accelerator.prepare(DataLoader(dataset, batch_size=batch_size, collate_fn=self.data_collator))

        def rows() -> Iterator[Row]:
            for batch in progress_bar(batches, desc=f"reference of {name}", unit="batch", disable=not is_first()):
                yield from self.accelerator.gather_for_metrics(self._reference_rows(model, batch), use_gather_object=True)

        for batch in batches:
            self.scored_tokens += int(self.accelerator.gather(batch["attention_mask"].sum()).sum())
        checkpoints = Path(self.args.output_dir)
        # The reference of a killed run is kept with its checkpoint: both are of the same pairs, model and settings.
        resumes = checkpoints.is_dir() and get_last_checkpoint(str(checkpoints)) is not None
        kept = left_on_disk(checkpoints / name) if resumes else None
        if any(gather_object([kept is None])):  # all processes read together, or none
            kept = on_disk(rows(), checkpoints / name)
        return concatenate_datasets([dataset, kept], axis=1)

    def _reference_rows(self, model: Any, inputs: dict[str, Tensor]) -> list[Row]:
        """Columns of each pair of a batch, in the form that the collator expects."""
        chosen, rejected = self.compute_ref_log_probs(model, inputs)
        pairs = zip(chosen.tolist(), rejected.tolist(), strict=True)
        return [{"ref_chosen_logps": a, "ref_rejected_logps": b} for a, b in pairs]


def preference(row: Row, chat: Chat, arguments: ModelArguments) -> Row:
    """Tokens of a preference between two turns: the prompt that both were sampled from, and the turns.

    Args:
        row: "prompt" (messages before the turn), "chosen" and "rejected" (texts), "chosen_thought" and "rejected_thought" where there are thoughts, and
            "chosen_cut" and "rejected_cut" where the limit of tokens cut one, which then has no token that ends it.
        chat: The tokenizer with its template.
        arguments: Settings of the model, for its instructions and what it reads of a dialogue.
    """
    prompt = [*system_message(system_prompt(arguments)), *as_read(row["prompt"], arguments.history)]
    sides = ("chosen", "rejected")
    turns = chat.turns(prompt, [row[side] for side in sides], [row.get(f"{side}_thought", "") for side in sides])
    ids = {side: chat.without_end(turn) if row.get(f"{side}_cut") else turn for side, turn in zip(sides, turns, strict=True)}
    return {"prompt_ids": chat.prompt(prompt), **{f"{side}_ids": turn for side, turn in ids.items()}}


def pad_id(tokenizer: Any) -> int:
    """Id of the token that fills up rows, which is masked: the end token, where there is none for it.

    Raises:
        ValueError: If there is neither.
    """
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if pad_id is None:
        raise ValueError("The tokenizer has neither a padding nor an end token; set `tokenizer.pad_token`.")
    return int(pad_id)
