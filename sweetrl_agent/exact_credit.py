"""The exact advantage of a turn on the embedded tasks: the yardstick for critics.

On an embedded task what is known decides what can be right: an answer passes if every special wish was heard. So for a *known
answerer* the value of a dialogue can be computed, not estimated. Ours, when it is to speak, hands in its answer with probability
`STOP` (and on its last turn), which passes if no special wish is unheard; else it asks about one of the topics not spoken of yet,
each equally likely. With m special wishes and u plain ones unheard and t turns left,

    V(m, u, t) = STOP [m = 0] + (1 - STOP) (m V(m - 1, u, t - 1) + u V(m, u - 1, t - 1)) / (m + u),    V(m, u, 1) = V(m, 0, t) = [m = 0].

A turn that is said is not the answerer's: Q(o, a) is the tests' own verdict on an answer, and for anything else V of the dialogue with
the scripted human's reply to it; the advantage is A(o, a) = Q(o, a) - V(o). No critic is shown it, and no algorithm but the yardstick
"exact" trains on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from colbench_gym.dialogue import Dialogue
from colbench_gym.scoring.answer import parse_message
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.simulators.scripted import ScriptedHuman
from colbench_gym.tasks import Task
from sweetrl_agent.chat import Messages

#: Probability that the known answerer answers instead of asking on: four turns in the mean, about as long as the agents' dialogues.
STOP = 0.25


@cache
def value(special: int, plain: int, turns_left: int) -> float:
    """Probability that the known answerer succeeds: V of the module's docstring.

    Args:
        special: Special wishes not heard yet.
        plain: Plain ones not heard yet.
        turns_left: Turns that it may still speak, the answer included.
    """
    answers = float(special == 0)
    unheard = special + plain
    if turns_left <= 0:
        return 0.0
    if turns_left == 1 or unheard == 0:
        return answers
    asks = 0.0
    if special:
        asks += special / unheard * value(special - 1, plain, turns_left - 1)
    if plain:
        asks += plain / unheard * value(special, plain - 1, turns_left - 1)
    return STOP * answers + (1 - STOP) * asks


def dialogue_value(task: Task, messages: Messages, max_turns: int) -> float:
    """V of a dialogue in which the agent is to speak."""
    heard = "\n".join(message["content"] for message in messages[1:] if message["role"] == "user")
    unheard = [fact for fact in task.hidden.facts if fact.sentence not in heard]
    special = sum(fact.is_special for fact in unheard)
    spoken = sum(message["role"] == "assistant" for message in messages)
    return value(special, len(unheard) - special, max_turns - spoken)


def exact_advantages(
    task: Task, messages: Messages, texts: Sequence[str], unit_tests: UnitTests, max_turns: int = 10
) -> list[float]:
    """A(o, a) of candidates for the agent's next turn, in [-1, 1].

    Args:
        task: An embedded task.
        messages: The dialogue so far; the last message is the human's.
        texts: What the agent might say.
        unit_tests: Grades candidates that are answers.
        max_turns: Turns of a dialogue; the last message is graded whatever it is.

    Raises:
        ValueError: If the task has no facts, as rows of the real benchmark have none.
    """
    if not task.hidden.facts:
        raise ValueError(f"Expected an embedded task, whose facts are known, got {task.id!r}.")
    before = dialogue_value(task, messages, max_turns)
    spoken = sum(message["role"] == "assistant" for message in messages)
    parsed = [parse_message(text) for text in texts]
    is_last = spoken + 1 >= max_turns
    answers = {
        m.utterance: m.answer if m.answer is not None else m.utterance for m in parsed if m.answer is not None or is_last
    }
    verdicts = unit_tests.score_many([(task, answer) for answer in answers.values()])
    success = {utterance: float(score.success) for utterance, score in zip(answers, verdicts, strict=True)}
    human = ScriptedHuman()
    dialogue = Dialogue.from_dicts(messages)
    values: dict[str, float] = dict(success)
    for utterance in (m.utterance for m in parsed):
        if utterance not in values:
            asked = dialogue.add("assistant", utterance)
            told = asked.add("user", human.reply(task, asked, 0))
            values[utterance] = dialogue_value(task, told.to_dicts(), max_turns)
    return [values[m.utterance] - before for m in parsed]
