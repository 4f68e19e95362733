"""Many concurrent dialogues: a vector environment that waits for the replies of all simulated humans at once.

Gymnasium's synchronous vector environment waits for the simulators one after the other, and its asynchronous one starts a process
per dialogue. A dialogue mostly waits for a model server or a sandbox, so threads are sufficient. The sub-environments share
one simulator and one grader, and a step takes as long as its slowest reply.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from colbench_gym.envs.backend import BackendEnv
from colbench_gym.envs.colbench_env import ColBenchEnv
from sandboxes.arguments import typed

Observations = tuple[str, ...]
Flags = NDArray[np.bool_]


class ColBenchVectorEnv(VectorEnv[Observations, Sequence[str], NDArray[np.float64]]):
    """`num_envs` environments that step in threads and share their tasks, simulator and grader.

    Made by ``gym.make_vec("ColBench-Backend-v0", num_envs=32)``, or with ColBench-Frontend-v0. Observations are a tuple of texts;
    infos follow Gymnasium's convention (arrays with ``_key`` masks). A void episode has no score: where
    ``infos["metrics"]["_success"]`` is False, the 0 in ``infos["metrics"]["success"]`` is a missing value.

    Autoreset modes, by name: "next_step" (Gymnasium's default), "same_step" (the last observation and info are kept in
    ``final_obs`` and ``final_info``), "disabled" (a finished sub-environment ignores its actions, with reward 0, until
    ``reset(options={"reset_mask": ...})``; meant for evaluation).

    ``reset`` also takes ``options={"task_id": [...]}``, one id (or None, for a drawn task) per sub-environment.
    """

    @typed
    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: str | AutoresetMode = "next_step",
        max_workers: int | None = None,
        sandbox_workers: int = 2,
        env_class: type[ColBenchEnv] = BackendEnv,
        **env_arguments: Any,
    ) -> None:
        """Build the sub-environments.

        Args:
            num_envs: Number of dialogues in flight.
            autoreset_mode: What happens after the end of an episode, see the class.
            max_workers: Number of threads; None for one per sub-environment. Results do not depend on it.
            sandbox_workers: Number of runner processes of the shared sandbox, or of browsers. Unused if a sandbox is passed.
            env_class: Class of the sub-environments.
            env_arguments: Arguments of that class, shared by all.
        """
        self.closed = True  # gymnasium 1.2 closes an object when it is deleted, also one whose construction failed
        if min(num_envs, sandbox_workers, 1 if max_workers is None else max_workers) < 1:
            raise ValueError(
                "`num_envs`, `sandbox_workers` and `max_workers` must be positive, "
                f"got {num_envs!r}, {sandbox_workers!r} and {max_workers!r}."
            )
        self.num_envs = num_envs
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self.metadata = {**env_class.metadata, "autoreset_mode": self.autoreset_mode}
        tasks = env_class.load_tasks(env_arguments.pop("tasks", "embedded:train"), env_arguments.pop("on_error", "raise"))
        self.envs = [env_class(tasks=tasks, **env_arguments) for _ in range(num_envs)]
        for env in self.envs:
            env.share(self.envs[0], sandbox_workers)
        self.render_mode = self.envs[0].render_mode
        self.single_observation_space: gym.Space[Any] = self.envs[0].observation_space
        self.single_action_space: gym.Space[Any] = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._threads = ThreadPoolExecutor(max_workers or num_envs, thread_name_prefix="colbench")
        self._observations: list[str] = [""] * num_envs
        self._is_done = np.zeros(num_envs, dtype=np.bool_)
        self.closed = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Reset all sub-environments, or those of ``options["reset_mask"]``; an integer seed s seeds sub-environment i with s+i."""
        options = dict(options or {})
        mask = np.asarray(options.pop("reset_mask", np.ones(self.num_envs, dtype=np.bool_)), dtype=np.bool_)
        task_ids = options.pop("task_id", None) or [None] * self.num_envs
        if mask.shape != (self.num_envs,) or len(task_ids) != self.num_envs:
            raise ValueError(f"`reset_mask` and `task_id` need {self.num_envs} entries, got {mask.shape} and {len(task_ids)}.")
        seeds = self._seeds(seed)

        def reset(i: int) -> tuple[str, dict[str, Any]]:
            return self.envs[i].reset(seed=seeds[i], options={**options, "task_id": task_ids[i]})

        infos: dict[str, Any] = {}
        for i, (observation, info) in self._map(reset, mask):
            self._observations[i] = observation
            infos = self._add_info(infos, info, i)
        self._is_done[mask] = False
        return tuple(self._observations), infos

    def step(  # type: ignore[override]  # Gymnasium declares its flags as numbers
        self, actions: Sequence[str]
    ) -> tuple[Observations, NDArray[np.float64], Flags, Flags, dict[str, Any]]:
        """Say one action in every dialogue. The step returns when all simulated humans have replied."""
        if len(actions) != self.num_envs:
            raise ValueError(f"`actions` needs {self.num_envs} entries, got {len(actions)}.")
        is_begun = np.array([env.task_or_none is not None for env in self.envs])
        may_idle = self.autoreset_mode == AutoresetMode.DISABLED  # sub-environments that no reset_mask has included yet
        if not (is_begun.any() if may_idle else is_begun.all()):
            raise gym.error.ResetNeeded("Expected episodes under way; call `reset` before `step`.")
        self.envs[0].prepare()
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        infos: dict[str, Any] = {}
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            for i, (observation, info) in self._map(lambda i: self.envs[i].reset(), self._is_done):
                self._observations[i], infos = observation, self._add_info(infos, info, i)
        live = is_begun & ~self._is_done
        for i, (observation, reward, ended, cut, info) in self._map(lambda i: self.envs[i].step(actions[i]), live):
            self._observations[i], rewards[i], terminated[i], truncated[i] = observation, reward, ended, cut
            if (ended or cut) and self.autoreset_mode == AutoresetMode.SAME_STEP:
                final = {"final_obs": observation, "final_info": info}
                self._observations[i], info = self.envs[i].reset()
                info = {**info, **final}
            infos = self._add_info(infos, info, i)
        self._is_done = self._next_done(terminated | truncated)
        return tuple(self._observations), rewards, terminated, truncated, infos

    def submit(self, i: int, action: str, is_cut: bool = False) -> Future[tuple[str, float, bool, bool, dict[str, Any]]]:
        """Say one action in sub-environment i without waiting for the reply. Returns a future of the result of its ``step``, or ``step_cut`` if it was cut.

        For callers that advance each dialogue independently. There is no autoreset: start the next episode with ``envs[i].reset``.
        """
        return self._threads.submit(self.envs[i].step_cut if is_cut else self.envs[i].step, action)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every sub-environment, or read an attribute, e.g. ``call("hidden_information")``."""
        values = [getattr(env, name) for env in self.envs]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every sub-environment."""
        return tuple(getattr(env, name) for env in self.envs)

    def render(self) -> tuple[Any, ...] | None:
        """Transcripts of all dialogues, with render_mode="ansi"."""
        return tuple(env.render() for env in self.envs) if self.render_mode else None

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads, and the shared objects if the sub-environments own them. A second call does nothing."""
        self._threads.shutdown()
        for env in self.envs:
            env.close()

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"`seed` needs {self.num_envs} entries or one integer, got {len(seed)} entries.")
        return [None if value is None else int(value) for value in seed]

    def _next_done(self, ended: Flags) -> Flags:
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            return ended
        if self.autoreset_mode == AutoresetMode.DISABLED:
            return self._is_done | ended
        return np.zeros(self.num_envs, dtype=np.bool_)

    def _map(self, function: Callable[[int], Any], mask: Flags) -> list[tuple[int, Any]]:
        """Run `function` on the selected sub-environments concurrently. Results are in the order of the sub-environments."""
        futures = {i: self._threads.submit(function, i) for i in np.flatnonzero(mask).tolist()}
        wait(futures.values())  # for all of them before the first error is raised, so that none is still running afterwards
        return [(i, future.result()) for i, future in futures.items()]


def _autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    modes: Mapping[str, AutoresetMode] = {member.name.lower(): member for member in AutoresetMode}
    if mode not in modes:
        raise ValueError(f"`autoreset_mode` must be one of {sorted(modes)}, got {mode!r}.")
    return modes[mode]


def isolate_human(envs: Sequence[ColBenchEnv]) -> None:
    """Give every reply of the human that environments share a state of the global random generators of its own, seeded by the reply's seed.

    Replies are then given one at a time: there is one `random` in a process. A model behind a server is left as it is: it draws from nothing here.
    """
    if not envs[0].simulator.model:
        turn = threading.Lock()
        for env in envs:
            env._human_lock = turn
