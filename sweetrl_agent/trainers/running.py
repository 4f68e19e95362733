"""Shared by all training stages: trainer arguments, the clock, and atomic saving of the final model. `trainers.stage_training` trains."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.data.distributed import gradient_accumulation_steps, is_first, num_processes, sharding
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.models.loading import torch_dtype

_log = logging.getLogger(__name__)
CHECKPOINTS = "checkpoints"
#: Metric: cumulative number of tokens processed by the model, including both sides of a pair and the user's messages.
TRAINED_TOKENS = "num_input_tokens_seen"
#: Metric: cumulative number of tokens read without training on them, by a critic or for the likelihood of given texts; absent where there are none.
SCORED_TOKENS = "scored_tokens"
#: Metric: turns of the environment that a critic's ranking took, for the replies to candidates and their verdicts.
RANKED_TURNS = "ranked_turns"
#: Metric: cumulative number of turns whose text the verifier has scored; absent where there are none.
VERIFIED = "verified_turns"


def report_skipped(kept: int, total: int, longest: int, what: str = "pairs") -> None:
    """Warn of rows that are skipped because they are too long: none is cut.

    Args:
        kept: Number of rows that are kept.
        total: Number of all rows.
        longest: Maximum number of tokens.
        what: What a row is, in the plural.

    Raises:
        ColBenchError: If none is kept.
    """
    if total and not kept:
        raise ColBenchError(f"All {total} {what} have more than {longest} tokens; raise the maximum length of the stage.")
    if kept < total:
        _log.warning("%d of %d %s have more than %d tokens and are skipped.", total - kept, total, what, longest)


class StageClock:
    """Wall time of a stage's training, in seconds; continued from the last logged step where training is resumed."""

    def __init__(self, metrics: Sequence[Row]) -> None:
        """Start the clock.

        Args:
            metrics: The stage's rows so far; their last "seconds" is where the clock starts.
        """
        self._start = time.monotonic() - next((row[SECONDS] for row in reversed(metrics) if SECONDS in row), 0.0)

    def seconds(self) -> float:
        """Seconds of training so far."""
        return round(time.monotonic() - self._start, 2)


def trainer_arguments(
    folder: Path, seed: int, model: ModelArguments, batch: int, micro_batch: int, learning_rate: float, epochs: float
) -> dict[str, Any]:
    """Arguments of a TRL config for a stage that writes its model to `folder`.

    bfloat16 models are trained with autocast where their trained weights are float32: adapters, and everything on a GPU.

    Schedule and optimizer follow the released code: cosine decay to a tenth, 3% warm-up, Adam betas (0.9, 0.95), gradient norm clipped at 1.
    """
    on_gpu = torch.cuda.is_available()
    has_autocast = on_gpu or (model.lora and torch_dtype(model) == torch.bfloat16)
    return {
        "output_dir": str(folder / CHECKPOINTS),
        "seed": seed,
        "per_device_train_batch_size": micro_batch,
        "gradient_accumulation_steps": gradient_accumulation_steps(batch, micro_batch),
        "learning_rate": learning_rate,
        "num_train_epochs": epochs,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
        "warmup_steps": 0.03,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "max_grad_norm": 1.0,
        "logging_steps": 10,
        "logging_first_step": True,
        "save_strategy": "steps",
        "save_steps": 10 if model.lora else 100,  # an adapter is small, and its steps are long
        "save_total_limit": 1,
        "report_to": [],  # `trainers.trackers` instead
        "disable_tqdm": True,
        # With `use_cpu`, accelerate would silently train without DeepSpeed.
        "use_cpu": not on_gpu and not sharding(),
        "ddp_backend": "gloo" if num_processes() > 1 and not on_gpu else None,
        "bf16": has_autocast,
        "gradient_checkpointing": model.gradient_checkpointing,
        "dataloader_pin_memory": on_gpu,
        "include_num_input_tokens_seen": "non_padding",
    }


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save a finished model to `folder`, atomically."""
    with atomic_folder(folder) as beside:
        model.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
        sort_modules(beside / "adapter_config.json")


def no_barrier() -> None:
    """Wait for no other process: the default of `atomic_folder`."""


@contextlib.contextmanager
def atomic_folder(folder: Path, everyone: Callable[[], None] = no_barrier) -> Iterator[Path]:
    """Context manager of a temporary folder that all processes write to, which need not exist; it replaces `folder` at the end.

    Args:
        folder: The folder; kept as it is if writing fails.
        everyone: Waits for all processes that write.
    """
    beside, replaced = (folder.with_name(folder.name + ending) for ending in (".part", ".old"))
    if is_first():
        for rest in (beside, replaced):
            shutil.rmtree(rest, ignore_errors=True)
    everyone()
    yield beside
    everyone()
    if is_first():
        if folder.exists():
            folder.rename(replaced)  # at once: a kill while its files are removed would leave a checkpoint that lacks some
        beside.rename(folder)
        shutil.rmtree(replaced, ignore_errors=True)
    everyone()


def sort_modules(config: Path) -> None:
    """Sort the module names in an adapter's configuration, if there is one: PEFT writes a set, in another order in each process."""
    if config.is_file():
        found = json.loads(config.read_text(encoding="utf-8"))
        names = found.get("target_modules")
        found["target_modules"] = sorted(names) if isinstance(names, list) else names
        config.write_text(json.dumps(found, indent=2, sort_keys=True), encoding="utf-8")
