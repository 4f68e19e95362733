"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, one tracker run for a run folder, metrics named `stage/name`.

The callbacks of transformers are not used: each opens a run of its own for every trainer, names everything `train/...`, closes the
run when the trainer ends, and knows no loop without a `Trainer`. Most stages here have none (on-policy algorithms, Stable-Baselines3,
collection, evaluation). `Tracker` is a `Callback`, to which all stages report alike; a tracker adds how a number is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweetrl_agent.trainers.trackers.tracker import Tracker

#: Names of `--report_to`, with the class of each tracker as "module:class". Modules import their library on use.
TRACKERS = {"tensorboard": "tensorboard:TensorBoard", "wandb": "wandb:WeightsAndBiases", "mlflow": "mlflow:MLflow"}


def make_trackers(names: Sequence[str], root: Path) -> list[Tracker]:
    """The trackers of `report_to`.

    Args:
        names: Names from `TRACKERS`, or "none".
        root: Folder of the run, or of the comparison that it belongs to.
    """
    places = [TRACKERS[name].split(":") for name in names if name != "none"]
    return [getattr(import_module(f"{__name__}.{module}"), found)(root) for module, found in places]
