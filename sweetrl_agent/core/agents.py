"""Agents of `colbench_gym.agents`, which say one message at a time, as policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

from colbench_gym.agents.agent import Agent
from colbench_gym.errors import AgentError
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance


class AgentPolicy:
    """An agent as a `Policy`; dialogues are taken one after the other."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`."""
        return [_utterance(self.agent, dialogue, seed) for dialogue, seed in zip(dialogues, seeds, strict=True)]


class Oracle(AgentPolicy):
    """An agent that sees the hidden information or the reference, as an `InformedPolicy`."""

    @property
    def uses_reference(self) -> bool:
        """See `InformedPolicy`."""
        return self.agent.uses_reference

    def generate_informed(self, dialogues: Sequence[Messages], hidden: Sequence[str], seeds: Sequence[int]) -> list[Utterance]:
        """See `InformedPolicy.generate_informed`."""
        return [_utterance(self.agent, *given) for given in zip(dialogues, seeds, hidden, strict=True)]


class ConcurrentPolicy(ABC):
    """A `ContinuousPolicy` that waits for servers in several threads; each utterance is returned as soon as it is there.

    Args:
        concurrency: Maximum number of utterances in flight.
    """

    def __init__(self, concurrency: int) -> None:
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="agent")
        self._asked: dict[Future[Utterance], Hashable] = {}

    @abstractmethod
    def request(self, dialogue: Messages, seed: int) -> Callable[[], Utterance]:
        """A function that waits for the next utterance of a dialogue; it is called in another thread."""

    @abstractmethod
    def close(self) -> None:
        """Fail the requests in flight."""

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`."""
        asked = [self._threads.submit(self.request(*given)) for given in zip(dialogues, seeds, strict=True)]
        return [future.result() for future in asked]

    def add(self, name: Hashable, dialogue: Messages, seed: int) -> None:
        """See `ContinuousPolicy`."""
        self._asked[self._threads.submit(self.request(dialogue, seed))] = name

    def step(self) -> list[tuple[Hashable, Utterance]]:
        """See `ContinuousPolicy`; blocks until an utterance is there."""
        try:
            done, _ = wait(self._asked, return_when=FIRST_COMPLETED)
            return [(self._asked.pop(future), future.result()) for future in list(self._asked) if future in done]
        except BaseException:  # requests in flight fail, so that the end of this process does not wait for them
            self._threads.shutdown(wait=False, cancel_futures=True)
            self.close()
            raise

    def forget(self, name: Hashable) -> None:
        """Does nothing: servers manage their caches."""


class ConcurrentAgentPolicy(ConcurrentPolicy):
    """An agent that waits for a server; its `say` is called from several threads at once."""

    def __init__(self, agent: Agent, concurrency: int) -> None:
        """Wrap an agent; `concurrency` as in `ConcurrentPolicy`."""
        super().__init__(concurrency)
        self.agent = agent

    def request(self, dialogue: Messages, seed: int) -> Callable[[], Utterance]:
        """See `ConcurrentPolicy`."""
        return partial(_utterance, self.agent, dialogue, seed)

    def close(self) -> None:
        """See `ConcurrentPolicy`."""
        self.agent.close()


def _utterance(agent: Agent, messages: Messages, seed: int, hidden: str = "") -> Utterance:
    """What an agent says; if its server fails in this dialogue, an utterance with the error."""
    try:
        said = agent.say(messages, seed, hidden)
    except AgentError as error:
        return Utterance("", error=error)
    read, generated = said.prompt_tokens, said.generated_tokens
    usage = None if read is None or generated is None else (read, generated)
    return Utterance(said.text, usage=usage, thought=said.thought, finish_reason=said.finish_reason)
