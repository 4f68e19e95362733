"""Why an answer to a function task is wrong: the kinds of failure, and explanations by hidden tests and wishes.

The wishes of an embedded task are its special facts. A wish counts as heard in the turn in whose reply the simulated human states it word for word,
as the scripted human does; with another human the kinds that depend on wishes are not used. A topic counts as asked about in the first turn that
contains one of the questions on it that the task knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from typing import Any

import sandboxes
from colbench_gym.reasoning import NONE
from colbench_gym.scoring.answer import defines_function, parse_message
from colbench_gym.scoring.details import AnswerDetails, TestDetails, explain_answers, meaning
from colbench_gym.scoring.measures import turns_heard
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.simulators.code_to_text.reference_facts import facts_from_reference
from colbench_gym.tasks import Fact, Task
from colbench_gym.tasks.embedded import family_of
from sandboxes import Limits
from sandboxes.named import Spec
from sandboxes.values import fingerprint_of
from sweetrl_agent.core.explanation import ANSWER_CUT, PASSED, VOID, Failure, FailureKind, WishCounts
from sweetrl_agent.envs.backend_exact_credit import recorded_advantages

#: Limit of a program in an explanation. With the limit of grading, a few endless loops would take minutes.
LIMITS = Limits(program_timeout_s=2.0)
#: Maximum number of other specifications that the behaviour of an answer is compared with.
MOST_ALTERNATIVES = 200
WRONG_CODE = FailureKind(
    "wrong_code",
    "asked everything, wrote it wrong",
    "The human stated every wish of the task, and the program runs, but a hidden test fails.",
)
DOES_NOT_RUN = FailureKind(
    "does_not_run",
    "asked everything, the program fails",
    "The human stated every wish, but most failed tests end in an exception, a timeout or another limit.",
)
NEVER_ASKED = FailureKind(
    "never_asked",
    "never asked about a wish",
    "All turns were used, and no message of the agent was about a wish that was never stated.",
)
ASKED_IN_VAIN = FailureKind(
    "asked_in_vain",
    "asked about a wish in vain",
    "All turns were used, and the agent asked about each wish that was never stated, e.g. as the second of two questions.",
)
ANSWERED_EARLY = FailureKind(
    "answered_early",
    "answered early",
    "The answer came with turns left while a wish was unheard; of a task without known wishes, in the first turn.",
)
NO_ANSWER = FailureKind(
    "no_answer", "no answer within the turns", "The last message has no answer marker; it was graded as it is, and fails."
)
NOT_PARSED = FailureKind(
    "not_parsed", "not parsed", "The answer is empty, does not compile, or does not define the requested function."
)
WRONG = FailureKind("wrong", "wrong value", "The wishes of the task are unknown; the program runs, but a hidden test fails.")
FAILS = FailureKind(
    "fails", "the program fails", "The wishes of the task are unknown; most failed tests end in an exception or at a limit."
)
KINDS = (
    PASSED,
    WRONG_CODE,
    DOES_NOT_RUN,
    NEVER_ASKED,
    ASKED_IN_VAIN,
    ANSWERED_EARLY,
    WRONG,
    FAILS,
    NO_ANSWER,
    NOT_PARSED,
    ANSWER_CUT,
    VOID,
)
_NO_PROGRAM = {"no_answer", "exception:SyntaxError", "exception:IndentationError", "exception:TabError"}
_SPACES = re.compile(r"\W+")
Messages = Sequence[Mapping[str, str]]


def failure(row: Mapping[str, Any], task: Task, turn_limit: int, states_wishes: bool) -> Failure:
    """The kind of an episode: the first that fits, in the order of the table in docs/why.md.

    Args:
        row: Row of `evaluation.jsonl`.
        task: Its task.
        turn_limit: Maximum number of agent turns of the episode.
        states_wishes: Whether the simulated human states wishes word for word.
    """
    special = [fact for fact in task.hidden.facts if fact.is_special] if states_wishes else []
    messages = row["dialogue_history"]
    silent = [fact for fact, turn in zip(special, turns_heard(special, messages), strict=True) if turn is None]
    wishes, unheard = tuple(fact.topic for fact in special), tuple(fact.topic for fact in silent)
    about: tuple[str, ...] = ()
    if row["outcome"] == VOID.name:
        kind = VOID
    elif row["success"]:
        kind = PASSED
    elif row["outcome"] == ANSWER_CUT.name:
        kind = ANSWER_CUT
    elif not row["answered"]:
        kind = NO_ANSWER
    elif not _is_program(row["outcome"], _answer(messages), task.function_name):
        kind = NOT_PARSED
    elif row["turns"] < turn_limit and (unheard or (not special and row["turns"] == 1)):
        kind, about = ANSWERED_EARLY, unheard
    elif unheard:
        never = tuple(fact.topic for fact, turn in zip(silent, turns_asked(silent, messages), strict=True) if turn is None)
        kind, about = (NEVER_ASKED, never) if never else (ASKED_IN_VAIN, unheard)
    elif row["outcome"] == "wrong":
        kind = WRONG_CODE if special else WRONG
    else:
        kind = DOES_NOT_RUN if special else FAILS
    return Failure(kind.name, wishes, unheard, about)


def turns_asked(facts: Sequence[Fact], messages: Messages) -> list[int | None]:
    """For each fact, the first turn, from 1, with a known question on its topic; None if there is none."""
    texts = [_plain(message["content"]) for message in messages if message["role"] == "assistant"]
    return [
        next((turn for turn, text in enumerate(texts, 1) if any(question in text for question in _known(fact))), None)
        for fact in facts
    ]


def explain(
    episodes: Sequence[tuple[Mapping[str, Any], Task]],
    sandbox: Spec,
    semantics: Any,
    max_turns: int,
    states_wishes: bool,
) -> list[dict[str, Any]]:
    """Explanations of episodes; see `core.explanation.Explains`. Answers and references run in a sandbox.

    Args:
        episodes: Rows of `evaluation.jsonl` with their tasks.
        sandbox: Name of the sandbox.
        semantics: Semantics of the unit tests.
        max_turns: Maximum number of agent turns; 0 for each task's own limit.
        states_wishes: Whether the simulated human states wishes word for word.

    Raises:
        SandboxError: If the sandbox cannot be started or fails.
    """
    details = _details(episodes, range(len(episodes)), sandbox, semantics)
    return [
        {
            **_explanation(task, row["dialogue_history"], details[i], states_wishes),
            **_exact(row, task, max_turns, states_wishes),
        }
        for i, (row, task) in enumerate(episodes)
    ]


def wish_counts(episodes: Sequence[tuple[Mapping[str, Any], Task]], sandbox: Spec, semantics: Any) -> list[WishCounts | None]:
    """See `core.explanation.Explains.wish_counts`; for a human who states wishes word for word. Answers run in a sandbox.

    An answer does a wish if it has the reference's value in a hidden test whose value the wish changes. Wishes change each other's values. The answer is
    therefore compared with the reference for the combination of wishes that explains most of its values.

    Args:
        episodes: Rows of `evaluation.jsonl` with their tasks.
        sandbox: Name of the sandbox.
        semantics: Semantics of the unit tests.

    Raises:
        SandboxError: If the sandbox cannot be started or fails.
    """
    details = _details(episodes, [i for i, (_, task) in enumerate(episodes) if _alternatives(task)], sandbox, semantics)
    return [_wish_counts(row, task, details[i]) if i in details else None for i, (row, task) in enumerate(episodes)]


def _details(
    episodes: Sequence[tuple[Mapping[str, Any], Task]], chosen: Iterable[int], sandbox: Spec, semantics: Any
) -> dict[int, AnswerDetails]:
    """Details of the answers of the chosen episodes, by index. Answers and references run in a sandbox."""
    order = sorted(chosen, key=lambda i: episodes[i][1].id)  # a reference then runs once
    answers = [(episodes[i][1], _answer(episodes[i][0]["dialogue_history"]) or None) for i in order]
    with sandboxes.make(sandbox) as opened:
        return dict(zip(order, explain_answers(UnitTests(opened, semantics, LIMITS, NONE), answers), strict=True))


def _wish_counts(row: Mapping[str, Any], task: Task, details: AnswerDetails) -> WishCounts:
    special = [fact for fact in task.hidden.facts if fact.is_special]
    heard = {
        fact.topic
        for fact, turn in zip(special, turns_heard(special, row["dialogue_history"]), strict=True)
        if turn is not None
    }
    written = heard & _written(task, [test.fingerprint for test in details.tests])
    return WishCounts(row["turns"] - bool(row["answered"]), len(special), len(heard), len(written))


def _written(task: Task, got: Sequence[str]) -> set[str]:
    """Topics of the wishes that an answer does, given the fingerprints of its values. The closest reference stands for the answer, see `wish_counts`."""
    plain = {frozenset(topic for topic, _ in spec.changed): spec for spec in _alternatives(task) if spec.is_plain}

    def agreeing(without: frozenset[str]) -> int:
        return sum(plain[without].fingerprint(i) == value for i, value in enumerate(got))

    closest = min(plain, key=lambda without: (-agreeing(without), len(without)))
    wishes = {fact.topic for fact in task.hidden.facts if fact.is_special} - closest
    return {
        topic
        for topic in wishes
        if (other := plain.get(closest | {topic})) is not None
        and any(plain[closest].fingerprint(i) == value != other.fingerprint(i) for i, value in enumerate(got))
    }


def _exact(row: Mapping[str, Any], task: Task, max_turns: int, states_wishes: bool) -> dict[str, Any]:
    """The exact advantage of every turn, where it is known."""
    if not states_wishes or not task.hidden.facts:
        return {}
    advantages = recorded_advantages(task, row["dialogue_history"], bool(row["success"]), max_turns)
    return {"advantages": {"exact": [round(value, 4) for value in advantages]}}


def _explanation(task: Task, messages: Messages, details: AnswerDetails, states_wishes: bool) -> dict[str, Any]:
    topics = _topics_by_test(task) or ((),) * len(details.tests)
    return {
        "wishes": list(_wishes(task, messages, states_wishes)),
        "tests": [_test(test, names) for test, names in zip(details.tests, topics, strict=False)],
        "answer": details.source,
        "reference": task.hidden.reference,
        "notes": list(_notes(task, details)),
    }


def _test(test: TestDetails, topics: Sequence[str]) -> dict[str, Any]:
    return {
        "call": test.call,
        "expected": test.expected,
        "got": test.got,
        "outcome": test.outcome,
        "meaning": meaning(test.outcome),
        "seconds": test.seconds,
        "wishes": list(topics),
    }


def _wishes(task: Task, messages: Messages, states_wishes: bool) -> Iterator[dict[str, Any]]:
    """The special facts, and others that were asked about or heard. For a row with unknown wishes: all facts in its reference."""
    facts = task.hidden.facts or facts_from_reference(task.hidden.reference, task.signature)
    heard = turns_heard(facts, messages) if states_wishes else [None] * len(facts)
    for fact, stated, asked in zip(facts, heard, turns_asked(facts, messages), strict=True):
        is_special = fact.is_special and bool(task.hidden.facts)
        if is_special or not task.hidden.facts or stated or asked:
            yield {"topic": fact.topic, "sentence": fact.sentence, "is_special": is_special, "asked": asked, "heard": stated}


@dataclass(frozen=True)
class _Alternative:
    """A specification of the family of an embedded task.

    Attributes:
        changed: Topics on which it differs from the task, with the sentence that the human would say; empty for the task itself.
        is_plain: Whether it has no wish on these topics.
        values: Values of its reference for the hidden tests.
    """

    changed: tuple[tuple[str, str], ...]
    is_plain: bool
    values: tuple[Any, ...]

    def fingerprint(self, test: int) -> str:
        """Hash of the value for a test."""
        return fingerprint_of(self.values[test])

    def equals(self, fingerprints: Sequence[str]) -> bool:
        """Whether its values equal an answer's. It stops at the first difference, which is mostly the first value."""
        return all(self.fingerprint(i) == got for i, got in enumerate(fingerprints))


