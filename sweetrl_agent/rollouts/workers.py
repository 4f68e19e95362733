"""An ordered map over the shards of a stage, in this process or on Ray workers.

A shard is a fixed part of the work, and its result depends only on the shard. The files of a stage are therefore bitwise equal for any number of
workers on the same kind of machine, and equal to those of this process with one torch thread. With more threads, on a GPU or on another CPU, the
order of summation differs: log-probabilities and scores then differ from about the sixth decimal on, and a sampled token differs only if its
uniform number is that close to a boundary. If a worker is killed, its shard is computed again. Ray does scheduling, restarts and transport.

A cluster started here listens only on the loopback interface, has no dashboard, and requires a token. The token is in the environment of
its processes and in no file. For any other cluster, start it yourself and give its address by `--ray_address`.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from colbench_gym.errors import ColBenchError
from colbench_gym.servers.usage import Meter, current, metered
from sandboxes.extras import pip_install
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.processes import WAITING

Shard = TypeVar("Shard")
Result = TypeVar("Result")
#: Ray's variable for clusters of several machines on Windows and macOS. On Linux too, 0 gives a node the address 127.0.0.1 and binds all its
#: servers to it. `_node_ip_address` does not: Ray replaces a loopback address by that of the network.
_SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
#: If one of these is set, the user has chosen how the cluster is protected. Otherwise Ray writes a world-readable token to ~/.ray/auth_token.
_PROTECTION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
#: Worker factory: opens what a worker needs, such as a model and an environment, and yields a function from a shard to its result.
WorkerFactory = Callable[[], AbstractContextManager[Callable[[Shard], Result]]]


def ordered_map(make_worker: WorkerFactory[Shard, Result], shards: Iterable[Shard], settings: RunArguments) -> Iterator[Result]:
    """Results of all shards, in the order of the shards; opens nothing if there are none.

    Args:
        make_worker: Worker factory, called once in every worker. For Ray it is pickled, with everything that it references.
        shards: The parts of the work; consumed one by one in this process, all at once for Ray.
        settings: Number of Ray workers, 0 for this process; address of the cluster.

    Raises:
        ColBenchError: If Ray is requested but not installed, or its cluster cannot be reached.
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
    """A Ray actor. It uses one torch thread, since more threads would sum in another order."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Take over the module search path of the first process, which may contain external environments or algorithms."""
        import torch

        sys.path += [path for path in paths if path not in sys.path]

        torch.set_num_threads(1)
        self._opened: tuple[Any, Any, Callable[[Any], Any]] | None = None

    def do(self, make_worker: list[Any], shard: Any) -> Any:
        """Process a shard. `make_worker` holds the object reference of the worker factory, so that a restarted actor can open its worker again."""
        if self._opened is None or self._opened[0] != make_worker[0]:
            import ray

            self.close()
            held = ray.get(make_worker[0])()
            self._opened = make_worker[0], held, held.__enter__()
        return self._opened[2](shard)

    def close(self) -> None:
        """Close the worker; the process is kept, since it takes seconds to start."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened[1].__exit__(None, None, None)


#: Started workers, by Ray job.
_STARTED: dict[str, list[Any]] = {}


def prepare_local_ray() -> None:
    """Set the variables that isolate a local cluster, unless the user has set them. Must run before Ray is imported, which reads them."""
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
        raise ColBenchError(f"`--ray_workers` needs Ray: `{pip_install('[ray]')}`.") from None
    if not ray.is_initialized():
        _join(ray, settings)
    workers = _workers(ray, min(settings.ray_workers, len(shards)))
    held = [
        ray.put(partial(_metered, current(), make_worker))
    ]  # not an argument of the constructor: Ray cannot restart an actor whose own arguments are large
    pool: Any = ActorPool(workers)
    try:
        yield from pool.map(lambda worker, shard: worker.do.remote(held, shard), shards)
    except BaseException as error:  # some workers are still running
        for worker in _STARTED.pop(_job(ray)):
            ray.kill(worker)
        if isinstance(cause := getattr(error, "cause", None), ColBenchError):
            raise cause from None  # Ray's own error is a traceback
        raise
    ray.get([worker.close.remote() for worker in workers])


@contextmanager
def _metered(meter: Meter | None, make_worker: WorkerFactory[Shard, Result]) -> Iterator[Callable[[Shard], Result]]:
    """The worker of another process, whose requests to model servers are counted with those of this one."""
    with metered(meter), make_worker() as work:
        yield work


def _waiting() -> dict[str, str]:
    """Variables that set how OpenMP threads wait, for workers on other machines."""
    return {name: os.environ[name] for name in WAITING if name in os.environ}


def _workers(ray: Any, count: int) -> list[Any]:
    """The given number of workers of this job; missing ones are started."""
    import torch

    room = int(ray.cluster_resources().get("CPU", 1))  # a worker without a CPU would never start
    started = _STARTED.setdefault(_job(ray), [])
    gpus = 1 if torch.cuda.is_available() else 0
    kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(_Worker)
    while len(started) < min(count, max(room, 1)):
        started.append(kind.remote([os.path.abspath(path) for path in sys.path]))
    return started[:count]


def _job(ray: Any) -> str:
    return str(ray.get_runtime_context().get_job_id()) + str(ray.get_runtime_context().gcs_address)


def _join(ray: Any, settings: RunArguments) -> None:
    """Connect to the given cluster, or start one on this machine."""
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
    """Check that a cluster's port accepts connections: Ray itself would wait for minutes.

    Raises:
        ColBenchError: If the port does not accept connections.
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
    """Shut down a cluster that is reachable from the network, unless the user has requested that."""
    address = ray.get_runtime_context().gcs_address
    is_asked_for = os.environ.get(_SEVERAL_MACHINES, "0").lower() in ("1", "true")
    if not is_asked_for and not address.startswith(("127.", "[::1]", "localhost")):
        ray.shutdown()
        raise ColBenchError(
            f"Ray was imported before and listens at {address}, on the whole network; set {_SEVERAL_MACHINES}=0 before it is "
            "imported, or start a cluster yourself and give its `--ray_address`."
        )
