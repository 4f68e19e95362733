"""Check the guarantees of embedded tasks on random tasks at random dials. Exits with status 1 if a check fails.

    PYTHONPATH=. python benchmarks/random_tasks.py [--tasks 100000] [--sandboxed 2000] [--seed 0]

Dials are drawn from all possible ones, and for each a split or a domain, some of its families, and some of their tasks. An answer that
implements every wish must pass all ten tests, and an answer that misses any single wish must fail. All answers run in this process, because
they are trusted code; some are also graded like agents' answers, in the embedded sandbox. If a draw has no family, the name of the source
must be refused with the corresponding error.

The tasks of a family are found by a search through its choices. The slowest search is printed, because its time is not bounded.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import sandboxes
from colbench_gym.scoring.unit_tests import PASSED, UnitTests
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.dial import MOST_RELEVANT, MOST_TOPICS, Dial, parse_dial
from colbench_gym.tasks.embedded import SPLITS, families, family_of, make_task, reference_knowing
from colbench_gym.tasks.families.family import Family

#: Families per draw, and tasks per family. The dial of a draw costs about 0.1 s, independently of these numbers.
FAMILIES_A_DRAW, TASKS_A_FAMILY = 24, 30
NO_TASKS = "has tasks at the dial"


@dataclass
class Findings:
    """The results of the checks.

    Attributes:
        tasks, left_out: Tasks checked, and answers that missed a wish.
        dials: Different dials drawn.
        barren: Families that were searched through and have no task at the dial, as "family at dial".
        refused: Names of sources for which the dial has no family.
        slowest: Seconds of the slowest search through a family's choices, and which it was.
        failures: Failed checks, one line each.
        sample: Tasks kept for the sandbox.
    """

    tasks: int = 0
    left_out: int = 0
    dials: set[Dial] = field(default_factory=set)
    barren: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    slowest: tuple[float, str] = (0.0, "")
    failures: list[str] = field(default_factory=list)
    sample: list[Task] = field(default_factory=list)


def random_dial(rng: random.Random) -> Dial:
    """Any possible dial."""
    topics = rng.randint(1, MOST_TOPICS)
    relevant = rng.randint(1, min(topics, MOST_RELEVANT))
    fewest, most = sorted(rng.choices(range(1, relevant + 1), k=2))
    return Dial(topics, relevant, (fewest, most), turns=rng.randint(most + 1, 100), points=rng.choice((1, 2)))


def random_families(rng: random.Random, dial: Dial, findings: Findings) -> list[Family]:
    """Some families of a random split or domain; none if it has none at the dial, which the error for the source must say."""
    split = rng.choice(list(SPLITS))
    domain = rng.choice(["", *SPLITS[split]])
    possible = families(split, dial, (domain,) if domain else ())
    if possible:
        return rng.sample(possible, min(FAMILIES_A_DRAW, len(possible)))
    name = f"embedded:{split}{'/' * bool(domain)}{domain}?{dial.query}"
    findings.refused.add(name)
    try:
        load_tasks(name)
        findings.failures.append(f"{name} has no family and was not refused")
    except ValueError as error:
        if NO_TASKS not in str(error):
            findings.failures.append(f"{name} was refused with {error}")
    return []


def tasks_of(family: Family, dial: Dial, findings: Findings) -> list[Task]:
    """A family's first tasks at a dial."""
    start = time.perf_counter()
    choices = list(islice(family.choices(dial.wishes), TASKS_A_FAMILY))
    taken = time.perf_counter() - start
    findings.slowest = max(findings.slowest, (taken, f"{family.name} at {dial.query}"))
    if not choices:
        findings.barren.append(f"{family.name} at {dial.query}")
    return [make_task(family, choice, dial) for choice in choices]


def check(task: Task, dial: Dial, findings: Findings) -> None:
    """Check the guarantees of a task, with its family found by its id."""
    family, choice = family_of(task)
    wishes = [fact.topic for fact in task.hidden.facts if fact.is_special]
    expected = family.values(choice)
    if parse_dial(dial.query) != dial or not dial.wishes[0] <= len(wishes) <= dial.wishes[1] or len(choice) != dial.topics:
        findings.failures.append(f"{task.id} is not as its dial {dial.query} says")
    if expected is None or family.reference(choice) != task.hidden.reference:
        findings.failures.append(f"{task.id} has no values, or another reference than its family's choice")
    if reference_knowing(task, wishes) != task.hidden.reference:
        findings.failures.append(f"{task.id} is not what an agent writes that heard all wishes")
    for topic, index in zip(family.topics, choice, strict=True):
        if index:
            other = tuple(
                0 if family_topic is topic else option for family_topic, option in zip(family.topics, choice, strict=True)
            )
            if family.values(other) == expected:
                findings.failures.append(f"{task.id} is solved without the wish on {topic.name!r}")
            findings.left_out += 1
    findings.tasks += 1


def drawn(count: int, rng: random.Random, findings: Findings) -> Iterator[tuple[Task, Dial]]:
    """Yield `count` random tasks."""
    left = count
    while left > 0:
        dial = random_dial(rng)
        findings.dials.add(dial)
        for family in random_families(rng, dial, findings):
            for task in tasks_of(family, dial, findings)[:left]:
                yield task, dial
                left -= 1


def grade(tasks: list[Task], rng: random.Random) -> list[str]:
    """Grade the right answer and one that misses a wish for each task, like agents' answers. Returns the failed checks."""
    answers = []
    for task in tasks:
        wishes = [fact.topic for fact in task.hidden.facts if fact.is_special]
        missed = rng.choice(wishes)
        answers += [
            (task, task.hidden.reference),
            (task, reference_knowing(task, [topic for topic in wishes if topic != missed])),
        ]
    with sandboxes.make("embedded", workers=1) as sandbox:
        scores = UnitTests(sandbox).score_many(answers)
    right = [f"{task.id} gives {score.calls} in the sandbox" for (task, _), score in list(zip(answers, scores, strict=True))[::2]
             if score.tests_passed < 1 or set(score.calls) != {PASSED}]  # fmt: skip
    wrong = [f"{task.id} is solved in the sandbox by {answer!r}" for (task, answer), score in list(zip(answers, scores, strict=True))[1::2]
             if score.success]  # fmt: skip
    return right + wrong


def find(tasks: int, sandboxed: int, seed: int) -> Findings:
    """Draw and check."""
    rng, findings = random.Random(seed), Findings()
    for number, (task, dial) in enumerate(drawn(tasks, rng, findings)):
        check(task, dial, findings)
        if len(findings.sample) < sandboxed:
            findings.sample.append(task)
        elif (place := rng.randint(0, number)) < sandboxed:
            findings.sample[place] = task
    findings.failures += grade(findings.sample, rng)
    return findings


def main() -> int:
    """Check and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument(
        "--sandboxed", type=int, default=2_000, help="tasks of which two answers are graded in the embedded sandbox"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.perf_counter()
    findings = find(given.tasks, given.sandboxed, given.seed)
    print(
        f"{findings.tasks} tasks at {len(findings.dials)} dials; {findings.left_out} answers that miss a wish; {len(findings.sample)} graded in the sandbox"
    )
    print(f"{len(findings.refused)} sources without a family at their dial, all refused")
    print(f"{len(findings.barren)} families without a task at a dial" + "".join(f"\n  {line}" for line in findings.barren[:20]))
    print(f"slowest search: {findings.slowest[0]:.1f} s, {findings.slowest[1]}")
    print(f"{len(findings.failures)} failures" + "".join(f"\n  {line}" for line in findings.failures[:50]))
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
