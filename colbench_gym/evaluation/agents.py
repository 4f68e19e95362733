"""Makes the agents of policies, and plays their episodes on ColBench's environments, several at once, in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, ClassVar

from colbench_gym.agents.agent import Agent, Said, turn_counts
from colbench_gym.agents.chat import Sampling, chat_agent
from colbench_gym.agents.menu import MenuAgent, own_agent, uniform
from colbench_gym.agents.person import PersonAgent
from colbench_gym.agents.scripted import OracleAgent, menu_of, random_agent
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.errors import AgentDownError, AgentError, CostError, reason_of
from colbench_gym.evaluation.policies import PolicySpec
from colbench_gym.evaluation.rows import (
    FAILED_TASKS,
    MOST_FAILED,
    Key,
    Played,
    StoppedError,
    episode_row,
    evaluator_fields,
    is_void,
)
from colbench_gym.evaluation.summary import VOID
from colbench_gym.outside_text import printable
from colbench_gym.scoring.measures import reply_measures
from colbench_gym.seeds import episode_seed, turn_seed
from colbench_gym.servers.completion import LENGTH
from colbench_gym.tasks.rows import row_from_task
from sandboxes.named import load_named


def make_agent(spec: PolicySpec, env_id: str, source: str, max_turns: int, sampling: Sampling) -> Agent:
    """Make the agent of a policy for a source of tasks.

    Raises:
        ValueError: If it cannot be made.
        ImportError: If a package is missing.
    """
    if spec.kind == "chat":
        return chat_agent(spec.text, sampling)
    if spec.kind == "own":
        return own_agent(load_named("policies", spec.text), lambda: menu_of(env_id, source), sampling.reasoning)
    if spec.text == "random":
        return random_agent(env_id, source, max_turns)
    if spec.text == "random_actions":
        menu = menu_of(env_id, source)
        if menu is None:
            raise ValueError(f"'random_actions' needs a menu of actions, which only the embedded tasks have, got {source!r}.")
        return MenuAgent(menu, uniform)
    return OracleAgent() if spec.text == "oracle" else PersonAgent()


@dataclass
class AgentPlayer:
    """A `Player` of one agent; every episode is a batch.

    Attributes:
        agent: The agent.
        envs: Environments over the tasks, which may share a simulator and a grader; as many dialogues run at once.
        split: Name of the split. It seeds the episodes, together with the seed, so that all agents meet the same ones.
        metric: Name of the metric in the environment's metrics.
        seed: Seed of the episodes.
    """

    agent: Agent
    envs: Sequence[ColBenchEnv]
    split: str
    metric: str
    seed: int
    batch: ClassVar[int] = 1
    _free: SimpleQueue[ColBenchEnv] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        for env in self.envs:
            self._free.put(env)

    def play(self, batches: Sequence[Sequence[Key]], on_end: Callable[[], object]) -> Iterator[list[Played]]:
        """See `Player`. At most twice as many episodes as environments are ahead of the slowest."""
        self.envs[0].prepare()
        ahead: deque[Future[Played]] = deque()
        left = iter(batches)
        failed: list[str] = []  # tasks of the latest void episodes in a row
        threads = ThreadPoolExecutor(len(self.envs), thread_name_prefix="episode")
        try:
            while True:
                while len(ahead) < 2 * len(self.envs) and (batch := next(left, None)) is not None:
                    ahead.append(threads.submit(self.episode, batch[0]))
                if not ahead:
                    return
                played = ahead.popleft().result()
                failed = [*failed, played.key.task_id] if is_void(played.row) else []
                if len(failed) >= MOST_FAILED and len({*failed}) >= FAILED_TASKS:
                    raise AgentDownError(_stop(len(failed), played.error))
                on_end()
                self._tell(played.row)
                yield [played]
        except (AgentDownError, CostError) as error:
            self._end(threads)
            ended = [future.result() for future in ahead if not future.cancelled() and future.exception() is None]
            raise StoppedError(str(error), [episode for episode in ended if not is_void(episode.row)]) from None
        finally:
            if ahead:
                self._end(threads)
            threads.shutdown()

    def _end(self, threads: ThreadPoolExecutor) -> None:
        """Let requests under way fail, so that nobody waits for them."""
        self.agent.close()
        threads.shutdown(cancel_futures=True)

    def _tell(self, row: Mapping[str, Any]) -> None:
        """Tell a person how the episode ended."""
        if self.agent.is_sequential:
            print(f"Outcome: {printable(str(row['outcome']))}, success: {row['success']}.")

    def episode(self, key: Key) -> Played:
        """Play one episode."""
        with self._one() as env:
            seed = episode_seed(self.seed, f"evaluate {self.split}", *key)
            env.reset(seed=seed, options={"task_id": key.task_id})
            turns: list[Said] = []
            is_over = False
            while not is_over:
                try:
                    turns.append(self.agent.say(env.messages, turn_seed(seed, len(turns) + 1), self._hidden(env)))
                except AgentError as error:
                    return self._played(env, key, turns, {"outcome": VOID, "turns": len(turns), **env.human_usage}, error)
                step = env.step_cut if turns[-1].finish_reason == LENGTH else env.step
                _, _, terminated, truncated, _ = step(turns[-1].text)
                is_over = terminated or truncated
            return self._played(env, key, turns, env.metrics, env.world_error)

    def _hidden(self, env: ColBenchEnv) -> str:
        """What an oracle sees; "" for other agents."""
        if not self.agent.uses_hidden:
            return ""
        return env.reference if self.agent.uses_reference else env.hidden_information

    @contextmanager
    def _one(self) -> Iterator[ColBenchEnv]:
        env = self._free.get()
        try:
            yield env
        finally:
            self._free.put(env)

    def _played(
        self, env: ColBenchEnv, key: Key, turns: Sequence[Said], metrics: Mapping[str, Any], error: Exception | None
    ) -> Played:
        reason = reason_of(error) if metrics["outcome"] == VOID else ""
        tokens = _total([turn.prompt_tokens for turn in turns]), _total([turn.generated_tokens for turn in turns])
        row = episode_row(
            key, {**metrics, **turn_counts(turns)}, env.messages, turns, metric=self.metric, measures=reply_measures(env.messages, env.task),
            hidden=env.hidden_information, void_reason=reason,
        )  # fmt: skip
        row |= evaluator_fields(row_from_task(env.task), _answer(env, turns), tokens, metrics, bool(env.simulator.model))
        return Played(row, str(error) if reason else "", reason)


def _stop(count: int, error: str) -> str:
    return (
        f"{count} episodes in a row are void. The last error: {error.rstrip('.')}. The evaluation stops, since other episodes would fail too; all "
        "before are kept. Fix it, and give the same command to resume."
    )


def _answer(env: ColBenchEnv, turns: Sequence[Said]) -> str:
    if not turns:
        return ""
    last = env.parsed(turns[-1].text)
    return last.utterance if last.answer is None else last.answer


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)
