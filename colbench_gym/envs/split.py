"""ColBench-Split-v0: two agents, each of whom the simulated human answers on half of the topics; and what one of them can achieve alone, exactly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from colbench_gym.envs.backend import MAX_REPLY_CHARS
from colbench_gym.envs.colbench_env import turn_limit
from colbench_gym.envs.team import RolesEnv
from colbench_gym.envs.team_roles import NOTE_CHARS, PAIR, SINGLE
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.errors import TaskError
from colbench_gym.reasoning import AUTO
from colbench_gym.simulators import Simulator
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.embedded import alternatives, dial_of, family_of, reference_knowing
from colbench_gym.tasks.families.family import Choice, Family
from colbench_gym.tasks.rows import OnError
from sandboxes import Sandbox
from sandboxes.arguments import typed
from sandboxes.values import fingerprint_of

#: What the human says about a topic of the other half.
COLLEAGUE = "Your colleague may ask me about that."
HALVES = ("first", "second")


class SplitEnv(RolesEnv):
    """Write a Python function that passes 10 hidden tests, as two agents, each of whom the human answers on half of the topics.

    ## Description
    The embedded tasks of ColBench-Backend-v0 that have a wish in both halves (`half_of`), so that one agent alone has to guess. Agent "first" talks with the
    human and ends with ``HAND OVER:`` and a note of at most `note_chars` characters. Agent "second" sees the request and the note, talks with the human in a dialogue of its own, and
    answers. The human answers each of them on its own half, and on the other says: "Your colleague may ask me about that."

    With `alone="first"` or "second" there is a single agent, with the half of that one. `ceiling` is its exact maximum.

    ## Observation
    Text: the dialogue of the agent that speaks next, as a transcript. In a pair it begins with the role's instruction.

    ## Action
    Text: one utterance, as in ColBench-Backend-v0. Agent "first" hands over with ``HAND OVER:``, and in its last turn with any message. `step_cut`: see `TeamEnv`.

    ## Reward
    0 before the last step. At the last step the pair's outcome: with `reward="success"` 1 if all tests pass, else 0; with `reward="tests_passed"` the
    fraction of tests passed.

    ## Episode end
    *Terminated* by the answer of "second", or at its limit of turns. *Truncated* only if the human or the sandbox failed. See `BackendEnv`.

    ## Info
    "task_id", "turn" (turns of both agents so far), "agent" (who speaks next; absent for a single agent), "messages" (the dialogue of this agent alone); at the end "metrics", as in
    ColBench-Backend-v0.

    ## Arguments
    * `alone`: "first" or "second" for one agent with this half; "" for both.
    * `note_chars`: longer notes are cut.
    * `tasks`: "embedded:train" and the other embedded tasks, see `BackendEnv`. Those without a wish in both halves are left out, after a slice.
    * `simulator`: "scripted", also with a "level"; no model, which would know both halves.
    * `sandbox`, `semantics`, `reward`, `max_reply_chars`, `on_error`, `on_world_error`, `render_mode`, `reasoning`: see `BackendEnv`.
    * `max_turns`: turns of each agent. None for the task's own budget.
    """

    @typed
    def __init__(
        self,
        alone: Literal["", "first", "second"] = "",
        note_chars: int = NOTE_CHARS,
        tasks: str | Sequence[Task] = "embedded:train",
        simulator: str | Mapping[str, Any] | Simulator = "scripted",
        sandbox: str | Mapping[str, Any] | Sandbox = "auto",
        semantics: Literal["module", "released"] = "module",
        reward: Literal["success", "tests_passed"] = "success",
        max_turns: int | None = None,
        max_reply_chars: int = MAX_REPLY_CHARS,
        on_error: OnError = "raise",
        on_world_error: Literal["void", "raise"] = "void",
        render_mode: str | None = None,
        reasoning: str = AUTO,
    ) -> None:
        """Build the environment. The class documents the arguments. The sandbox starts with the first answer."""
        if alone not in ("", *HALVES):
            raise ValueError(f"`alone` must be 'first', 'second' or '', got {alone!r}.")
        super().__init__(
            tasks, simulator, sandbox, semantics, reward, max_turns, max_reply_chars, on_error, on_world_error, render_mode, reasoning
        )  # fmt: skip
        if self.simulator.model:
            raise ValueError(
                f"`simulator` must be the scripted human, got the model {self.simulator.model!r}, which would know both halves."
            )
        self.alone = alone
        self._set_team(SINGLE if alone else PAIR, note_chars)

    @staticmethod
    def load_tasks(source: str | Sequence[Task], on_error: OnError = "raise") -> tuple[Task, ...]:
        """The tasks of a source that have a wish in both halves.

        Raises:
            TaskError: If there is none.
            ValueError: If a task is not an embedded one.
        """
        tasks = tuple(task for task in load_tasks(source, on_error) if is_split(task.id))
        if not tasks:
            raise TaskError(
                "None of the tasks has a wish in both halves; take a dial with two relevant topics and two wishes, or more."
            )
        return tasks

    def _known(self, task: Task, agent: str) -> Task:
        return known_to(task, self.alone or agent)

    def _agrees(self, task: Task) -> bool:
        return is_split(task.id) and super()._agrees(task)


class SplitVectorEnv(ColBenchVectorEnv):
    """`num_envs` pairs, or single agents, that step in threads, see `ColBenchVectorEnv`."""

    def __init__(self, num_envs: int = 1, **arguments: Any) -> None:
        """Build the sub-environments; arguments of `ColBenchVectorEnv` and of `SplitEnv`."""
        super().__init__(num_envs, env_class=SplitEnv, **arguments)


def half_of(family: Family, half: str) -> frozenset[int]:
    """Indices of the topics on which the human answers an agent. The topics that can have a wish alternate, and so do the others, the other way round.

    Args:
        family: The family of the task. Its tasks have the same halves, so that a half says nothing about a task.
        half: "first" or "second".
    """
    relevant = family.relevant
    others = [i for i in range(len(family.topics)) if i not in relevant]
    start = HALVES.index(half)
    return frozenset((*relevant[start::2], *others[1 - start :: 2]))


@lru_cache(maxsize=8192)
def is_split(task_id: str) -> bool:
    """Whether a task has a wish in both halves.

    Raises:
        ValueError: If it is no id of an embedded task.
    """
    family, choice = family_of(Task(task_id, "", ""))
    return all(any(choice[i] for i in half_of(family, half)) for half in HALVES)


@lru_cache(maxsize=1024)
def known_to(task: Task, half: str) -> Task:
    """A task as the human tells the agent with one half about it: on the other half there are neither wishes nor facts."""
    family, _ = family_of(task)
    own = half_of(family, half)
    facts = tuple(
        fact if i in own else replace(fact, sentence=COLLEAGUE, is_special=False) for i, fact in enumerate(task.hidden.facts)
    )
    reference = reference_knowing(task, {family.topics[i].name for i in own})
    return replace(task, hidden=replace(task.hidden, facts=facts, reference=reference))


def ceiling(tasks: Sequence[Task], half: str, max_turns: int = 0, knows_split: bool = False) -> float:
    """Exact success probability of the best single agent with one half: its mean over tasks.

    The agent knows the family and the dial, asks the best questions, as many as its turns allow, and answers with the program that passes most often. What is
    hidden is uniform over the specifications of the family with a wish in both halves.

    Args:
        tasks: Embedded tasks.
        half: "first" or "second".
        max_turns: Turns of the agent; 0 for those of each task.
        knows_split: Whether the agent also knows which of the specifications are in the task's split: one that knows all tasks of the others by heart.
    """
    return sum(_ceiling(task, half, max_turns, knows_split) for task in tasks) / len(tasks)


def _ceiling(task: Task, half: str, max_turns: int, knows_split: bool) -> float:
    choices = alternatives(task) if knows_split else ()
    questions = (turn_limit(task, max_turns or None) - 1) * task.points
    return _ceiling_of(task.id.rpartition("/")[0], half, questions, choices)


@lru_cache(maxsize=4096)
def _ceiling_of(family_id: str, half: str, questions: int, choices: tuple[Choice, ...]) -> float:
    """`ceiling` of the tasks of a family at a dial, among some specifications, or all."""
    task = Task(f"{family_id}/0", "", "")
    family, _ = family_of(task)
    choices = choices or tuple(family.choices(dial_of(task).wishes))
    possible = [choice for choice in choices if is_split(f"{family_id}/{''.join(map(str, choice))}")]
    values = {choice: tuple(map(fingerprint_of, family.values(choice) or ())) for choice in possible}

    def num_right(left: Sequence[Choice], topics: frozenset[int], questions: int) -> int:
        """How many of the specifications that are left the best agent gets right."""
        if not topics or not questions:
            return max(Counter(values[choice] for choice in left).values())
        if questions >= len(topics):  # all can be asked about, in any order
            return sum(num_right(part, frozenset(), 0) for part in _parts(left, topics))
        return max(sum(num_right(part, topics - {i}, questions - 1) for part in _parts(left, frozenset({i}))) for i in topics)

    return num_right(possible, half_of(family, half) & {*family.relevant}, questions) / len(possible)


def _parts(choices: Sequence[Choice], topics: frozenset[int]) -> list[list[Choice]]:
    """Specifications by their options on some topics."""
    parts = defaultdict[tuple[int, ...], list[Choice]](list)
    for choice in choices:
        parts[tuple(choice[i] for i in sorted(topics))].append(choice)
    return list(parts.values())
