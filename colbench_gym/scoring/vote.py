"""The voting rule: of several answers to a task, the first of those that most others agree with.

Answers agree if their programs behave alike: the same values on inputs that are made from the example call in the request and from the constants in
the answers. A voter knows nothing more than an agent: neither the calls of the hidden tests nor their values. Without an example call, as in rows of
the benchmark, answers agree if their texts are equal. Answers that return no value on any input have no vote if another one returns one.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.scoring.answer import extract_program
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks.task import Task
from sandboxes import Program

#: Inputs that answers are compared on.
NUM_INPUTS = 24
_NUMBERS = (0, 1, 2, 3, 0.125, 2.5, 7.75, 9, 10, 12.5, 40, 49.5, 60.25, 99.5, 120, 260)
_TEXTS = ("", "ann", "Ann", " ann", "bob", "test", "a b", "A-B, c 1", "42", "#x @y", "of the and a")


def plurality(keys: Sequence[Hashable]) -> int:
    """Index of the first of the most frequent keys. None is no vote, unless there are no others."""
    counts = Counter(key for key in keys if key is not None) or Counter(keys)
    return keys.index(counts.most_common(1)[0][0])  # in a tie the first: `most_common` keeps the order


def vote(task: Task, answers: Sequence[str], unit_tests: UnitTests) -> int:
    """Index of the answer that is chosen by the rule of the module.

    Args:
        task: The task; of its hidden part, nothing is used.
        answers: The answers, at least one.
        unit_tests: Its sandbox runs the programs.

    Raises:
        SandboxError: If the sandbox itself failed; never because of what a program did.
    """
    sources = [extract_program(answer, task.function_name, unit_tests.reasoning, task.hidden.calls) for answer in answers]
    calls = inputs_of(task, sources)
    if not calls or len(set(sources)) == 1:
        return plurality(sources)
    results = unit_tests.sandbox.run([Program(source, calls, unit_tests.limits) for source in sources])
    values = [tuple(call.fingerprint for call in result.calls) for result in results]
    return plurality([of if any(of) else None for of in values])


def inputs_of(task: Task, sources: Sequence[str] = ()) -> tuple[str, ...]:
    """Calls of the task's function with arguments of the kinds that the example call has; empty without one.

    Args:
        task: The task.
        sources: Programs, whose constants occur in the arguments.
    """
    try:
        call = ast.parse(task.example, mode="eval").body
        if not isinstance(call, ast.Call):
            return ()
        arguments = [("", ast.literal_eval(value)) for value in call.args]
        arguments += [(f"{keyword.arg}=", ast.literal_eval(keyword.value)) for keyword in call.keywords if keyword.arg]
    except (SyntaxError, ValueError):
        return ()
    constants = sorted({repr(value): value for source in sources for value in _constants(source)}.items())
    varied = _Inputs(random.Random(task.example), [value for _, value in constants]).varied
    return tuple(
        f"{task.function_name}({', '.join(f'{name}{varied(value)!r}' for name, value in arguments)})"
        for _ in range(NUM_INPUTS if arguments else 0)
    )


def _constants(source: str) -> Iterator[float | str]:
    """Short texts in a program, and numbers of up to six digits."""
    try:
        values: list[Any] = [node.value for node in ast.walk(parse_source(source)) if isinstance(node, ast.Constant)]
    except PARSE_ERRORS:
        return
    for value in values:
        if (type(value) in (int, float) and abs(value) < 1e6) or (isinstance(value, str) and len(value) < 40):
            yield value


class _Inputs:
    """Draws values of the same kind as others."""

    def __init__(self, rng: random.Random, constants: Sequence[Any]) -> None:
        self.rng = rng
        self.texts = [*_TEXTS, *(value for value in constants if isinstance(value, str))]
        self.numbers = [*_NUMBERS, *(value for value in constants if not isinstance(value, str))]

    def varied(self, value: Any) -> Any:
        """Another value. Elements of a list are of the kind of one of its elements, and some occur twice."""
        draw = self.rng.choice
        if isinstance(value, list):
            drawn = [self.varied(draw(value)) for _ in range(self.rng.randrange(8))] if value else []
            return [*drawn, *self.rng.sample(drawn, min(len(drawn), self.rng.randrange(3)))]
        if isinstance(value, tuple):
            return tuple(self.varied(part) for part in value)
        if isinstance(value, dict):
            return {key: self.varied(part) for key, part in value.items()}
        if isinstance(value, bool) or value is None:
            return draw((value, not value))
        if isinstance(value, str):
            return draw((value, value.upper(), *self.texts))
        return draw((value, -value, *self.numbers))
