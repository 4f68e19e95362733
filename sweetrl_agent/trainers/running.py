"""Shared by all training stages: trainer arguments, progress, checkpoints, and atomic saving of the final model."""

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
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint

from colbench_gym.files import Row
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.data.distributed import gradient_accumulation_steps, is_first, num_processes, refuse_other_sharding, sharding
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.models.loading import merged, torch_dtype
from sweetrl_agent.trainers.bridge import CallbackBridge, logged_rows
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only

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


class StageProgress(TrainerCallback):
    """A progress bar with the stage's name, rate, remaining time and loss, and the wall time of every logged step."""

    def __init__(self, stage: str) -> None:
        """Name the bar after the stage."""
        self.stage = stage
        self.bar: Any = None
        self.clock = StageClock([])

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the bar at the step that training starts or resumes from, and start the clock."""
        self.clock = StageClock(state.log_history)
        if is_first():
            self.bar = progress_bar(total=state.max_steps, initial=state.global_step, desc=self.stage, unit="step")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Advance the bar; the last step is always logged."""
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)
        control.should_log |= state.global_step >= state.max_steps

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        """Show the loss, and note the time in the trainer's history, which its checkpoints keep."""
        if state.log_history:
            state.log_history[-1][SECONDS] = self.clock.seconds()
        if self.bar is not None and logs and "loss" in logs:
            self.bar.set_postfix(loss=f"{float(logs['loss']):.3f}")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()


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


def train_stage(
    trainer: Any, tokenizer: Any, folder: Path, stage: str, callbacks: Callbacks | None = None, is_merged: bool = False
) -> list[Row]:
    """Train, from the last checkpoint if there is one, and move the finished model into `folder`.

    `callbacks` are those of the run, which may stop the training; the model is then saved as it is. With `is_merged`, the trained adapter is
    merged into the weights, and the folder has the whole model.

    Returns:
        The stage's training metrics, one row per logged step.

    Raises:
        ColBenchError: If the weights are not sharded as configured in `accelerate launch`.
    """
    refuse_other_sharding(trainer)
    score_labelled_tokens_only(trainer)
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(StageProgress(stage))
    callbacks = callbacks or Callbacks()
    for callback in (CallbackBridge(callbacks, stage), *callbacks.trainer_callbacks):
        trainer.add_callback(callback)
    checkpoints = folder / CHECKPOINTS
    if is_first():
        _drop_torn_checkpoints(checkpoints)
    trainer.accelerator.wait_for_everyone()
    last = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None
    if last and is_first():
        _log.info("%s: resumes from step %s", stage, last.rpartition("-")[2])
    trainer.train(resume_from_checkpoint=last)
    everyone = trainer.accelerator.wait_for_everyone
    with atomic_folder(folder, everyone) as beside:
        if is_merged:
            merged(trainer.accelerator.unwrap_model(trainer.model)).save_pretrained(beside)
        else:
            trainer.save_model(str(beside))  # gathers the shards of all processes
        if is_first():
            tokenizer.save_pretrained(str(beside))
            (beside / "training_args.bin").unlink(missing_ok=True)  # contains paths of this machine
            _sort_modules(beside / "adapter_config.json")
    rows = logged_rows(trainer.state, stage)
    rows[-1][TRAINED_TOKENS] = trainer.state.num_input_tokens_seen  # includes the steps after the last logged one
    if read := getattr(trainer, "scored_tokens", 0):
        rows[-1][SCORED_TOKENS] = read
    return rows


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save a finished model to `folder`, atomically."""
    with atomic_folder(folder) as beside:
        model.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
        _sort_modules(beside / "adapter_config.json")


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


def _sort_modules(config: Path) -> None:
    """Sort the module names in an adapter's configuration, if there is one: PEFT writes a set, in another order in each process."""
    if config.is_file():
        found = json.loads(config.read_text(encoding="utf-8"))
        names = found.get("target_modules")
        found["target_modules"] = sorted(names) if isinstance(names, list) else names
        config.write_text(json.dumps(found, indent=2, sort_keys=True), encoding="utf-8")


def _drop_torn_checkpoints(checkpoints: Path) -> None:
    """Remove incomplete checkpoints that a kill left: the trainer state is written last."""
    for checkpoint in checkpoints.glob("checkpoint-*"):
        try:
            json.loads((checkpoint / "trainer_state.json").read_text())
        except (FileNotFoundError, ValueError):
            shutil.rmtree(checkpoint)
