"""Do all backends give the same verdicts, and with `semantics="released"` the verdicts of ColBench's released grader?

    python benchmarks/verdicts.py --tasks backend_test.jsonl [--backends embedded docker] [--answers 11] [--save V.json] [--compare V.json]

Every task gets answers that are right (in several formats), wrong (one place of the reference changed) and malformed. The released
grader is reimplemented here with its quirks (local scope, one-second alarm, list of forbidden words), and runs in a separate process:
use it only for programs made from trusted references. `--save` and `--compare` compare with the verdicts of another machine or another
Python. Tasks with a reference that cannot be graded are excluded and listed. Exits with status 1 if verdicts differ; the first twenty
differences of each comparison are listed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import platform
import queue
import random
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from grading_speed import answers_to

import sandboxes
from colbench_gym.scoring.unit_tests import PASSED, UNGRADABLE, UnitTests
from colbench_gym.tasks import Task, load_tasks

Answers = Sequence[tuple[Task, str]]
Verdicts = list[list[str]]
#: A separate copy of the grader's list, so that the check does not share its errors.
FORBIDDEN = ("import os", "from os", "import sys", "from sys", "sudo", "transformers", "exit(", "quit(", "argparse")


def dressed(task: Task) -> list[tuple[Task, str]]:
    """The reference in the formats in which language models present code."""
    source = task.hidden.reference
    lines = source.split("\n")
    imports = [line.strip() for line in lines if re.match(r"\s+(import|from)\s", line)]
    hoisted = "\n".join([*imports, *(line for line in lines if not re.match(r"\s+(import|from)\s", line))])
    return [
        (task, answer)
        for answer in (
            hoisted,
            f"```\n{source}\n```",
            f"```Python\n{source}\n```",
            f"{source}\nThis is it.",
            f"import math\n{source}",
        )
    ]


#: Executed in a separate namespace, which only has the names that leak into it in the released grader.
_RELEASED = "def value(definition, call):\n    exec(definition)\n    return eval(call)"
_released: dict[str, Any] = {"multiprocessing": multiprocessing, "signal": signal, "Empty": queue.Empty}
exec(_RELEASED, _released)


def _ring(*_: object) -> None:
    raise TimeoutError


def _released_verdict(task: Task, answer: str) -> list[str]:
    if any(word in answer for word in FORBIDDEN):
        return ["wrong"] * len(task.hidden.calls)
    for fence in ("```python", "```"):
        if fence in answer:
            answer = answer.split(fence)[1].split("```")[0].strip()
            break
    verdicts = []
    for call in task.hidden.calls:
        expected = got = None
        with contextlib.suppress(Exception):
            expected = _released["value"](task.hidden.reference, call)
        signal.signal(signal.SIGALRM, _ring)
        signal.alarm(1)
        with contextlib.suppress(BaseException):
            got = _released["value"](answer, call)
        signal.alarm(0)
        is_passed = False
        with contextlib.suppress(Exception):
            is_passed = expected is not None and got is not None and bool(expected == got)
        verdicts.append(PASSED if is_passed else "wrong")
    return verdicts


def _released_verdicts(answers: Answers) -> Verdicts:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        warnings.simplefilter("ignore")
        return [_released_verdict(task, answer) for task, answer in answers]


def released_verdicts(answers: Answers) -> Verdicts:
    """Verdicts of the released grader, each call "passed" or "wrong"."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_released_verdicts, (answers,))


def sandbox_verdicts(backend: str, semantics: str, answers: Answers) -> Verdicts:
    """Verdicts in a sandbox, call by call."""
    with sandboxes.make(backend) as sandbox:
        return [list(score.calls) for score in UnitTests(sandbox, semantics).score_many(answers)]


def differences(name: str, answers: Answers, first: Verdicts, second: Verdicts, left_out: Collection[str]) -> int:
    """Print the differences of two sets of verdicts, and return the number of different answers."""
    kept = [i for i, (task, _) in enumerate(answers) if task.id not in left_out]
    different = [i for i in kept if first[i] != second[i]]
    print(f"{name}: {len(kept) - len(different)} of {len(kept)} answers alike", flush=True)
    for i in different[:20]:
        print(f"  {answers[i][0].id}: {first[i]} against {second[i]}; answer {answers[i][1][:60]!r}")
    return len(different)


def only_passed(verdicts: Verdicts) -> Verdicts:
    """Every call as "passed" or "wrong", as in the released grader."""
    return [[PASSED if call == PASSED else "wrong" for call in calls] for calls in verdicts]


def main() -> int:
    """Grade with all backends and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", required=True)
    parser.add_argument("--backends", nargs="+", default=["embedded"])
    parser.add_argument(
        "--answers", type=int, default=11, help="answers for each task, in addition to five formats of the reference"
    )
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    given = parser.parse_args()
    rng = random.Random(0)
    answers = [
        pair for task in load_tasks(given.tasks, "skip") for pair in (*answers_to(task, given.answers, rng), *dressed(task))
    ]
    print(f"Python {platform.python_version()}; {len(answers)} answers")
    by_backend = {
        semantics: {backend: sandbox_verdicts(backend, semantics, answers) for backend in given.backends}
        for semantics in ("module", "released")
    }
    first = given.backends[0]
    left_out = {task.id for (task, _), calls in zip(answers, by_backend["module"][first], strict=True) if UNGRADABLE in calls}
    print(f"left out, for their reference cannot be graded: {', '.join(sorted(left_out)) or 'none'}")
    count = 0
    for semantics, verdicts in by_backend.items():
        print(f"{semantics}: {sum(set(calls) == {PASSED} for calls in verdicts[first])} answers pass all tests")
        for backend in given.backends[1:]:
            count += differences(f"{semantics}: {first}, {backend}", answers, verdicts[first], verdicts[backend], left_out)
    if sys.version_info < (3, 13):  # where the released grader scores everything 0
        theirs = released_verdicts(answers)
        count += differences(
            "released: sandbox, released grader", answers, only_passed(by_backend["released"][first]), theirs, left_out
        )
    if given.save:
        given.save.write_text(json.dumps({semantics: verdicts[first] for semantics, verdicts in by_backend.items()}))
    if given.compare:
        for semantics, theirs in json.loads(given.compare.read_text()).items():
            count += differences(
                f"{semantics}: here, {given.compare.name}", answers, by_backend[semantics][first], theirs, left_out
            )
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
