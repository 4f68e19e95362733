"""Dialogues for frameworks that run many of them at once, in one event loop.

A framework has its own loop over samples and its own model, and an environment here is synchronous: a step waits for the simulated
human or for the sandbox. `Conversations` makes an environment for every dialogue, which shares tasks, simulated human and sandbox with
all others, and takes its steps in threads, so that no dialogue blocks another.

What a framework stores and logs must not hold hidden information. A task is therefore given by its public part alone, and the
error of a void episode names its kind and not its text, which may quote the hidden reference.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

from colbench_gym.envs.backend import BackendEnv
from colbench_gym.envs.colbench_env import ColBenchEnv, Metrics
from colbench_gym.envs.frontend import FrontendEnv
from colbench_gym.errors import ColBenchError
from colbench_gym.outside_text import encodable
from colbench_gym.servers.completion import LENGTH, STOP
from colbench_gym.tasks.task import PublicTask
from sandboxes.named import spec_of

ENVIRONMENTS: Mapping[str, type[ColBenchEnv]] = {"ColBench-Backend-v0": BackendEnv, "ColBench-Frontend-v0": FrontendEnv}
#: Metrics that are the score of an episode, in the order in which a framework with one number takes them.
SCORES = ("tests_passed", "similarity")
#: Threads that wait for simulated humans and sandboxes: the dialogues whose reply is awaited at the same time.
THREADS = 64
#: Outcome of a dialogue that the framework ended (by a limit of tokens, of messages or of time) before the agent answered.
UNFINISHED = "unfinished"
_Result = TypeVar("_Result")
#: Credit of the messages of the agent in a dialogue, from the dialogue and the hidden information; None for a message without.
CreditRule = Callable[[Sequence[Mapping[str, str]], str], Sequence[float | None]]
#: How the names of its threads begin.
_THREADS = "colbench"


class VoidEpisodeError(ColBenchError):
    """The simulated human or the sandbox failed: the episode has no score. The message holds no hidden information."""


def parsed(value: Any) -> Any:
    """An argument from a framework's command line: text that begins with ``{`` is JSON, everything else stays as it is.

    Raises:
        ValueError: If it is not valid JSON. The value is not repeated, since it may hold a password.
    """
    return spec_of("simulator", value) if isinstance(value, str) else value


def conversation_seed(seed: int, task_id: str, index: int = 0) -> int:
    """Seed of an episode, equal on every machine, in [0, 2**31)."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{task_id}/{index}".encode()).digest()[:4], "big") >> 1


