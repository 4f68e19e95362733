"""The bridge from trainers of TRL and transformers to the callbacks of a run, and the making of callbacks from names and classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from colbench_gym.files import Row
from colbench_gym.progress import progress_file
from sandboxes.named import load_named
from sweetrl_agent.core.callback import Callback, Callbacks
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.distributed import is_first
from sweetrl_agent.data.files import timeless
from sweetrl_agent.trainers.trackers import make_trackers

#: Logged values that depend on the machine and not on the seed.
_TIMINGS = ("runtime", "per_second", "flos", "train_loss")


class CallbackBridge(TrainerCallback):
    """Tells the callbacks of a run what a trainer does, and stops the trainer if one of them asks for it."""

    def __init__(self, callbacks: Callbacks, stage: str) -> None:
        """Store the callbacks and the name of the stage."""
        self.callbacks, self.stage = callbacks, stage

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Repeat what was logged before the checkpoint that training resumes from."""
        for row in logged_rows(state, self.stage):
            self.callbacks.tell("on_log", self.stage, row["step"], timeless(row))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """See `Callback.on_step`."""
        if not self.callbacks.tell("on_step", self.stage, state.global_step, state.max_steps):
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        """See `Callback.on_log`; called after the trainer has added the values to its history."""
        if logs and "loss" in logs:
            row = logged_rows(state, self.stage)[-1]
            if not self.callbacks.tell("on_log", self.stage, row["step"], timeless(row)):
                control.should_training_stop = True


def logged_rows(state: Any, stage: str) -> list[Row]:
    """The rows of metrics from a trainer's state: one per logged step or evaluation, with its wall time as the only timing. Names are sorted, as in a checkpoint."""
    return [
        {"stage": stage, "step": entry["step"], **{k: entry[k] for k in sorted(entry) if k != "step" and not _is_timing(k)}}
        for entry in state.log_history
        if "loss" in entry or "eval_loss" in entry
    ]


def _is_timing(name: str) -> bool:
    return any(part in name for part in _TIMINGS)


@contextmanager
def callback_context(run: Run, given: Sequence[Any] = (), root: Path | None = None) -> Iterator[None]:
    """Open the trackers and the callbacks of a run for as long as the block runs.

    Args:
        run: The run; `report_to` and `callbacks` of its settings are used.
        given: Further callbacks: objects or classes, of `Callback` or `transformers.TrainerCallback`.
        root: Folder of the comparison that the run belongs to; None for a run of its own.

    Raises:
        ValueError: If a name or object is not a callback.
    """
    kinds = find_callbacks([*run.config.run.callbacks, *given])
    made = [callback() if isinstance(callback, type) else callback for callback in kinds]
    callbacks = [callback for callback in made if isinstance(callback, Callback)]
    trackers = make_trackers(run.config.run.report_to, root or run.folder) if is_first() else []
    run.callbacks = Callbacks(
        run, [*trackers, *callbacks], [callback for callback in made if isinstance(callback, TrainerCallback)]
    )
    error: BaseException | None = None
    try:
        with progress_file(run.folder) if is_first() else nullcontext():
            run.callbacks.tell("on_run_begin")
            yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        run.callbacks.tell("on_run_end", error)
        run.callbacks = Callbacks(run)


def find_callbacks(given: Sequence[Any]) -> list[Any]:
    """Classes and objects of callbacks; names, "package.module:Class" or "package.module:OBJECT", are imported, and nothing is made.

    Raises:
        ValueError: Names what is not a callback.
    """
    callbacks = [load_named("callbacks", callback) if isinstance(callback, str) else callback for callback in given]
    for callback in callbacks:
        kind = callback if isinstance(callback, type) else type(callback)
        if not issubclass(kind, Callback | TrainerCallback):
            raise ValueError(
                f"`callbacks` must be classes or objects of `sweetrl_agent.Callback` or `transformers.TrainerCallback`, got {callback!r}."
            )
    return callbacks
