"""Trains a stage with a trainer of transformers or TRL: from its last checkpoint, with a progress bar and the callbacks of the run.

It imports transformers' trainer, which takes seconds: what reads settings does not import this module.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint

from colbench_gym.files import Row
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.data.distributed import is_first, refuse_other_sharding
from sweetrl_agent.data.files import SECONDS, timeless
from sweetrl_agent.models.loading import merged
from sweetrl_agent.trainers.running import CHECKPOINTS, SCORED_TOKENS, TRAINED_TOKENS, StageClock, atomic_folder, sort_modules
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only

_log = logging.getLogger(__name__)
#: Logged values that depend on the machine and not on the seed.
_TIMINGS = ("runtime", "per_second", "flos", "train_loss")


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


class CallbackBridge(TrainerCallback):
    """Tells the callbacks of a run what a trainer does, and stops the trainer if one of them asks for it."""

    def __init__(self, callbacks: Callbacks, stage: str, steps_before: int = 0) -> None:
        """Store the callbacks, the name of the stage, and how many steps it had before the trainer's."""
        self.callbacks, self.stage, self.steps_before = callbacks, stage, steps_before

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Repeat what was logged before the checkpoint that training resumes from."""
        for row in logged_rows(state, self.stage, self.steps_before):
            self.callbacks.tell("on_log", self.stage, row["step"], timeless(row))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """See `Callback.on_step`."""
        step, last = (self.steps_before + number for number in (state.global_step, state.max_steps))
        if not self.callbacks.tell("on_step", self.stage, step, last):
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        """See `Callback.on_log`; called after the trainer has added the values to its history."""
        if logs and "loss" in logs:
            row = logged_rows(state, self.stage, self.steps_before)[-1]
            if not self.callbacks.tell("on_log", self.stage, row["step"], timeless(row)):
                control.should_training_stop = True


def logged_rows(state: Any, stage: str, steps_before: int = 0) -> list[Row]:
    """The rows of metrics from a trainer's state: one per logged step or evaluation, with its wall time as the only timing. Names are sorted, as in a checkpoint."""
    return [
        {
            "stage": stage,
            "step": steps_before + entry["step"],
            **{k: entry[k] for k in sorted(entry) if k != "step" and not _is_timing(k)},
        }
        for entry in state.log_history
        if "loss" in entry or "eval_loss" in entry
    ]


def _is_timing(name: str) -> bool:
    return any(part in name for part in _TIMINGS)


def train_stage(
    trainer: Any,
    tokenizer: Any,
    folder: Path,
    stage: str,
    callbacks: Callbacks | None = None,
    is_merged: bool = False,
    steps_before: int = 0,
) -> list[Row]:
    """Train, from the last checkpoint if there is one, and move the finished model into `folder`.

    `callbacks` are those of the run, which may stop the training; the model is then saved as it is. With `is_merged`, the trained adapter is
    merged into the weights, and the folder has the whole model. In metrics and callbacks, steps are counted from `steps_before`, those of an
    earlier part of the stage.

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
    for callback in (CallbackBridge(callbacks, stage, steps_before), *callbacks.trainer_callbacks):
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
            sort_modules(beside / "adapter_config.json")
    rows = logged_rows(trainer.state, stage, steps_before)
    rows[-1][TRAINED_TOKENS] = trainer.state.num_input_tokens_seen  # includes the steps after the last logged one
    if read := getattr(trainer, "scored_tokens", 0):
        rows[-1][SCORED_TOKENS] = read
    return rows


def _drop_torn_checkpoints(checkpoints: Path) -> None:
    """Remove incomplete checkpoints that a kill left: the trainer state is written last."""
    for checkpoint in checkpoints.glob("checkpoint-*"):
        try:
            json.loads((checkpoint / "trainer_state.json").read_text())
        except (FileNotFoundError, ValueError):
            shutil.rmtree(checkpoint)
