"""What a training loop owns and checkpoints: named modules with their optimizers, such as policies, critics and target networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def constant(progress: float) -> float:
    """The schedule of a learning rate that does not change."""
    return 1.0


def linear_to_zero(progress: float) -> float:
    """The schedule of a learning rate that falls linearly to 0."""
    return 1 - progress


class Trainable:
    """A module in training.

    Args:
        name: Its name in the checkpoint, unique in an algorithm.
        module: The module.
        optimizer: Its optimizer; None for a module that only `follow`s another, such as a target network.
        schedule: Share of the learning rates by progress, the share of the iterations that are done.
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        schedule: Callable[[float], float] = constant,
    ) -> None:
        self.name, self.module, self.optimizer, self.schedule = name, module, optimizer, schedule
        self._rates = [group["lr"] for group in optimizer.param_groups] if optimizer else []

    def set_progress(self, progress: float) -> None:
        """Set the learning rates by the schedule, at the beginning of an iteration."""
        if self.optimizer:
            for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
                group["lr"] = self.schedule(progress) * rate

    def step(self, max_norm: float = 1.0) -> float:
        """Take an optimizer step on the gradients so far and clear them.

        Args:
            max_norm: Norm that the gradient of each parameter group is clipped to.

        Returns:
            Norm of the first group's gradient before clipping.

        Raises:
            ValueError: If it has no optimizer.
        """
        if self.optimizer is None:
            raise ValueError(f"The trainable {self.name!r} has no optimizer to take a step with.")
        norms = [torch.nn.utils.clip_grad_norm_(group["params"], max_norm) for group in self.optimizer.param_groups]
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(norms[0])

    @torch.no_grad()
    def follow(self, other: nn.Module, rate: float) -> None:
        """Move the parameters towards those of another module: theta <- (1 - rate) theta + rate theta'. Buffers are copied."""
        for parameter, target in zip(self.module.parameters(), other.parameters(), strict=True):
            parameter.lerp_(target, rate)
        for buffer, copied in zip(self.module.buffers(), other.buffers(), strict=True):
            buffer.copy_(copied)

    def state_dict(self) -> dict[str, Any]:
        """State of the module and of the optimizer."""
        return {"module": self.module.state_dict(), **({"optimizer": self.optimizer.state_dict()} if self.optimizer else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.module.load_state_dict(state["module"])
        if self.optimizer:
            self.optimizer.load_state_dict(state["optimizer"])
