"""What every training stage shares: arguments, progress, checkpoints to resume from, and the final model's arrival."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint

from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.data.distributed import gradient_accumulation_steps, is_first, num_processes, refuse_other_sharding, sharding
from sweetrl_agent.data.files import Row
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only

CHECKPOINTS = "checkpoints"
#: Metric that counts tokens through the model so far, both sides of a pair and the human's words included.
TRAINED_TOKENS = "num_input_tokens_seen"
#: Of what a trainer logs, what depends on the machine and not on the seed.
_TIMINGS = ("runtime", "per_second", "flos", "train_loss")


class StageProgress(TrainerCallback):
    """A progress bar with the stage's name, rate, remaining time and loss."""

    def __init__(self, stage: str) -> None:
        """Name the bar after the stage."""
        self.stage = stage
        self.bar: tqdm[Any] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the bar where training goes on from."""
        if is_first():
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, desc=self.stage, unit="step")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move on."""
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        """Show the loss."""
        if self.bar is not None and logs and "loss" in logs:
            self.bar.set_postfix(loss=f"{float(logs['loss']):.3f}")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()


def trainer_arguments(
    folder: Path, seed: int, model: ModelArguments, batch: int, micro_batch: int, learning_rate: float, epochs: float
) -> dict[str, Any]:
    """Arguments of a TRL config for a stage that writes into `folder`.

    Schedule and optimizer as in the released code: cosine to a tenth, 3% warm-up, Adam betas (0.9, 0.95), gradients clipped at 1.
    """
    on_gpu = torch.cuda.is_available()
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
        "save_steps": 100,
        "save_total_limit": 1,
        "report_to": [],
        "disable_tqdm": True,
        # Told of a CPU, accelerate would train without DeepSpeed, and not say so.
        "use_cpu": not on_gpu and not sharding(),
        "ddp_backend": "gloo" if num_processes() > 1 and not on_gpu else None,
        "bf16": on_gpu,
        "gradient_checkpointing": model.gradient_checkpointing,
        "dataloader_pin_memory": on_gpu,
        "include_num_input_tokens_seen": "non_padding",
    }


def train_stage(trainer: Any, tokenizer: Any, folder: Path, stage: str) -> list[Row]:
    """Train, from the last checkpoint if there is one, and move the finished model into `folder`.

    Returns:
        The stage's training metrics, one row per logged step.

    Raises:
        ColBenchError: If the weights are not shared out as `accelerate launch` was told to.
    """
    refuse_other_sharding(trainer)
    score_labelled_tokens_only(trainer)
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(StageProgress(stage))
    checkpoints = folder / CHECKPOINTS
    if is_first():
        _drop_torn_checkpoints(checkpoints)
    trainer.accelerator.wait_for_everyone()
    last = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    everyone = trainer.accelerator.wait_for_everyone
    with _arriving(folder, everyone) as beside:
        trainer.save_model(str(beside))  # shards of all processes come together here
        if is_first():
            tokenizer.save_pretrained(str(beside))
            (beside / "training_args.bin").unlink(missing_ok=True)  # holds paths of this machine
    rows = [
        {"stage": stage, "step": entry["step"], **{k: v for k, v in entry.items() if k != "step" and not _is_timing(k)}}
        for entry in trainer.state.log_history
        if "loss" in entry
    ]
    rows[-1][TRAINED_TOKENS] = trainer.state.num_input_tokens_seen  # the steps after the last logged one, too
    return rows


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Put a finished model into `folder`, whole or not at all."""
    with _arriving(folder) as beside:
        model.save_pretrained(beside)
        tokenizer.save_pretrained(beside)


def _nobody() -> None:
    pass


@contextlib.contextmanager
def _arriving(folder: Path, everyone: Callable[[], None] = _nobody) -> Iterator[Path]:
    """A folder beside `folder` to be filled, by all processes together, which then takes its place."""
    beside = folder.with_name(folder.name + ".part")
    if is_first():
        shutil.rmtree(beside, ignore_errors=True)
    everyone()
    yield beside
    everyone()
    if is_first():
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    everyone()


class Checkpoint:
    """Where a training loop of our own goes on from: weights, optimizer, steps done and metrics, in one file."""

    def __init__(self, path: Path, model: Any, optimizer: torch.optim.Optimizer) -> None:
        """Keep this model and optimizer in `path`."""
        self.path, self.model, self.optimizer = path, model, optimizer

    def load(self) -> tuple[int, list[Row]]:
        """Restore what was saved; returns the steps done and their metrics, (0, []) where nothing was saved."""
        if not self.path.exists():
            return 0, []
        saved = torch.load(self.path, weights_only=True, map_location=next(self.model.parameters()).device)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        return int(saved["done"]), list(saved["metrics"])

    def save(self, done: int, metrics: list[Row]) -> None:
        """Replace the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "done": done, "metrics": metrics}
        torch.save(state, part)
        part.replace(self.path)

    def remove(self) -> None:
        """The finished model has arrived: nothing is to be gone on with."""
        self.path.unlink(missing_ok=True)


def _drop_torn_checkpoints(checkpoints: Path) -> None:
    """Remove checkpoints that a kill left half written: the trainer's state is what is written last."""
    for checkpoint in checkpoints.glob("checkpoint-*"):
        try:
            json.loads((checkpoint / "trainer_state.json").read_text())
        except (FileNotFoundError, ValueError):
            shutil.rmtree(checkpoint)


def _is_timing(name: str) -> bool:
    return any(part in name for part in _TIMINGS)
