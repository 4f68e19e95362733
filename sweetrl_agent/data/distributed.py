"""The main job as several processes of `accelerate launch`: they train together, and the first does everything else.

The others wait for a stage's name in the run folder, which they share. A wait on a file has no time limit, unlike one of torch.distributed; a
process that ends with an error ends all of them, which is the launcher's work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from colbench_gym.errors import ColBenchError

SECONDS_BETWEEN_LOOKS = 0.5


def rank() -> int:
    """This process's number; 0 for the only or the first one."""
    return int(os.environ.get("RANK", "0"))


def num_processes() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """True for the process that writes files."""
    return rank() == 0


def sharding() -> str:
    """What shares out weights among the processes, as `accelerate launch` was told: "DEEPSPEED", "FSDP", or "" for nothing."""
    names = ("DEEPSPEED", "FSDP")
    return next((name for name in names if os.environ.get(f"ACCELERATE_USE_{name}", "false").lower() == "true"), "")


def refuse_other_sharding(trainer: Any) -> None:
    """Check that accelerate does what it was launched for.

    Raises:
        ColBenchError: If the weights are not shared out as it was told to.
    """
    if sharding() not in ("", str(trainer.accelerator.distributed_type.value)):
        raise ColBenchError(f"accelerate trains without {sharding()} here, which it was launched with: FSDP needs GPUs.")


def wait_until(is_there: Callable[[], bool]) -> None:
    """Wait for what the first process does."""
    while not is_there():
        time.sleep(SECONDS_BETWEEN_LOOKS)


def gradient_accumulation_steps(batch: int, micro_batch: int) -> int:
    """Forward passes of each process in an optimizer step.

    Raises:
        ColBenchError: If the processes cannot share the batch evenly.
    """
    together = micro_batch * num_processes()
    if batch % together:
        raise ColBenchError(
            f"A batch of {batch} cannot be shared by {num_processes()} processes of {micro_batch} at a time; "
            f"choose a micro-batch so that {num_processes()} times it divides {batch}."
        )
    return batch // together
