"""Plays episodes of an agent on ColBench's environments, several at once, and yields their rows in order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from colbench_gym.agents.agent import Agent, Said, agent_turns, turn_counts
from colbench_gym.envs.colbench_env import ANSWER_CUT, ColBenchEnv
from colbench_gym.errors import AgentError, reason_of
from colbench_gym.evaluation.summary import HUMAN_TOKENS, VOID
from colbench_gym.scoring.measures import reply_measures
from colbench_gym.seeds import derive_seed
from colbench_gym.servers.completion import LENGTH
from colbench_gym.tasks.rows import row_from_task
from colbench_gym.tasks.task import Task

_log = logging.getLogger(__name__)
Row = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """Identifies an episode: its task, the seed, and its index within the two."""

    task: Task
    seed: int
    episode: int


@dataclass
class Played:
    """A finished episode.

    Attributes:
        row: Its row in `evaluation.jsonl`, without the label.
        why: Why it is void; "" if it is not. It may quote hidden information.
    """

    row: Row
    why: str = ""


@dataclass
class Player:
    """Plays episodes of one agent on one split.

    Attributes:
        agent: The agent.
        envs: Environments over the tasks, which may share a simulator and a grader; as many dialogues run at once.
        split: Name of the split. It seeds the episodes, together with the seed, so that all agents meet the same ones.
        metric: Name of the metric in the environment's metrics.
    """

    agent: Agent
    envs: list[ColBenchEnv]
    split: str
    metric: str
    _free: SimpleQueue[ColBenchEnv] = field(default_factory=SimpleQueue)
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for env in self.envs:
            self._free.put(env)

    def play(self, keys: Iterable[Key]) -> Iterator[Played]:
        """Play episodes; yields them in the given order. At most twice as many as environments are ahead of the slowest."""
        self.envs[0].prepare()
        ahead: deque[Future[Played]] = deque()
        left = iter(keys)
        threads = ThreadPoolExecutor(len(self.envs), thread_name_prefix="episode")
        try:
            while True:
                while len(ahead) < 2 * len(self.envs) and (key := next(left, None)) is not None:
                    ahead.append(threads.submit(self.episode, key))
                if not ahead:
                    return
                played = ahead.popleft().result()
                self._tell(played.row)
                yield played
        except BaseException:
            self.agent.close()  # its requests fail, so that nobody waits for them
            raise
        finally:
            threads.shutdown(wait=True, cancel_futures=True)

    def _tell(self, row: Row) -> None:
        """Show a void episode's reason at its first occurrence."""
        reason = row.get("void_reason", "")
        if reason and reason not in self._told:
            self._told.add(reason)
            _log.warning("Episode %d of %s is void: %s.", row["episode"], row["task_id"], reason)

    def episode(self, key: Key) -> Played:
        """Play one episode."""
        with self._one() as env:
            seed = derive_seed(key.seed, f"evaluate {self.split}", key.task.id, key.episode)
            env.reset(seed=seed, options={"task_id": key.task.id})
            said: list[Said] = []
            is_over = False
            while not is_over:
                hidden = ""
                if self.agent.uses_hidden:
                    hidden = env.reference if self.agent.uses_reference else env.hidden_information
                try:
                    said.append(self.agent.say(env.messages, derive_seed(seed, "turn", len(said) + 1), hidden))
                except AgentError as error:
                    void = {"outcome": VOID, "turns": len(said), "void_reason": error.reason, **env.human_usage}
                    return Played(self._row(env, key, said, void), str(error))
                step = env.step_cut if said[-1].finish_reason == LENGTH else env.step
                _, _, terminated, truncated, _ = step(said[-1].text)
                is_over = terminated or truncated
            if env.metrics["outcome"] != VOID:
                return Played(self._row(env, key, said, env.metrics))
            void = {**env.metrics, "void_reason": reason_of(env.world_error)}
            return Played(self._row(env, key, said, void), str(env.world_error))

    @contextmanager
    def _one(self) -> Iterator[ColBenchEnv]:
        env = self._free.get()
        try:
            yield env
        finally:
            self._free.put(env)

    def _row(self, env: ColBenchEnv, key: Key, said: list[Said], metrics: dict[str, Any]) -> Row:
        human = {name: metrics.get(name) for name in HUMAN_TOKENS} if env.simulator.model else {}
        replies = [message["content"] for message in env.messages[1:] if message["role"] == "user"]
        return {
            "task_id": key.task.id,
            "episode": key.episode,
            "outcome": metrics["outcome"],
            **({"void_reason": metrics["void_reason"]} if metrics["outcome"] == VOID else {}),
            "success": metrics.get("success"),
            self.metric: metrics.get(self.metric),
            "turns": metrics["turns"],
            "answered": metrics.get("answered"),
            **turn_counts(said),
            **({ANSWER_CUT: 1} if metrics.get(ANSWER_CUT) else {}),
            "reply_chars": sum(map(len, replies)) / len(replies) if replies else 0.0,
            **reply_measures(env.messages, key.task),
            "hidden_information": env.hidden_information,
            "dialogue_history": env.messages,
            **agent_turns(said),
            "task": row_from_task(key.task),
            "answer": _answer(env, said),
            "prompt_tokens": _total([one.prompt_tokens for one in said]),
            "generated_tokens": _total([one.generated_tokens for one in said]),
            **human,
        }


def _answer(env: ColBenchEnv, said: list[Said]) -> str:
    if not said:
        return ""
    last = env.parsed(said[-1].text)
    return last.utterance if last.answer is None else last.answer


def _total(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)
