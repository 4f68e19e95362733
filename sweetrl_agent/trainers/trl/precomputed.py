"""Reference log-probabilities computed once, ahead of training, so that no reference is held while the model learns.

`DPOTrainer` has this as `precompute_ref_log_probs`. Three things in it do not serve here: its head (see `cpu_head`), one number for a
whole side where the critic needs one for every token, and a file of results that all processes must find under one path (see `on_disk`).
The override touches a private part of TRL 1.16, `_precompute_ref_logps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset, concatenate_datasets
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm
from trl import DPOTrainer
from trl.models.utils import prepare_deepspeed

from sweetrl_agent.data.distributed import is_first, refuse_other_sharding
from sweetrl_agent.data.files import Row
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only
from sweetrl_agent.trainers.trl.on_disk import on_disk


class PrecomputingDPOTrainer(DPOTrainer):  # type: ignore[misc]
    """`DPOTrainer` whose reference is the model as it is given, before the first step."""

    def _precompute_ref_logps(self, dataset: Dataset, name: str, batch_size: int) -> Dataset:
        refuse_other_sharding(self)
        score_labelled_tokens_only(self)
        model = self.ref_model or self.model
        if self.ref_model is None and self.is_deepspeed_enabled:  # gathers what ZeRO has shared out
            model = prepare_deepspeed(self.model, self.accelerator)
        batches = self.accelerator.prepare(DataLoader(dataset, batch_size=batch_size, collate_fn=self.data_collator))

        def rows() -> Iterator[Row]:
            for batch in tqdm(batches, desc=f"reference of {name}", unit="batch", disable=not is_first()):
                yield from self.accelerator.gather_for_metrics(self._reference_rows(model, batch), use_gather_object=True)

        return concatenate_datasets([dataset, on_disk(rows(), Path(self.args.output_dir))], axis=1)

    def _reference_rows(self, model: Any, inputs: dict[str, Tensor]) -> list[Row]:
        """Columns for each pair of a batch, as the collator takes them."""
        chosen, rejected = self.compute_ref_log_probs(model, inputs)
        pairs = zip(chosen.tolist(), rejected.tolist(), strict=True)
        return [{"ref_chosen_logps": a, "ref_rejected_logps": b} for a, b in pairs]
