"""A task consists of public and hidden information, which are separated by type.

`PublicTask` is the public part: an id, the vague request and the signature. A `Task` also has a `HiddenTask` with everything that a
simulated human, the grader and a critic may use. Code that builds prompts for an actor takes a `PublicTask`, so that a type checker
detects a leak of hidden information.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from colbench_gym.task_ids import public_id

#: Sentence of a request that states the task's budget of turns.
BUDGET = "You have {} messages, and the last one must be the function."
_NAME = re.compile(r"\b(?:def|class)\s+(\w+)|^(\w+) = ")


@dataclass(frozen=True)
class Fact:
    """One fact that the simulated human knows and the request does not state.

    Attributes:
        topic: Short name of the subject, e.g. "rounding".
        sentence: The simulated human's answer to a question about it: one plain sentence, no code.
        keywords: Lower-case words that indicate a question about this topic; for facts that are derived from code.
        is_special: True if the fact is a wish that differs from the default that a programmer would implement.
        phrases: Questions about this topic in the words of several people. The scripted human uses them to recognize new ones.
    """

    topic: str
    sentence: str
    keywords: tuple[str, ...] = ()
    is_special: bool = True
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True)
class HiddenTask:
    """Information that the agent never sees: the reference solution, the test calls and the facts of the simulated human.

    Attributes:
        reference: Source of the reference function.
        calls: Python expressions that call the function, one per hidden test.
        facts: Facts that the simulated human can state; empty for rows of the real benchmark, where they are derived from the reference.
        row: The row that the task was read from, kept to write files back without loss; empty for embedded tasks.
        plain: The reference with the plain choice on every topic, which reveals no wish; empty for rows of the benchmark.
    """

    reference: str
    calls: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    plain: str = ""


@dataclass(frozen=True)
class PublicTask:
    """The part of a task that an agent may see.

    Attributes:
        id: Name of the task, unique in its source.
        description: The vague request, with the signature.
        signature: ``def name(arguments)``, as `colbench_gym.tasks.function.head` writes it. Its name is `Task.function_name`, for all.
        example: A call that shows the format of the arguments; empty if the source has none.
        turns: Budget of agent turns; 0 if the task has no budget of its own.
        points: Maximal number of points of a message that the simulated human answers.
    """

    id: str
    description: str
    signature: str
    example: str = field(default="", kw_only=True)
    turns: int = field(default=0, kw_only=True)
    points: int = field(default=2, kw_only=True)


@dataclass(frozen=True)
class Task(PublicTask):
    """A collaborative programming task: the public part and, in `hidden`, the hidden part."""

    hidden: HiddenTask = field(default_factory=lambda: HiddenTask("", ()), repr=False)

    @property
    def public_id(self) -> str:
        """An id that reveals no hidden information, see `public_id`."""
        return public_id(self.id)

    @property
    def content(self) -> tuple[str, str]:
        """What makes two tasks the same whatever their ids are: the request and the reference."""
        return self.description, self.hidden.reference

    def public(self) -> PublicTask:
        """Return only the public part, which an agent may see."""
        return PublicTask(
            self.public_id, self.description, self.signature, example=self.example, turns=self.turns, points=self.points
        )

    def with_turns(self, turns: int) -> Task:
        """The task with another budget, stated in its request; unchanged if the task has no budget of its own."""
        if self.turns in (0, turns):
            return self
        return replace(self, turns=turns, description=self.description.replace(BUDGET.format(self.turns), BUDGET.format(turns)))

    @property
    def function_name(self) -> str:
        """Name of the function that the agent must write; empty if the signature has none."""
        return name_in(self.signature)


def name_in(signature: str) -> str:
    """The name that a signature defines; empty if it defines none."""
    match = _NAME.search(signature)
    return (match[1] or match[2]) if match else ""
