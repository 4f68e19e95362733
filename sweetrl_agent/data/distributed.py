"""The main job in several processes of `accelerate launch`: all take part in distributed stages, and the first runs everything else.

The other processes wait for a stage's name in the shared run folder. Unlike a barrier of torch.distributed, waiting for a file has no timeout. If one
process fails, the launcher ends all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from colbench_gym.errors import ColBenchError
from colbench_gym.files import write_text

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


def meet(folder: Path) -> None:
    """Wait until all processes of this launch have called this function, so that no process acts on files of an earlier launch.

    The first process removes the files of an earlier launch. It waits for a file with a nonce of each other process, and answers with all nonces
    in one file. A process writes its file again if the first process removed it.

    Args:
        folder: The run folder, which exists.
    """
    request, answer, nonce = folder / f".process_{rank()}", folder / ".processes", uuid4().hex
    if is_first():
        others = [folder / f".process_{number}" for number in range(1, num_processes())]
        for path in others:
            path.unlink(missing_ok=True)
        wait_until(lambda: all(path.exists() for path in others))
        if others:
            write_text(answer, " ".join(path.read_text() for path in others))
        for path in others:
            path.unlink()
        return

    def is_answered() -> bool:
        if answer.exists() and nonce in answer.read_text():
            return True
        if not request.exists():
            write_text(request, nonce)
        return False

    wait_until(is_answered)


def wait_until(is_there: Callable[[], bool]) -> None:
    """Wait until a condition that the first process fulfils holds."""
    while not is_there():
        time.sleep(SECONDS_BETWEEN_LOOKS)


def gradient_accumulation_steps(batch: int, micro_batch: int) -> int:
    """Gradient accumulation steps: forward passes per process in an optimizer step.

    Raises:
        ColBenchError: If the batch cannot be divided evenly among the processes.
    """
    per_pass = micro_batch * num_processes()
    if batch % per_pass:
        raise ColBenchError(
            f"A batch of {batch} cannot be divided among {num_processes()} processes with a micro-batch of {micro_batch}; "
            f"choose a micro-batch so that {num_processes()} times it divides {batch}."
        )
    return batch // per_pass
