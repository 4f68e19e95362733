"""The exact advantage of a turn on the embedded tasks, as functions and as a critic: an upper bound for learned critics.

On an embedded task an answer passes if every special wish was heard. For a *known answerer*, a fixed policy, the value of a dialogue can
therefore be computed instead of estimated. Our answerer hands in its answer with probability s in each turn (and in its last turn); the
answer passes if no special wish is unheard. Otherwise it asks about one of the remaining topics, chosen uniformly.
With m special wishes and u plain ones unheard and t turns left,

    V(m, u, t) = s [m = 0] + (1 - s) (m V(m - 1, u, t - 1) + u V(m, u - 1, t - 1)) / (m + u),    V(m, u, 1) = V(m, 0, t) = [m = 0].

The answerer is the demonstrator of SFT: s = 0 if it asks in all turns but the last, else `STOP`. The turn to be scored is arbitrary:
Q(o, a) is the unit tests' verdict if it is an answer, and otherwise V of the dialogue with the turn and the scripted human's reply.
The advantage is A(o, a) = Q(o, a) - V(o).

There are two oracles. The *task* oracle uses the wishes of the task, which no agent knows. The *marginal* oracle uses only the dialogue:
it averages over all tasks of the family that are consistent with the human's messages so far. No learned critic sees either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import sandboxes
from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.colbench_env import turn_limit
from colbench_gym.reasoning import NONE
from colbench_gym.scoring.answer import AgentMessage, extract_program, parse_message
from colbench_gym.scoring.measures import turns_heard
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.simulators.facts.scripted_human import ScriptedHuman
from colbench_gym.tasks import Task
from colbench_gym.tasks.embedded import dial_of, family_of
from colbench_gym.tasks.families.family import Choice, Family
from sandboxes import Program
from sandboxes.values import fingerprint_of
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Messages

#: Probability that an answerer without a fixed number of questions answers in a turn: four turns on average.
STOP = 0.25
#: Maximum number of tasks of a family that the marginal oracle averages over.
MOST_ALTERNATIVES = 300
#: Maps answers to the expected success of each.
Verdicts = Callable[[Sequence[str]], list[float]]


@cache
def value(special: int, plain: int, turns_left: int, stop: float = STOP) -> float:
    """Success probability of the known answerer: V in the module's docstring.

    Args:
        special: Special wishes not heard yet.
        plain: Plain wishes not heard yet.
        turns_left: Remaining turns of the answerer, including the answer.
        stop: Probability s of answering in a turn in which it could ask.
    """
    answers = float(special == 0)
    unheard = special + plain
    if turns_left <= 0:
        return 0.0
    if turns_left == 1 or unheard == 0:
        return answers
    asks = 0.0
    if special:
        asks += special / unheard * value(special - 1, plain, turns_left - 1, stop)
    if plain:
        asks += plain / unheard * value(special, plain - 1, turns_left - 1, stop)
    return stop * answers + (1 - stop) * asks


def has_fixed_length(num_topics: int, turns: int) -> bool:
    """Whether the demonstrator asks in every turn but the last: only if there are more topics than questions."""
    return 0 < turns - 1 < num_topics


def task_advantages(
    task: Task, messages: Messages, texts: Sequence[str], unit_tests: UnitTests, max_turns: int = 0
) -> list[float]:
    """A(o, a) of candidates for the agent's next turn by the task oracle, in [-1, 1].

    Args:
        task: An embedded task.
        messages: The dialogue so far; the last message is the user's.
        texts: The candidates.
        unit_tests: Scores candidates that are answers.
        max_turns: Maximum number of agent turns; the message of the last turn is always scored as an answer. 0 for the task's own limit.

    Raises:
        ValueError: If the task has no facts, as in rows of the real benchmark.
    """
    _require_facts(task)
    special = frozenset(i for i, fact in enumerate(task.hidden.facts) if fact.is_special)

    def verdicts(answers: Sequence[str]) -> list[float]:
        return [float(score.success) for score in unit_tests.score_many([(task, answer) for answer in answers])]

    return _advantages(task, messages, texts, [special], verdicts, turn_limit(task, max_turns))


def recorded_advantages(task: Task, messages: Messages, success: bool, max_turns: int = 0) -> list[float]:
    """A(o, a) of every turn of a finished dialogue by the task oracle, from the recorded replies, without a simulator or a sandbox.

    Args:
        task: An embedded task.
        messages: The dialogue with the scripted human, to its end.
        success: Whether its answer passes.
        max_turns: Maximum number of agent turns; 0 for the task's own limit.

    Raises:
        ValueError: If the task has no facts, as in rows of the real benchmark.
    """
    _require_facts(task)
    turns, num_topics = turn_limit(task, max_turns), len(task.hidden.facts)
    stop = 0.0 if has_fixed_length(num_topics, turns) else STOP
    special = frozenset(i for i, fact in enumerate(task.hidden.facts) if fact.is_special)
    turn_starts = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    heard = [_heard(task, messages[:i]) for i in turn_starts]
    unheard = [len(special - facts) for facts in heard]
    values = [
        value(m, num_topics - len(facts) - m, turns - turn, stop)
        for turn, (m, facts) in enumerate(zip(unheard, heard, strict=True))
    ]
    return [after - before for before, after in zip(values, [*values[1:], float(success)], strict=True)] if values else []


def marginal_advantages(
    task: Task, messages: Messages, texts: Sequence[str], unit_tests: UnitTests, max_turns: int = 0
) -> list[float]:
    """Expectation of A(o, a) over all tasks of the family that are consistent with the dialogue; see `task_advantages`."""
    _require_facts(task)
    family, choice = family_of(task)
    heard = _heard(task, messages)
    agreeing = [
        other for other in _alternatives(family, dial_of(task).wishes) if all(other[i] == choice[i] for i in heard)
    ] or [choice]
    special = [frozenset(i for i, option in enumerate(other) if option) for other in agreeing]

    def verdicts(answers: Sequence[str]) -> list[float]:
        expected = [tuple(map(fingerprint_of, family.values(other) or ())) for other in agreeing]
        programs = [
            Program(extract_program(answer, task.function_name, NONE, task.hidden.calls), task.hidden.calls, unit_tests.limits)
            for answer in answers
        ]
        results = [tuple(call.fingerprint for call in result.calls) for result in unit_tests.sandbox.run(programs)]
        return [expected.count(result) / len(expected) for result in results]

    return _advantages(task, messages, texts, special, verdicts, turn_limit(task, max_turns))


def _advantages(
    task: Task, messages: Messages, texts: Sequence[str], special: Sequence[frozenset[int]], verdicts: Verdicts, max_turns: int
) -> list[float]:
    """Expectation of A(o, a) over alternatives, each given by the positions of its special wishes."""
    num_topics = len(task.hidden.facts)
    stop = 0.0 if has_fixed_length(num_topics, max_turns) else STOP
    num_turns = sum(message["role"] == "assistant" for message in messages)

    def expected(heard: frozenset[int], turns_left: int) -> float:
        unheard = [len(wishes - heard) for wishes in special]
        return sum(value(m, num_topics - len(heard) - m, turns_left, stop) for m in unheard) / len(unheard)

    before = expected(_heard(task, messages), max_turns - num_turns)
    parsed = [parse_message(text, NONE) for text in texts]
    values = _answers(parsed, verdicts, is_last=num_turns + 1 >= max_turns)
    human, dialogue = ScriptedHuman(), Dialogue.from_dicts(messages)
    for utterance in (message.utterance for message in parsed):
        if utterance not in values:
            extended = dialogue.add("assistant", utterance)
            replied = extended.add("user", human.reply(task, extended, 0))
            values[utterance] = expected(_heard(task, replied.to_dicts()), max_turns - num_turns - 1)
    return [values[message.utterance] - before for message in parsed]


def _answers(parsed: Sequence[AgentMessage], verdicts: Verdicts, is_last: bool) -> dict[str, float]:
    """Verdicts on the messages that are answers, by utterance. In the last turn every message is an answer."""
    graded = {m.utterance: m.answer if m.answer is not None else m.utterance for m in parsed if m.answer is not None or is_last}
    return dict(zip(graded, verdicts(list(graded.values())), strict=True)) if graded else {}


def _require_facts(task: Task) -> None:
    if not task.hidden.facts:
        raise ValueError(f"Expected an embedded task with known facts, got {task.id!r}.")


def _heard(task: Task, messages: Messages) -> frozenset[int]:
    """Positions of the facts that the human has stated."""
    return frozenset(i for i, turn in enumerate(turns_heard(task.hidden.facts, messages)) if turn is not None)


@lru_cache(maxsize=1024)
def _alternatives(family: Family, wishes: tuple[int, int]) -> tuple[Choice, ...]:
    """Choices of a family's tasks; only the first ones if there are too many."""
    return tuple(islice(family.choices(wishes), MOST_ALTERNATIVES))


