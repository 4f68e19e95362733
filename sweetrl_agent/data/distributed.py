"""The main job in several processes of `accelerate launch`: all take part in distributed stages, and the first runs everything else.

The other processes wait for a stage's name in the shared run folder. Unlike a barrier of torch.distributed, waiting for a file has no timeout. If one
process fails, the launcher ends all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from colbench_gym.errors import ColBenchError

SECONDS_BETWEEN_LOOKS = 0.5


def rank() -> int:
    """Rank of this process; 0 for the first or only one."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Rank of this process among those of its machine; 0 for the first or only one."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def num_processes() -> int:
    """Number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the process that writes files."""
    return rank() == 0


def sharding() -> str:
    """The library that shards weights, as configured in `accelerate launch`: "DEEPSPEED", "FSDP", or "" for none."""
    names = ("DEEPSPEED", "FSDP")
    return next((name for name in names if os.environ.get(f"ACCELERATE_USE_{name}", "false").lower() == "true"), "")


def refuse_other_sharding(trainer: Any) -> None:
    """Check that accelerate shards as it was launched to.

    Raises:
        ColBenchError: If the weights are not sharded as requested.
    """
    if sharding() not in ("", str(trainer.accelerator.distributed_type.value)):
        raise ColBenchError(f"accelerate was launched with {sharding()} but trains without it here: FSDP needs GPUs.")


def wait_until(is_there: Callable[[], bool]) -> None:
    """Wait until a condition that the first process fulfils holds."""
    while not is_there():
        time.sleep(SECONDS_BETWEEN_LOOKS)


def gradient_accumulation_steps(batch: int, micro_batch: int) -> int:
    """Gradient accumulation steps: forward passes per process in an optimizer step.

    Raises:
        ColBenchError: If the batch cannot be divided evenly among the processes.
    """
    together = micro_batch * num_processes()
    if batch % together:
        raise ColBenchError(
            f"A batch of {batch} cannot be divided among {num_processes()} processes with a micro-batch of {micro_batch}; "
            f"choose a micro-batch so that {num_processes()} times it divides {batch}."
        )
    return batch // together
