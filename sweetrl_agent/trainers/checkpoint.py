"""The checkpoint of our own training loops: all of their trainables and metrics in one file, between iterations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from colbench_gym.files import Row
from sweetrl_agent.core.trainable import Trainable


class Checkpoint:
    """A file with the state of trainables.

    Args:
        path: The file.
        trainables: What is saved, each with a name of its own; without any, the file has the metrics alone.

    Raises:
        ValueError: If two have the same name.
    """

    def __init__(self, path: Path, trainables: Sequence[Trainable]) -> None:
        names = [trainable.name for trainable in trainables]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"Each trainable needs a `name` of its own, got {min(repeated)!r} twice.")
        self.path, self.trainables = path, tuple(trainables)

    def load(self) -> list[Row]:
        """Restore the checkpoint; returns the metrics of the iterations done, [] if there is none."""
        if not self.path.exists():
            return []
        parameters = (parameter for trainable in self.trainables for parameter in trainable.module.parameters())
        device = next((parameter.device for parameter in parameters), "cpu")
        saved = torch.load(self.path, weights_only=True, map_location=device)
        for trainable in self.trainables:
            trainable.load_state_dict(saved["trainables"][trainable.name])
        return list(saved["metrics"])

    def save(self, metrics: list[Row]) -> None:
        """Replace the file.

        Args:
            metrics: One row for each iteration done.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        states = {trainable.name: trainable.state_dict() for trainable in self.trainables}
        torch.save({"trainables": states, "metrics": metrics}, part)
        part.replace(self.path)

    def remove(self) -> None:
        """Remove the checkpoint once the finished models are saved."""
        self.path.unlink(missing_ok=True)
