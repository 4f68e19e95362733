"""Any Gymnasium environment over texts as a dialogue: its observations are what the user says, its actions what the agent says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import gymnasium as gym

#: Outcomes of an episode: it ended by itself, by its limit of turns, or because the world failed.
ENDED, CUT, VOID = "ended", "cut", "void"
#: Failures of what an environment depends on. Any other exception of a step is a mistake in the environment, and is raised.
WORLD_ERRORS = (ConnectionError, TimeoutError)


class TextDialogue:
    """One environment, an episode at a time.

    Args:
        env: Its observations and actions are texts. The keys "messages", "success" (or "is_success") and "metrics" of its infos are used where it
            gives them.
        seeds: Seed of every task, by the task's id.
        metric: Name of the number that tells better episodes from worse: "return", or a key of the last info or of its "metrics".
        max_turns: Agent turns after which an episode is cut; 0 leaves that to the environment.

    Attributes:
        world_error: What voided the last void episode.
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
        """The dialogue so far: all that an actor may see."""
        return list(self._messages)

    @property
    def metrics(self) -> dict[str, Any]:
        """Of the finished episode; {} while it is under way."""
        return dict(self._metrics)

    @property
    def hidden_information(self) -> str:
        """What a critic may be told in training and an actor never is; "" where the environment has nothing."""
        return str(getattr(self.env.unwrapped, "hidden_information", ""))

    def prepare(self) -> None:
        """Nothing is slow to start."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> str:
        """Begin an episode of the task `options["task_id"]`: the seed is the task's, so that its episodes differ by what the agent says alone.

        Args:
            seed: Of the episode; not used.
            options: "task_id".
        """
        task_id = (options or {})["task_id"]
        observation, info = self.env.reset(seed=self._seeds[task_id])
        self._messages, self._metrics, self._return, self._turns = [], {}, 0.0, 0
        self._hear(observation, info)
        return str(observation)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say one action; as `gymnasium.Env.step`.

        An error of `WORLD_ERRORS` makes the episode void: it is counted and no evidence.
        """
        self._messages.append({"role": "assistant", "content": action})
        self._turns += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
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

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _hear(self, observation: Any, info: Mapping[str, Any]) -> None:
        if "messages" in info:
            self._messages = [{"role": str(said["role"]), "content": str(said["content"])} for said in info["messages"]]
        elif not self._metrics:  # nobody answers the last observation
            self._messages.append({"role": "user", "content": str(observation)})

    def _measured(self, info: Mapping[str, Any], terminated: bool) -> dict[str, Any]:
        own = {**info, **(info["metrics"] if isinstance(info.get("metrics"), Mapping) else {})}
        success = own.get("success", own.get("is_success", self._return > 0))
        if self.metric != "return" and self.metric not in own:
            raise KeyError(f"The last info of an episode must hold the metric {self.metric!r}, got {sorted(own)}.")
        return {
            "outcome": ENDED if terminated else CUT,
            "success": int(bool(success)),
            "return": self._return,
            **({} if self.metric == "return" else {self.metric: float(own[self.metric])}),
            "answered": int(terminated),
            "turns": self._turns,
        }


class TextDialogues:
    """Several of them, each stepped at its own pace.

    Args:
        envs: The dialogues.
        waits: Their steps wait for others, and are taken in threads; otherwise one after the other, in the order of asking, so that also
            environments that share something give the same episodes every time.
    """

    def __init__(self, envs: Sequence[TextDialogue], waits: bool = False) -> None:
        self.envs, self.num_envs = envs, len(envs)
        self._threads = ThreadPoolExecutor(len(envs), thread_name_prefix="environment") if waits else None

    def submit(self, i: int, action: str) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        """Say one action in dialogue i: a future of what its `step` returns."""
        if self._threads is not None:
            return self._threads.submit(self.envs[i].step, action)
        done: Future[tuple[Any, float, bool, bool, dict[str, Any]]] = Future()
        done.set_result(self.envs[i].step(action))
        return done

    def close(self) -> None:
        """Close all of them."""
        if self._threads is not None:
            self._threads.shutdown()
        for env in self.envs:
            env.close()