@lru_cache(maxsize=1024)
def _alternatives(task: Task) -> tuple[_Alternative, ...]:
    """The specification of an embedded task, then others that differ in its wishes; empty for other tasks. Runs only our own references."""
    if not task.hidden.facts or not task.id.startswith("embedded/"):
        return ()
    family, choice = family_of(task)
    options = [range(len(topic.options)) if chosen else (0,) for topic, chosen in zip(family.topics, choice, strict=True)]
    others = sorted(product(*options), key=lambda other: sum(a != b for a, b in zip(other, choice, strict=True)))
    alternatives = []
    for other in islice(others, MOST_ALTERNATIVES):
        changes = [i for i, (a, b) in enumerate(zip(other, choice, strict=True)) if a != b]
        if (values := family.values(other)) is not None:
            changed = tuple((family.topics[i].name, family.topics[i].options[other[i]].says) for i in changes)
            alternatives.append(_Alternative(changed, not any(other[i] for i in changes), values))
    return tuple(alternatives)


@lru_cache(maxsize=1024)
def _topics_by_test(task: Task) -> tuple[tuple[str, ...], ...]:
    """For each hidden test, the topics whose wish changes its value; empty if the wishes are unknown."""
    exact, *others = _alternatives(task) or [None]
    plain = [other for other in others if other is not None and len(other.changed) == 1 and other.is_plain]
    tests = range(len(exact.values)) if exact is not None else ()
    return tuple(
        tuple(other.changed[0][0] for other in plain if exact is not None and other.fingerprint(i) != exact.fingerprint(i))
        for i in tests
    )


