"""The shards of a stage, worked off in this process or by Ray's workers; results come in the order of the shards either way.

A shard is a fixed part of the work whose result depends on nothing but itself, so the files of a stage are the same for any number of
workers, and a shard whose worker was killed is simply done again. Scheduling, restarts and transport are Ray's.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config import RunArguments

Shard = TypeVar("Shard")
Result = TypeVar("Result")
#: Opens what a worker needs, such as a model and an environment: its value turns a shard into a result.
Opens = Callable[[], AbstractContextManager[Callable[[Shard], Result]]]


def in_order(opens: Opens[Shard, Result], shards: Sequence[Shard], settings: RunArguments) -> Iterator[Result]:
    """Results of all shards; nothing is opened where there is none.

    Args:
        opens: Called once in every worker. For Ray it is pickled, with all that it refers to.
        shards: The parts of the work.
        settings: Number of Ray's workers, 0 to work here; address of its cluster.

    Raises:
        ColBenchError: If Ray is asked for and is not installed, or its cluster cannot be reached.
    """
    if not shards:
        return
    if settings.ray_workers:
        yield from _on_ray(opens, shards, settings)
        return
    with opens() as work:
        for shard in shards:
            yield work(shard)


class _Worker:
    """A process of Ray's. One thread of torch each, whatever their number: more would sum in another order."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self._opened: tuple[Any, Callable[[Any], Any]] | None = None  # until the process ends

    def do(self, opens: list[Any], shard: Any) -> Any:
        """Work off a shard; `opens` holds the reference of what opens this worker, for a process that takes the place of a killed one."""
        if self._opened is None:
            import ray

            held = ray.get(opens[0])()
            self._opened = held, held.__enter__()
        return self._opened[1](shard)


def _on_ray(opens: Opens[Shard, Result], shards: Sequence[Shard], settings: RunArguments) -> Iterator[Result]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        from ray.util import ActorPool
    except ImportError:
        raise ColBenchError("`--ray_workers` needs Ray: `pip install 'colbench-gym[ray]'`.") from None
    if not ray.is_initialized():
        _join(ray, settings)
    import torch

    room = int(ray.cluster_resources().get("CPU", 1))  # a worker without one would never start
    count = min(settings.ray_workers, len(shards), max(room, 1))
    gpus = 1 if torch.cuda.is_available() else 0
    kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(_Worker)
    held = [ray.put(opens)]  # not an argument of the constructor: Ray cannot restart an actor whose own arguments are large
    workers: list[Any] = [kind.remote() for _ in range(count)]
    try:
        pool: Any = ActorPool(workers)
        yield from pool.map(lambda worker, shard: worker.do.remote(held, shard), shards)
    finally:
        for worker in workers:
            ray.kill(worker)


def _join(ray: Any, settings: RunArguments) -> None:
    """Join the named cluster, or start one of this machine."""
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if not settings.ray_address:
        ray.init(num_cpus=settings.ray_workers, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
        return
    host, _, port = settings.ray_address.removeprefix("ray://").rpartition(":")
    try:
        if host:  # Ray itself waits for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=settings.ray_address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise ColBenchError(
            f"No Ray cluster answers at {settings.ray_address!r}: {error}. Start one with `ray start --head`."
        ) from None
