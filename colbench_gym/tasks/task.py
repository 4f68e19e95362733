"""A task is what the agent may see and what it may not, kept apart by type.

`Task` is the public half: an id, the vague request and the signature. `HiddenTask` hangs off it and holds everything a
simulated human, the grader and a critic may use. Code that builds prompts for an actor takes a `PublicTask`, so that a
leak is a type error before it is a bug.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

NUM_CALLS = 10
#: How a request says the task's budget of turns.
BUDGET = "You have {} messages, and the last one must be the function."
_SIGNATURE = re.compile(r"def\s+(\w+)\s*\(")


@dataclass(frozen=True)
class Fact:
    """One thing the person knows and the request does not say.

    Attributes:
        topic: Short name of the subject, e.g. "rounding".
        sentence: What the person says when asked about it: one plain sentence, no code.
        keywords: Lower-case words that show that a question is about this topic; for facts that are read off code.
        is_special: True where the person wants something other than what a programmer would do unasked.
        phrases: Questions about this topic in the words of several people, by which the scripted human recognises another one.
    """

    topic: str
    sentence: str
    keywords: tuple[str, ...] = ()
    is_special: bool = True
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True)
class HiddenTask:
    """What the agent never sees: the reference solution, the test calls and the person's facts.

    Attributes:
        reference: Source of the reference function.
        calls: Python expressions that call the function, one per hidden test.
        facts: What the person can say; empty for rows of the real benchmark, whose facts are read off the reference.
        row: The row the task was read from, kept so that files are written back without loss; empty if built by us.
        plain: The reference with the plain choice on every topic, which gives no wish away; empty for rows of the benchmark.
    """

    reference: str
    calls: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    plain: str = ""


@dataclass(frozen=True)
class PublicTask:
    """The half of a task that an agent may see.

    Attributes:
        id: Name of the task, unique in its source.
        description: The vague request, with the signature.
        signature: ``def name(arguments)``.
        example: A call that shows what the arguments look like; empty where the source gives none.
        turns: Agent turns that the person has time for; 0 where the task has no budget of its own.
        points: Points of a message that the person answers at most.
    """

    id: str
    description: str
    signature: str
    example: str = field(default="", kw_only=True)
    turns: int = field(default=0, kw_only=True)
    points: int = field(default=2, kw_only=True)


@dataclass(frozen=True)
class Task(PublicTask):
    """A collaborative programming task: the public half and, in `hidden`, the rest."""

    hidden: HiddenTask = field(default_factory=lambda: HiddenTask("", ()), repr=False)

    @property
    def public_id(self) -> str:
        """A name that says nothing of what is hidden: an embedded task's own spells its family's topics and the choice among them."""
        source, _, rest = self.id.partition("/")
        if source != "embedded":
            return self.id
        return f"{source}/{rest.partition('/')[0]}/{hashlib.sha256(self.id.encode()).hexdigest()[:16]}"

    def public(self) -> PublicTask:
        """Return the public half alone, safe to hand to an agent."""
        return PublicTask(
            self.public_id, self.description, self.signature, example=self.example, turns=self.turns, points=self.points
        )

    def with_turns(self, turns: int) -> Task:
        """The task with another budget, which its request says; unchanged where the task has none of its own."""
        if self.turns in (0, turns):
            return self
        return replace(self, turns=turns, description=self.description.replace(BUDGET.format(self.turns), BUDGET.format(turns)))

    @property
    def function_name(self) -> str:
        """Name of the function that the agent must write; empty if the signature has none."""
        match = _SIGNATURE.search(self.signature)
        return match.group(1) if match else ""