def _notes(task: Task, details: AnswerDetails) -> Iterator[str]:
    """Advice for the author of the agent, and the other specification that a wrong answer implements, if there is one."""
    if details.fault:
        yield details.fault
    got = [test.fingerprint for test in details.tests]
    if not got or all(test.outcome == "passed" for test in details.tests):
        return
    same = next((spec for spec in _alternatives(task) if spec.changed and spec.equals(got)), None)
    if same is None:
        return
    topics = " and ".join(topic for topic, _ in same.changed)
    if same.is_plain:
        yield f"In all tests the program does what the reference would do without the wish on {topics}."
    else:
        sentences = " ".join(sentence for _, sentence in same.changed)
        yield f"In all tests the program does what the reference would do with another choice on {topics}: {sentences}"


def _is_program(outcome: str, answer: str, name: str) -> bool:
    """Whether an answer is a program that defines the function, judged by its outcome and, for an unknown name, by its program."""
    if outcome == "exception:NameError" and name:
        return defines_function(answer, name, NONE)
    return outcome not in _NO_PROGRAM


def _answer(messages: Messages) -> str:
    """The text that was graded: what follows the answer marker of the last message, or all of it."""
    last = messages[-1]["content"] if messages and messages[-1]["role"] == "assistant" else ""
    answer = parse_message(last, NONE).answer
    return last if answer is None else answer


@lru_cache(maxsize=4096)
def _known(fact: Fact) -> tuple[str, ...]:
    return tuple(filter(None, map(_plain, fact.phrases)))


def _plain(text: str) -> str:
    """Words in lower case, single spaces between them."""
    return _SPACES.sub(" ", text[:20_000]).strip().casefold()
