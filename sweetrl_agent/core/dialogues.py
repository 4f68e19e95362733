"""Any Gymnasium environment over texts as a dialogue: observations are the user's messages, actions are the agent's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import gymnasium as gym

from colbench_gym.errors import ColBenchError

#: Outcomes of an episode: terminated, truncated at its limit of turns, or void because the environment failed.
ENDED, CUT, VOID = "ended", "cut", "void"
#: Failures of services that an environment depends on. Any other exception in a step is a bug of the environment and is raised.
WORLD_ERRORS = (ConnectionError, TimeoutError, ColBenchError)


class DialogueEnvs(Protocol):
    """Environments as `rollouts.play` steps them, asynchronously.

    Each of `envs` has `reset(seed=, options={"task_id": ...})`, `prepare()` and the attributes `messages`, `hidden_information` ("" for none),
    `metrics` of the finished episode ("outcome", "success", "turns", "answered" and the record's metric) and `world_error`.
    """

    num_envs: int

    @property
    def envs(self) -> Sequence[Any]:
        """The environments."""
        ...

    def submit(self, i: int, action: str) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        """Send one message of the agent to environment i: a future of what its `step` returns.

        With a method `submit_cut` of the same signature, a message that was cut by the limit of tokens goes there.
        """
        ...

    def close(self) -> Any:
        """Close all of them."""
        ...


class TextDialogue:
    """One environment, one episode at a time.

    Args:
        env: Its observations and actions are texts. The keys "messages", "success" (or "is_success") and "metrics" of its infos are used if
            present.
        seeds: Seed of every task, by task id.
        metric: Name of the metric, higher is better: "return", or a key of the last info or of its "metrics".
        max_turns: Agent turns after which an episode is truncated; 0 leaves this to the environment.

    Attributes:
        world_error: The error that made the last void episode void.
    """

    def __init__(self, env: gym.Env[Any, Any], seeds: Mapping[str, int], metric: str, max_turns: int) -> None:
        self.env, self.metric, self.max_turns = env, metric, max_turns
        self.world_error: Exception | None = None
        self._seeds = seeds
        self._messages: list[dict[str, str]] = []
        self._metrics: dict[str, Any] = {}
        self._return, self._turns = 0.0, 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The dialogue so far: everything that the actor may see."""
        return list(self._messages)

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics of the finished episode; {} while it is running."""
        return dict(self._metrics)

    @property
    def reference(self) -> str:
        """The answer to the task, for an oracle.

        Raises:
            AttributeError: If the environment has none.
        """
        return str(self.env.unwrapped.reference)  # type: ignore[attr-defined]

    @property
    def hidden_information(self) -> str:
        """Privileged information now: critics may see it in training, the actor never does; "" if the environment has none."""
        return str(getattr(self.env.unwrapped, "hidden_information", ""))

    def prepare(self) -> None:
        """Does nothing: no part of it is slow to start."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> str:
        """Start an episode of the task `options["task_id"]`. The environment is seeded by the task: its episodes differ only in the agent's actions.

        Args:
            seed: Seed of the episode; not used.
            options: "task_id".
        """
        task_id = (options or {})["task_id"]
        observation, info = self.env.reset(seed=self._seeds[task_id])
        self._messages, self._metrics, self._return, self._turns = [], {}, 0.0, 0
        self._hear(observation, info)
        return str(observation)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send one message of the agent; returns what `gymnasium.Env.step` returns.

        An error of `WORLD_ERRORS` makes the episode void: it is counted, but used for neither training nor means.
        """
        return self._step(self.env.step, action)

    def _step(self, step: Callable[[str], Any], action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._messages.append({"role": "assistant", "content": action})
        self._turns += 1
        try:
            observation, reward, terminated, truncated, info = step(action)
        except WORLD_ERRORS as error:
            self.world_error = error
            self._metrics = {"outcome": VOID, "turns": self._turns}
            return "", 0.0, False, True, {}
        self._return += float(reward)
        truncated = truncated or (0 < self.max_turns <= self._turns and not terminated)
        if terminated or truncated:
            self._metrics = self._measured(info, terminated)
        self._hear(observation, info)
        return str(observation), float(reward), terminated, truncated, info

    def step_cut(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As `step`, of a message that was cut by the limit of tokens: by the environment's method `step_cut` if it has one, else by its `step`."""
        return self._step(getattr(self.env.unwrapped, "step_cut", self.env.step), action)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _hear(self, observation: Any, info: Mapping[str, Any]) -> None:
        if "messages" in info:
            self._messages = [{"role": str(said["role"]), "content": str(said["content"])} for said in info["messages"]]
        elif not self._metrics:  # the last observation is not part of the dialogue: the agent does not answer it
            self._messages.append({"role": "user", "content": str(observation)})

    def _measured(self, info: Mapping[str, Any], terminated: bool) -> dict[str, Any]:
        own = {**info, **(info["metrics"] if isinstance(info.get("metrics"), Mapping) else {})}
        success = own.get("success", own.get("is_success", self._return > 0))
        if self.metric != "return" and self.metric not in own:
            raise KeyError(f"The last info of an episode must contain the metric {self.metric!r}, got {sorted(own)}.")
        return {
            "outcome": ENDED if terminated else CUT,
            "success": int(bool(success)),
            "return": self._return,
            **({} if self.metric == "return" else {self.metric: float(own[self.metric])}),
            "answered": int(terminated),
            "turns": self._turns,
        }


class TextDialogues:
    """Several dialogues, stepped asynchronously.

    Args:
        envs: The dialogues.
        waits: Their steps wait for other services and run in threads. Otherwise steps run one after the other, in the order of `submit`, so
            that environments with shared state are deterministic too.
    """

    def __init__(self, envs: Sequence[TextDialogue], waits: bool = False) -> None:
        self.envs, self.num_envs = envs, len(envs)
        self._threads = ThreadPoolExecutor(len(envs), thread_name_prefix="environment") if waits else None

    def submit(self, i: int, action: str) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        """Send one message of the agent in dialogue i: a future of what its `step` returns."""
        return self._submit(self.envs[i].step, action)

    def submit_cut(self, i: int, action: str) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        """As `submit`, of a message that was cut by the limit of tokens."""
        return self._submit(self.envs[i].step_cut, action)

    def _submit(self, step: Callable[[str], Any], action: str) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        if self._threads is not None:
            return self._threads.submit(step, action)
        done: Future[tuple[Any, float, bool, bool, dict[str, Any]]] = Future()
        done.set_result(step(action))
        return done

    def close(self) -> None:
        """Close all of them."""
        if self._threads is not None:
            self._threads.shutdown()
        for env in self.envs:
            env.close()
