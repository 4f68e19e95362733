"""The exact advantage of a turn on the embedded tasks: the oracle for critics.

On an embedded task what is known decides what can be right: an answer passes if every special wish was heard. So for a *known
answerer* the value of a dialogue can be computed, not estimated. Ours, when it is to speak, hands in its answer with probability s
(and on its last turn), which passes if no special wish is unheard; else it asks about one of the topics not spoken of yet, each equally
likely. With m special wishes and u plain ones unheard and t turns left,

    V(m, u, t) = s [m = 0] + (1 - s) (m V(m - 1, u, t - 1) + u V(m, u - 1, t - 1)) / (m + u),    V(m, u, 1) = V(m, 0, t) = [m = 0].

It is the demonstrator of behaviour cloning: s = 0 where it asks in all turns but the last, else `STOP`. A turn that is said is not the
answerer's: Q(o, a) is the tests' own verdict on an answer, and for anything else V of the dialogue with the scripted human's reply to
it; the advantage is A(o, a) = Q(o, a) - V(o).

Two oracles differ in what they know. The one of the *task* knows its wishes, which no agent can know when it asks. The *marginal* one knows what
could be known: it averages over all tasks of the family that agree with what the human has said so far. No critic is shown either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import islice

from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.colbench_env import turn_limit
from colbench_gym.scoring.answer import AgentMessage, extract_program, parse_message
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.simulators.scripted import ScriptedHuman
from colbench_gym.tasks import Task
from colbench_gym.tasks.embedded import dial_of, family_of
from colbench_gym.tasks.families.family import Choice, Family
from sandboxes import Program
from sandboxes.values import fingerprint_of
from sweetrl_agent.core.episode import Messages

#: Probability that an answerer whose number of questions is not fixed answers instead of asking on: four turns in the mean.
STOP = 0.25
#: Tasks of a family that the marginal oracle averages over, at most.
MOST_ALTERNATIVES = 300
#: Verdicts on answers: the expected success of each.
Verdicts = Callable[[Sequence[str]], list[float]]


@cache
def value(special: int, plain: int, turns_left: int, stop: float = STOP) -> float:
    """Probability that the known answerer succeeds: V of the module's docstring.

    Args:
        special: Special wishes not heard yet.
        plain: Plain ones not heard yet.
        turns_left: Turns that it may still speak, the answer included.
        stop: Probability s that it answers although it might ask.
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
    """Whether a demonstrator asks in every turn but the last: only where that leaves topics out."""
    return 0 < turns - 1 < num_topics


def task_advantages(
    task: Task, messages: Messages, texts: Sequence[str], unit_tests: UnitTests, max_turns: int = 0
) -> list[float]:
    """A(o, a) of candidates for the agent's next turn by the oracle of the task, in [-1, 1].

    Args:
        task: An embedded task.
        messages: The dialogue so far; the last message is the human's.
        texts: What the agent might say.
        unit_tests: Grades candidates that are answers.
        max_turns: Turns of a dialogue, the last of which is graded whatever it is; 0 for the task's own budget.

    Raises:
        ValueError: If the task has no facts, as rows of the real benchmark have none.
    """
    _require_facts(task)
    special = frozenset(i for i, fact in enumerate(task.hidden.facts) if fact.is_special)

    def verdicts(answers: Sequence[str]) -> list[float]:
        return [float(score.success) for score in unit_tests.score_many([(task, answer) for answer in answers])]

    return _advantages(task, messages, texts, [special], verdicts, turn_limit(task, max_turns))


def marginal_advantages(
    task: Task, messages: Messages, texts: Sequence[str], unit_tests: UnitTests, max_turns: int = 0
) -> list[float]:
    """A(o, a) expected over all tasks of the family that agree with the dialogue so far; arguments and errors as of `task_advantages`."""
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
            Program(extract_program(answer, task.function_name), task.hidden.calls, unit_tests.limits) for answer in answers
        ]
        results = [tuple(call.fingerprint for call in result.calls) for result in unit_tests.sandbox.run(programs)]
        return [expected.count(result) / len(expected) for result in results]

    return _advantages(task, messages, texts, special, verdicts, turn_limit(task, max_turns))


def _advantages(
    task: Task, messages: Messages, texts: Sequence[str], special: Sequence[frozenset[int]], verdicts: Verdicts, max_turns: int
) -> list[float]:
    """A(o, a) expected over alternatives, each the set of the positions of its special wishes."""
    num_topics = len(task.hidden.facts)
    stop = 0.0 if has_fixed_length(num_topics, max_turns) else STOP
    spoken = sum(message["role"] == "assistant" for message in messages)

    def expected(heard: frozenset[int], turns_left: int) -> float:
        unheard = [len(own - heard) for own in special]
        return sum(value(m, num_topics - len(heard) - m, turns_left, stop) for m in unheard) / len(unheard)

    before = expected(_heard(task, messages), max_turns - spoken)
    parsed = [parse_message(text) for text in texts]
    values = _answers(parsed, verdicts, is_last=spoken + 1 >= max_turns)
    human, dialogue = ScriptedHuman(), Dialogue.from_dicts(messages)
    for utterance in (message.utterance for message in parsed):
        if utterance not in values:
            asked = dialogue.add("assistant", utterance)
            replied = asked.add("user", human.reply(task, asked, 0))
            values[utterance] = expected(_heard(task, replied.to_dicts()), max_turns - spoken - 1)
    return [values[message.utterance] - before for message in parsed]


def _answers(parsed: Sequence[AgentMessage], verdicts: Verdicts, is_last: bool) -> dict[str, float]:
    """Verdicts on the messages that are graded, by utterance; the last message is, whatever it is."""
    graded = {m.utterance: m.answer if m.answer is not None else m.utterance for m in parsed if m.answer is not None or is_last}
    return dict(zip(graded, verdicts(list(graded.values())), strict=True)) if graded else {}


def _require_facts(task: Task) -> None:
    if not task.hidden.facts:
        raise ValueError(f"Expected an embedded task, whose facts are known, got {task.id!r}.")


def _heard(task: Task, messages: Messages) -> frozenset[int]:
    """Positions of the facts that the human has said."""
    said = "\n".join(message["content"] for message in messages[1:] if message["role"] == "user")
    return frozenset(i for i, fact in enumerate(task.hidden.facts) if fact.sentence in said)


@lru_cache(maxsize=1024)
def _alternatives(family: Family, wishes: tuple[int, int]) -> tuple[Choice, ...]:
    """Choices of a family's tasks, the first of them where there are very many."""
    return tuple(islice(family.choices(wishes), MOST_ALTERNATIVES))
