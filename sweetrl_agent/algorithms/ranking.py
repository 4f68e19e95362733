"""Critics as functions that score the candidates for a turn, with what that costs; and the environment as one that grades the answers among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any, NamedTuple, cast

import torch
import transformers

from colbench_gym.files import Row
from sweetrl_agent.algorithms.critics import hidden_for, kind_of, open_critic
from sweetrl_agent.core.episode import Episode, Messages
from sweetrl_agent.core.run import Run, all_tasks
from sweetrl_agent.rollouts.replies import replies_at
from sweetrl_agent.trainers.running import RANKED_TURNS, SCORED_TOKENS, VERIFIED


class State(NamedTuple):
    """A turn of a recorded dialogue.

    Attributes:
        task_id: Id of the task.
        seed: Seed of the episode.
        messages: The messages before the turn.
        was_cut: Whether the limit of tokens cut each of the agent's messages; () for none.
    """

    task_id: str
    seed: int
    messages: Messages
    was_cut: Sequence[bool] = ()

    @classmethod
    def collected(cls, run: Run, episode: Episode, turn: int) -> State:
        """The state before a turn of a dialogue of the stage `collect`."""
        was_cut = [past.is_cut for past in episode.turns[: turn - 1]]
        return cls(episode.task_id, episode.key.seed(run.seed, "collect"), episode.prefix(turn), was_cut)


class Candidates(NamedTuple):
    """Texts for a turn, whether the limit of tokens cut each, and their thoughts (empty where none has one). A critic reads no thoughts."""

    texts: Sequence[str]
    cut: Sequence[bool]
    thoughts: Sequence[str] = ()

    @classmethod
    def of(cls, row: Row) -> Candidates:
        """Those of a row of candidates.jsonl, which has "cut" and "thoughts" if any has."""
        return cls(row["texts"], row.get("cut") or [False] * len(row["texts"]), row.get("thoughts", ()))

    def where(self, kept: Sequence[bool]) -> Candidates:
        """Those that are kept."""
        return Candidates([*compress(self.texts, kept)], [*compress(self.cut, kept)], [*compress(self.thoughts, kept)])


@dataclass
class Ranking:
    """A function of the candidates for a turn.

    Attributes:
        work: The function.
        costs: What it has cost since `taken_costs`, by the metrics' names: tokens read (padding included), turns of the environment, answers graded.
    """

    work: Callable[..., Any]
    costs: Counter[str] = field(default_factory=Counter)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.work(*arguments)

    def taken_costs(self) -> Counter[str]:
        """The costs, which start again."""
        taken = Counter(self.costs)
        self.costs.clear()
        return taken

    def count_turns(self, state: State, candidates: Candidates, is_answer: Callable[[str], bool]) -> None:
        """Count what `replies_at` takes: the turns before the state, and each different candidate."""
        different = {*zip(candidates.texts, candidates.cut, strict=True)}
        self.costs[RANKED_TURNS] += sum(message["role"] == "assistant" for message in state.messages) + len(different)
        self.costs[VERIFIED] += sum(is_answer(text) for text, _ in different)


@contextmanager
def open_ranker(run: Run, name: str) -> Iterator[Ranking]:
    """Open a critic as a function that scores candidates, of a `State`, what is hidden at it, and the candidates: a list of numbers.

    A critic that requires snapshots also gets the replies to the candidates, of an environment that takes the dialogue's turns again.
    """
    has_replies = kind_of(run, name).has_replies
    with open_critic(run, name) as critic, ExitStack() as stack:
        env = stack.enter_context(closing(run.environment(all_tasks(run), 1))).envs[0] if has_replies else None

        def rank(state: State, hidden: str, candidates: Candidates) -> list[float]:
            more: tuple[Any, ...] = ()
            if env is not None:
                ranking.count_turns(state, candidates, lambda text: run.record.answer(text) is not None)
                more = (replies_at(env, *state, candidates.texts, candidates.cut),)
            return cast(Any, critic).rank(state.messages, hidden_for(run, name, hidden), candidates.texts, *more)  # type: ignore[no-any-return]

        ranking = Ranking(rank)
        for embedding in _embeddings(critic):
            stack.callback(embedding.register_forward_pre_hook(partial(_count_tokens, ranking.costs)).remove)
        yield ranking


@contextmanager
def open_verifier(run: Run) -> Iterator[Ranking]:
    """Open the environment as a function that grades the answers among candidates, of a `State` and the candidates: a number each, None for no answer."""
    with closing(run.environment(all_tasks(run), 1)) as envs:

        def grade(state: State, candidates: Candidates) -> list[float | None]:
            is_answer = [run.record.answer(text) is not None for text in candidates.texts]
            if not any(is_answer):
                return [None] * len(is_answer)
            answers = candidates.where(is_answer)
            grading.count_turns(state, answers, lambda text: True)
            replies = iter(replies_at(envs.envs[0], *state, answers.texts, answers.cut))
            return [next(replies).reward if ends else None for ends in is_answer]

        grading = Ranking(grade)
        yield grading


def _embeddings(critic: Any) -> list[torch.nn.Module]:
    """The input embeddings of a critic's models, which every token that is read passes once."""
    modules = (module for value in vars(critic).values() if isinstance(value, torch.nn.Module) for module in value.modules())
    embeddings = {
        id(part): part
        for module in modules
        if isinstance(module, transformers.PreTrainedModel)
        if (part := module.get_input_embeddings())
    }
    return list(embeddings.values())


def _count_tokens(costs: Counter[str], module: Any, inputs: tuple[Any, ...]) -> None:
    costs[SCORED_TOKENS] += inputs[0].numel()
