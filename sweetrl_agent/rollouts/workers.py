"""The shards of a stage, worked off in this process or by Ray's workers; results come in the order of the shards either way.

A shard is a fixed part of the work whose result depends on nothing but itself, so the files of a stage are the same bytes for any number of
workers on the same kind of machine, and those of this process with one thread of torch. With more threads, on a GPU or another CPU sums are taken in
another order: log-probabilities and scores then differ from about the sixth decimal on, and a token only where its draw lies that close to another's.
A shard whose worker was killed is simply done again. Scheduling, restarts and transport are Ray's.

A cluster that is started here listens on the loopback interface alone, without a dashboard, and answers only those who have its token. That is
in the environment of its processes and in no file. For any other cluster start one yourself and name it by `--ray_address`.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, TypeVar

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.processes import WAITING

Shard = TypeVar("Shard")
Result = TypeVar("Result")
#: Ray's variable for clusters of several machines on Windows and macOS. Elsewhere, too, 0 gives a node the address 127.0.0.1 and binds all its
#: servers to that, which `_node_ip_address` does not: Ray replaces a loopback address by that of the network.
_SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
#: Any of these is the user's own choice of how a cluster is protected. Without one Ray writes a token that everybody may read to ~/.ray/auth_token.
_PROTECTION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
#: WorkerFactory what a worker needs, such as a model and an environment: its value turns a shard into a result.
WorkerFactory = Callable[[], AbstractContextManager[Callable[[Shard], Result]]]


def ordered_map(make_worker: WorkerFactory[Shard, Result], shards: Iterable[Shard], settings: RunArguments) -> Iterator[Result]:
    """Results of all shards; nothing is opened where there is none.

    Args:
        make_worker: Called once in every worker. For Ray it is pickled, with all that it refers to.
        shards: The parts of the work; here they are taken one by one, for Ray all at once.
        settings: Number of Ray's workers, 0 to work here; address of its cluster.

    Raises:
        ColBenchError: If Ray is asked for and is not installed, or its cluster cannot be reached.
    """
    left = iter(shards)
    first = next(left, None)
    if first is None:
        return
    if settings.ray_workers:
        yield from _on_ray(make_worker, [first, *left], settings)
        return
    with make_worker() as work:
        yield from map(work, chain([first], left))


class _Worker:
    """A process of Ray's. One thread of torch each, whatever their number: more would sum in another order."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Take the places where the first process finds modules: somebody's environment or algorithm may lie in one."""
        import torch

        sys.path += [path for path in paths if path not in sys.path]

        torch.set_num_threads(1)
        self._opened: tuple[Any, Any, Callable[[Any], Any]] | None = None

    def do(self, make_worker: list[Any], shard: Any) -> Any:
        """Work off a shard; `opens` holds the reference of what opens this worker, for a process that takes the place of a killed one."""
        if self._opened is None or self._opened[0] != make_worker[0]:
            import ray

            self.close()
            held = ray.get(make_worker[0])()
            self._opened = make_worker[0], held, held.__enter__()
        return self._opened[2](shard)

    def close(self) -> None:
        """Let go of what was opened; the process stays, for it takes seconds to start."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened[1].__exit__(None, None, None)


#: Workers that have started, by the job of Ray's that they belong to.
_STARTED: dict[str, list[Any]] = {}


def prepare_local_ray() -> None:
    """Set what keeps a cluster of this machine to itself, unless the user has; Ray reads it when it is imported, so this comes first."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault(_SEVERAL_MACHINES, "0")
    if "ray" not in sys.modules and not os.environ.keys() & set(_PROTECTION):
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


def _on_ray(make_worker: WorkerFactory[Shard, Result], shards: Sequence[Shard], settings: RunArguments) -> Iterator[Result]:
    if not settings.ray_address:
        prepare_local_ray()
    try:
        import ray
        from ray.util import ActorPool
    except ImportError:
        raise ColBenchError("`--ray_workers` needs Ray: `pip install 'colbench-gym[ray]'`.") from None
    if not ray.is_initialized():
        _join(ray, settings)
    workers = _workers(ray, min(settings.ray_workers, len(shards)))
    held = [
        ray.put(make_worker)
    ]  # not an argument of the constructor: Ray cannot restart an actor whose own arguments are large
    pool: Any = ActorPool(workers)
    try:
        yield from pool.map(lambda worker, shard: worker.do.remote(held, shard), shards)
    except BaseException:  # some are still at work
        for worker in _STARTED.pop(_job(ray)):
            ray.kill(worker)
        raise
    ray.get([worker.close.remote() for worker in workers])


def _waiting() -> dict[str, str]:
    """How OpenMP's threads wait here, for workers on other machines."""
    return {name: os.environ[name] for name in WAITING if name in os.environ}


def _workers(ray: Any, count: int) -> list[Any]:
    """So many workers of this job, started where there are fewer."""
    import torch

    room = int(ray.cluster_resources().get("CPU", 1))  # a worker without one would never start
    started = _STARTED.setdefault(_job(ray), [])
    gpus = 1 if torch.cuda.is_available() else 0
    kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(_Worker)
    while len(started) < min(count, max(room, 1)):
        started.append(kind.remote([os.path.abspath(path) for path in sys.path]))
    return started[:count]


def _job(ray: Any) -> str:
    return str(ray.get_runtime_context().get_job_id()) + str(ray.get_runtime_context().gcs_address)


def _join(ray: Any, settings: RunArguments) -> None:
    """Join the named cluster, or start one of this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if not settings.ray_address:
        ray.init(num_cpus=settings.ray_workers, include_dashboard=False, **quiet)
        _refuse_open_ports(ray)
        return
    check_cluster(settings.ray_address)
    try:
        ray.init(address=settings.ray_address, runtime_env={"env_vars": _waiting()}, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise _no_cluster(settings.ray_address, error) from None


def check_cluster(address: str) -> None:
    """Connect to a cluster's port and leave again: Ray itself waits for minutes.

    Raises:
        ColBenchError: If nobody listens there.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, ValueError, OverflowError) as error:
            raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> ColBenchError:
    return ColBenchError(f"No Ray cluster answers at {address!r}: {error}. Start one with `ray start --head`.")


def _refuse_open_ports(ray: Any) -> None:
    """End a cluster that others on the network can reach, unless the user has asked for that."""
    address = ray.get_runtime_context().gcs_address
    is_asked_for = os.environ.get(_SEVERAL_MACHINES, "0").lower() in ("1", "true")
    if not is_asked_for and not address.startswith(("127.", "[::1]", "localhost")):
        ray.shutdown()
        raise ColBenchError(
            f"Ray was imported before this and listens at {address}, for all of the network; set {_SEVERAL_MACHINES}=0 before it is "
            "imported, or start a cluster yourself and give its `--ray_address`."
        )
