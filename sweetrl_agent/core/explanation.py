"""Why an episode failed: the kinds of failure that an environment tells apart, and explanations of single episodes.

Both are optional parts of an environment's record. A kind is derived from the row of `evaluation.jsonl` and the task alone, so that it is cheap for
every episode. An explanation may run the answer again or render pages; it is made for the episodes that a report shows.

Kinds and explanations contain hidden information: they are for files and reports, never for an actor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class FailureKind:
    """A kind of failure.

    Attributes:
        name: Its name in files.
        title: Its name in reports, e.g. "never asked about".
        means: How it is decided, in one sentence.
    """

    name: str
    title: str
    means: str


@dataclass(frozen=True)
class Failure:
    """The kind of one episode; successes and void episodes have kinds too, so that all episodes add up.

    Attributes:
        kind: Name of the kind.
        wishes: Topics of the wishes that the task depends on; empty if they are unknown.
        unheard: Those that the dialogue did not reveal.
        about: The topics that the kind is about, e.g. those that were never asked about.
    """

    kind: str
    wishes: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class WishCounts:
    """What an agent asked, heard and wrote down in an episode: the link that breaks is the one to train.

    Attributes:
        questions: Turns before the answer.
        wishes: Wishes that the task depends on, apart from the request.
        heard: Those that the simulated human stated.
        written: Those of the heard ones that the answer does.
    """

    questions: int
    wishes: int
    heard: int
    written: int


#: Kinds of every environment.
ANSWER_CUT = FailureKind(
    "answer_cut",
    "answer cut",
    "The limit of tokens (`--max_new_tokens`) cut the answer, which is not graded as if it were whole.",
)
PASSED = FailureKind("passed", "success", "The episode is a success.")
VOID = FailureKind("void", "void", "The simulated human or the sandbox failed, so the episode has no score.")


class Explains:
    """The part of an environment's record that says why episodes fail; a record without it shows none of this in reports.

    Attributes:
        failure_kinds: All kinds that `failure` names, in the order of reports.
    """

    failure_kinds: ClassVar[tuple[FailureKind, ...]] = ()

    def failure(self, row: Mapping[str, Any], task: Any, config: Any) -> Failure:
        """The kind of an episode, from its row of `evaluation.jsonl`. Called only if there are `failure_kinds`.

        Args:
            row: The row.
            task: Its task.
            config: All settings.
        """
        raise NotImplementedError

    def wish_counts(self, episodes: Sequence[tuple[Mapping[str, Any], Any]], config: Any) -> list[WishCounts | None]:
        """What the agent asked, heard and wrote down in episodes, in the same order; None where the wishes are unknown, [] if they always are.

        Args:
            episodes: Rows of `evaluation.jsonl`, none of them void, with their tasks.
            config: All settings.

        Raises:
            SandboxError: If a sandbox cannot be started or fails.
        """
        return []

    def explain(self, episodes: Sequence[tuple[Mapping[str, Any], Any]], config: Any) -> list[dict[str, Any]]:
        """Explanations of episodes, in the same order.

        Args:
            episodes: Rows of `evaluation.jsonl` with their tasks.
            config: All settings.

        Returns:
            JSON objects with any of these fields; reports clip and escape all texts.
            "wishes": [{"topic", "sentence", "is_special", "asked", "heard"}], the last two are turns from 1, or None;
            "tests": [{"call", "expected", "got", "outcome", "meaning", "seconds", "wishes"}], the last are topics that the test depends on;
            "advantages": {critic: [advantage of each turn]}, of critics that need no model;
            "answer" and "reference": texts to compare line by line; "notes": sentences;
            "pages": {"wanted", "got": JPEG in base64, or "", "width", "height": size of both pictures, "score": {part: number}, "blocks":
            [{"side": "wanted" or "got", "what", "text", "box": [x, y, width, height] in pixels of the picture}], "differences": [{"sentence", "turns"}]}.

        Raises:
            SandboxError: If a sandbox or a browser cannot be started or fails.
        """
        return [{} for _ in episodes]
