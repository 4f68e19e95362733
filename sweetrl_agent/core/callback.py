"""Callbacks: objects that a run calls while it works, as in Stable-Baselines3 and TRL.

A callback is given to `run_train(callbacks=[...])`, or named on the command line, `--callbacks my_package:Mine`. Trackers
(`trainers.trackers`) are callbacks too.

    class Patience(Callback):
        def on_log(self, run, stage, step, values):
            return values.get("loss", 0.0) < 10  # False stops the training of this stage

After a kill, the events that a checkpoint remembers (`on_log`, `on_evaluate`) are repeated before training resumes, so that a
callback that counts them has the state that it had. With `accelerate launch`, every process that trains calls its own
callbacks, with the same values; only the first process may write files (`data.distributed.is_first`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colbench_gym.progress import tell_progress

if TYPE_CHECKING:
    from sweetrl_agent.core.episode import Episode

Values = Mapping[str, float]
#: Methods of a callback that can stop the training of a stage.
STOPPING = ("on_step", "on_iteration", "on_log", "on_evaluate")
_log = logging.getLogger(__name__)


class StopTraining(Exception):
    """Raised in `on_step`, `on_iteration`, `on_log` or `on_evaluate` to stop the training of the stage, as returning False does.

    The model is saved as it is, and the run continues with the next stage. Where nothing is being trained, it has no effect.
    """


class Callback:
    """Called while a run works; override what you need.

    Methods that return `bool | None` stop the training of the current stage by returning False (see `StopTraining`). `run` is the run
    (`core.run.Run`), `stage` the name of the stage, as in `--stage` and metrics.jsonl, and `step` counts within the stage, from 1.
    """

    def on_run_begin(self, run: Any) -> None:
        """The run starts or resumes."""

    def on_run_end(self, run: Any, error: BaseException | None) -> None:
        """The run ends; `error` is the exception that ends it, None for success."""

    def on_stage_begin(self, run: Any, stage: str) -> None:
        """A stage starts or resumes. Stages that are done already are not announced."""

    def on_stage_end(self, run: Any, stage: str, values: Values) -> None:
        """A stage is done; `values` has its "seconds" and "peak_mib"."""

    def on_step(self, run: Any, stage: str, step: int, total: int) -> bool | None:
        """An optimizer step of a trainer of TRL or transformers, or a step of Stable-Baselines3, is done; `total` steps are planned."""
        return None

    def on_iteration(self, run: Any, stage: str, step: int, episodes: Sequence[Episode]) -> bool | None:
        """An iteration of an on-policy algorithm is done; `episodes` are those that it trained on, void ones excluded."""
        return None

    def on_log(self, run: Any, stage: str, step: int, values: Values) -> bool | None:
        """Metrics of a stage, such as "loss" of `sft`, "return" of `grpo`, or "success" of `collect`; the numbers of metrics.jsonl."""
        return None

    def on_evaluate(self, run: Any, stage: str, step: int, values: Values) -> bool | None:
        """Results on held-out tasks, such as "test/success" with "test/success_low" and "test/success_high", its 95% interval.

        In training by `--eval_every`, `stage` is the algorithm's and `step` its iteration; in the stage `evaluate`, `step` is the number of
        episodes that are not void.
        """
        return None


class Callbacks:
    """The callbacks of a run.

    Attributes:
        trainer_callbacks: `transformers.TrainerCallback` objects, for the stages that trainers of TRL or transformers train.
    """

    def __init__(self, run: Any = None, callbacks: Sequence[Callback] = (), trainer_callbacks: Sequence[Any] = ()) -> None:
        self._run, self._callbacks = run, tuple(callbacks)
        self._begun: list[Callback] = []
        self.trainer_callbacks = tuple(trainer_callbacks)

    def tell(self, event: str, *values: Any) -> bool:
        """Call a method of all callbacks, also after one has asked to stop.

        Args:
            event: Name of the method, such as "on_log". `on_run_end` is called for the callbacks whose `on_run_begin` has returned.
            *values: Its arguments after `run`; of metrics and results, the numbers are passed on.

        Returns:
            Whether training continues.
        """
        if event in ("on_log", "on_evaluate"):
            values = (*values[:-1], numbers(values[-1]))
            tell_progress(step=values[1], metrics=values[-1])
        continues = True
        for callback in self._begun if event == "on_run_end" else self._callbacks:
            try:
                wants_to_stop = getattr(callback, event)(self._run, *values) is False
            except StopTraining:
                if event not in STOPPING:
                    raise
                wants_to_stop = True
            if event == "on_run_begin":
                self._begun.append(callback)
            if wants_to_stop and event in STOPPING:
                continues = False
                _log.info("%s: %s stops the training at step %d", values[0], type(callback).__name__, values[1])
        return continues


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among some values, without "stage" and "step"."""
    return {
        name: float(value) for name, value in values.items() if isinstance(value, int | float) and name not in ("stage", "step")
    }
