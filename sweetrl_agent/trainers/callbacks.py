"""The callbacks of a run, made from names and classes. `trainers.stage_training` tells them what a trainer does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from colbench_gym.progress import progress_file
from sandboxes.named import load_named
from sweetrl_agent.core.callback import Callback, Callbacks
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.distributed import is_first
from sweetrl_agent.trainers.trackers import make_trackers


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
        run, [*trackers, *callbacks], [callback for callback in made if isinstance(callback, _of_trainers())]
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
        if not issubclass(kind, (Callback, *_of_trainers())):
            raise ValueError(
                f"`callbacks` must be classes or objects of `sweetrl_agent.Callback` or `transformers.TrainerCallback`, got {callback!r}."
            )
    return callbacks


def _of_trainers() -> tuple[type, ...]:
    """The class `transformers.TrainerCallback`; () where nothing has imported it, so that nothing is derived from it. The import takes seconds."""
    module: Any = sys.modules.get("transformers.trainer_callback")
    return (module.TrainerCallback,) if module else ()