Advantages = Callable[[Task, Messages, Sequence[str], UnitTests, int], list[float]]
ADVANTAGES: Mapping[str, Advantages] = {"exact": task_advantages, "marginal": marginal_advantages}


@contextmanager
def open_oracle(name: str, tasks: Sequence[Task], sandbox: Any, max_turns: int) -> Iterator[Oracle]:
    """Open an oracle of `ADVANTAGES`, with a sandbox for candidates that are answers."""
    with sandboxes.make(sandbox) as opened:
        yield Oracle(tasks, UnitTests(opened, reasoning=NONE), ADVANTAGES[name], max_turns)


class Oracle(Critic):
    """Ranks by exact advantages. It has the tasks, and finds a dialogue's task by the hidden information.

    Args:
        tasks: Embedded tasks.
        unit_tests: Scores candidates that are answers.
        advantages: `task_advantages` or `marginal_advantages`.
        max_turns: Maximum number of agent turns; 0 for each task's own limit.
    """

    def __init__(
        self, tasks: Sequence[Task], unit_tests: UnitTests, advantages: Advantages = task_advantages, max_turns: int = 0
    ) -> None:
        self.tasks = {(task.description, task.hidden.reference): task for task in tasks}
        self.unit_tests, self.advantages, self.max_turns = unit_tests, advantages, max_turns

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Exact advantages of candidates for the next agent turn; see `Critic`."""
        return self.advantages(self._task(messages, hidden), messages, texts, self.unit_tests, self.max_turns)

    def _task(self, messages: Messages, hidden: str) -> Task:
        try:
            return self.tasks[messages[0]["content"], hidden]
        except KeyError:
            raise ValueError(
                "Expected the dialogue and reference of one of the critic's tasks, got those of another task."
            ) from None