class Conversations:
    """All dialogues of one evaluation or training run."""

    def __init__(
        self,
        env: str = "ColBench-Backend-v0",
        *,
        threads: int = THREADS,
        sandbox_workers: int = 2,
        error_details: bool = False,
        **arguments: Any,
    ) -> None:
        """Load the tasks. The sandbox starts with the first answer.

        Args:
            env: "ColBench-Backend-v0" or "ColBench-Frontend-v0".
            threads: Dialogues whose reply is awaited at the same time.
            sandbox_workers: Processes that grade answers, or browsers.
            error_details: Also give the text of the error of a void episode, which may quote the hidden reference.
            arguments: Arguments of the environment: tasks, simulator, sandbox, max_turns, reasoning, ..., see its class.

        Raises:
            ValueError: If the environment or an argument is unknown, or a value is not allowed.
            TaskError: If the tasks cannot be read.
        """
        if env not in ENVIRONMENTS:
            raise ValueError(f"`env` must be one of {sorted(ENVIRONMENTS)}, got {env!r}.")
        if min(threads, sandbox_workers) < 1:
            raise ValueError(f"`threads` and `sandbox_workers` must be positive, got {threads!r} and {sandbox_workers!r}.")
        self._class, self._error_details = ENVIRONMENTS[env], error_details
        arguments["simulator"] = parsed(arguments.get("simulator", "scripted"))
        try:
            self._first = self._class(**{**arguments, "on_world_error": "raise"})
        except TypeError as error:
            raise ValueError(f"An argument of {env} is unknown or of a wrong type: {error}.") from None
        self._first.share(self._first, sandbox_workers)
        shared = {"tasks": self._first.tasks, "simulator": self._first.simulator, "on_world_error": "raise"}
        if isinstance(self._first, FrontendEnv):
            shared |= {"similarity": self._first.similarity, "sandbox": self._first.browser}
        self._arguments, self._sandbox_workers = {**arguments, **shared}, sandbox_workers
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=_THREADS)
        self._end = weakref.finalize(self, _close, self._threads, self._first)

    @cached_property
    def tasks(self) -> tuple[PublicTask, ...]:
        """The public part of every task, as the agent meets it: the turn limit is stated if `max_turns` was given."""
        limit = self._first.max_turns
        return tuple((task.with_turns(limit) if limit else task).public() for task in self._first.tasks)

    async def open(self, task_id: str | None, seed: int | None) -> Conversation:
        """Start a dialogue on a task.

        Args:
            task_id: Public id of the task; None for one that is drawn with the seed.
            seed: Seed of the simulated human.

        Raises:
            ValueError: If there is no such task.
        """
        env = await self.in_thread(self._make)
        await self.in_thread(lambda: env.reset(seed=seed, options={"task_id": task_id}))
        return Conversation(self, env)

    async def resume(self, task_id: str, messages: Sequence[Mapping[str, str]], seed: int = 0) -> Conversation:
        """Continue a dialogue of a task after these messages ("role", "content"), for example to grade its answer."""
        env = await self.in_thread(self._make)
        state = {"task_id": task_id, "messages": [_heard(message, env) for message in messages], "metrics": None}
        await self.in_thread(lambda: env.set_state(state, reseed=seed))
        return Conversation(self, env)

    async def in_thread(self, function: Callable[[], _Result]) -> _Result:
        """Call a function in one of the threads.

        Raises:
            VoidEpisodeError: If the simulated human or the sandbox failed.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function)
        except ColBenchError as error:
            void = self._void(error)
        raise void  # outside of the handler: the error of the world, whose text may quote hidden information, is not its context

    def close(self) -> None:
        """End the sandbox, the simulated human and the threads; without a call they end with the last reference to this object."""
        self._end()

    def _make(self) -> ColBenchEnv:
        env = self._class(**self._arguments)
        env.share(self._first, self._sandbox_workers)
        return env

    def _void(self, error: ColBenchError) -> VoidEpisodeError:
        reason = f"{type(error).__name__}: the episode is void, it has no score"
        return VoidEpisodeError(f"{reason}: {error}" if self._error_details else f"{reason}; `error_details` says why.")


class Conversation:
    """One dialogue between an agent and the simulated human."""

    def __init__(self, conversations: Conversations, env: ColBenchEnv) -> None:
        """A dialogue of `Conversations.open` or `Conversations.resume`."""
        self._conversations, self._env = conversations, env
        self._said: list[str] = [message["content"] for message in env.messages if message["role"] == "assistant"]
        #: Reward of the last step; 0 before the end of the episode.
        self.reward = 0.0

    @property
    def task_id(self) -> str:
        """Public id of the task."""
        return self._env.task.public_id

    @property
    def is_over(self) -> bool:
        """True after the end of the episode."""
        return bool(self._env.metrics)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The dialogue so far as chat messages: everything that the agent may see."""
        return self._env.messages

    @property
    def prompt(self) -> list[dict[str, str]]:
        """`messages` with the agent's own as it sent them where nothing but white space differs: a model's cache then holds them."""
        sent = iter(self._said)
        return [
            {**message, "content": raw}
            if message["role"] == "assistant" and (raw := next(sent)).strip() == message["content"]
            else message
            for message in self.messages
        ]

    @property
    def metrics(self) -> Metrics:
        """Metrics of the finished episode; one that the framework ended before has outcome "unfinished" and no success."""
        score = SCORES[isinstance(self._env, FrontendEnv)]
        unfinished = {"success": 0, score: 0.0, "outcome": UNFINISHED, "answered": 0, "turns": self._num_turns}
        return self._env.metrics or unfinished

    def is_last(self, text: str) -> bool:
        """True if this message of the agent would end the dialogue: it holds an answer, or no turn is left."""
        return self.answer(text) is not None or self._num_turns + 1 >= self._env.turn_limit

    @property
    def _num_turns(self) -> int:
        return sum(message["role"] == "assistant" for message in self.messages)

    def answer(self, text: str) -> str | None:
        """The answer in a message of the agent; None if it holds none."""
        return self._env.parsed(text).answer

    async def credit(self, rule: CreditRule) -> list[float | None]:
        """The credit of every message of the agent, by a rule that also sees the hidden information. It is for training: never show it to an agent."""
        hidden = self._env.hidden_information
        return list(await self._conversations.in_thread(lambda: rule(self.messages, hidden)))

    async def say(self, text: str, finish_reason: str = STOP) -> str | None:
        """Say a message of the agent: the simulated human's reply, or None at the end of the dialogue, whose answer is then graded.

        Args:
            text: The message, thoughts included.
            finish_reason: Why it ended, in our words (`colbench_gym.servers.completion.finish_reason`): an answer in a message that the limit of tokens
                cut (`LENGTH`) is not graded, and the outcome is "answer_cut".

        Raises:
            VoidEpisodeError: If the simulated human or the sandbox failed. The dialogue is as before, and the message may be said again.
        """
        step = self._env.step_cut if finish_reason == LENGTH else self._env.step
        _, self.reward, terminated, _, _ = await self._conversations.in_thread(lambda: step(text))
        self._said.append(text)
        return None if terminated else self.messages[-1]["content"]


def _close(threads: ThreadPoolExecutor, env: ColBenchEnv) -> None:
    # A thread of theirs may drop the last reference, and cannot wait for itself.
    is_one_of_them = threading.current_thread().name.startswith(_THREADS)
    threads.shutdown(wait=not is_one_of_them)
    env.close()


def _heard(message: Mapping[str, str], env: ColBenchEnv) -> dict[str, str]:
    """A message as the environment keeps it: an agent's without its private thought."""
    role, content = message["role"], encodable(message["content"])
    return {"role": role, "content": env.parsed(content).utterance if role == "assistant" else content}


def numbers(metrics: Metrics) -> dict[str, float]:
    """The metrics that are numbers: "success", "tests_passed" or "similarity", "answered" and "turns"."""
    return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
