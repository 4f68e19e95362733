"""How well does the scripted human understand questions that people wrote?

    PYTHONPATH=. python benchmarks/understanding.py --half blind [--output benchmarks/results/understanding.json]

The questions (`benchmarks/questions/`) were written by helpers who saw the requests and the meaning of each topic, but neither the phrases nor the
code. Thresholds and phrases may be tuned on the half ``development``; the half ``blind`` is only measured and never read. A question counts as
understood if the reply states exactly the facts of its topics, or the answer of its kind. Every relevant topic has a wish here.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from colbench_gym.dialogue import Dialogue, Message
from colbench_gym.files import write_json
from colbench_gym.scoring.intervals import wilson
from colbench_gym.simulators.code_to_text.plain_answers import plain_answer
from colbench_gym.simulators.facts.scripted_human import BROAD_REPLIES, UNKNOWN_REPLIES, ScriptedHuman
from colbench_gym.tasks.dial import parse_dial
from colbench_gym.tasks.embedded import make_task
from colbench_gym.tasks.families.composed import ComposedDomain
from colbench_gym.tasks.families.domain import read_domain
from colbench_gym.tasks.families.family import Family
from colbench_gym.tasks.task import Task

FOLDER = Path(__file__).parent / "questions"
DIAL = parse_dial("topics=12&relevant=3&wishes=2&turns=6&points=2")


def task_of(row: dict[str, Any]) -> Task:
    """The task of a row's questions, with the first wish of every relevant topic."""
    family = _family(row["domain"], row["function"])
    known = {topic.name: topic for topic in (*read_domain(row["domain"]).decoys, *family.topics)}
    listed = [known[name] if name in row["relevant"] else known[name].without_wishes() for name in row["topics"]]
    unlisted = [topic for name, topic in known.items() if name not in row["topics"]]
    defaults = {slot: code for topic in unlisted for slot, code in topic.options[0].code.items()}
    family = replace(family, topics=tuple(listed), defaults=defaults)
    return make_task(family, tuple(int(len(topic.options) > 1) for topic in listed), DIAL)


def _family(name: str, function: str) -> Family:
    """The family of a function with all topics of its domain."""
    domain = read_domain(name)
    if not isinstance(domain, ComposedDomain):
        return next(family for family in domain.whole if family.name == function)
    base = next(base for base in domain.bases if base.name == function)
    topics = tuple(step.topic for step in domain.steps)
    template = domain.template(base, [topic.name for topic in topics])
    return Family(function, name, base.request, base.signature, template, topics, base.calls, base.example)


def asked(human: ScriptedHuman, task: Task, question: dict[str, Any]) -> dict[str, Any]:
    """The reply to a question, whether it is right, and the number of stated wishes that the question did not ask about."""
    dialogue = Dialogue((Message("user", task.description),)).add("assistant", question["question"])
    start = time.process_time()
    reply = human.reply(task, dialogue, seed=0)
    seconds = time.process_time() - start
    facts = {fact.topic: fact for fact in task.hidden.facts}
    stated = [fact.topic for fact in task.hidden.facts if fact.sentence in reply]
    if question["topics"]:
        expected = [
            " ".join(facts[name].sentence for name in order) for order in (question["topics"], question["topics"][::-1])
        ]
    elif question["kind"] == "blanket":
        expected = list(BROAD_REPLIES)
    elif question["kind"] == "nobody":
        expected = list(UNKNOWN_REPLIES)
    else:
        expected = [plain_answer(task, question["kind"], question["question"])]
    unasked = [name for name in stated if name not in question["topics"] and facts[name].is_special]
    return {"reply": reply, "right": reply in expected, "unasked": len(unasked), "said": stated, "seconds": seconds}


def measured(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every question with its result."""
    human = ScriptedHuman()
    for row in rows:
        task = task_of(row)
        human.reply(
            task, Dialogue((Message("user", task.description),)).add("assistant", "Hello?"), seed=0
        )  # phrases are indexed once per task
        yield from ({**question, "function": row["function"], **asked(human, task, question)} for question in row["questions"])


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares with Wilson's 95% intervals, and how many of each kind are right."""
    count, kinds = len(results), Counter(row["kind"] for row in results)
    right = Counter(row["kind"] for row in results if row["right"])
    share, leaks = sum(right.values()) / count, sum(row["unasked"] > 0 for row in results) / count
    return {
        "n": count,
        "right": share,
        "right_ci95": wilson(share, count),
        "unasked_wish": leaks,
        "unasked_wish_ci95": wilson(leaks, count),
        "by_kind": {kind: f"{right[kind]} of {total}" for kind, total in kinds.items()},
        "cpu_milliseconds": round(1000 * sum(row["seconds"] for row in results) / count, 2),
    }


def main() -> None:
    """Ask every question of a half, print the summary, add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", default="development", choices=["development", "blind"])
    parser.add_argument("--output", type=Path, help="JSON file to which the summary is added")
    parser.add_argument("--wrong", action="store_true", help="print the questions that went wrong (development only)")
    given = parser.parse_args()
    results = list(measured(json.loads((FOLDER / f"{given.half}.json").read_text(encoding="utf-8"))))
    if given.wrong and given.half == "development":
        for row in results:
            if not row["right"]:
                print(
                    f"{row['function']} {row['kind']} {row['topics']} -> {row['said']}: {row['question']}\n    {row['reply']}"
                )
    record = {"half": given.half, **summary(results), "when": datetime.now(UTC).date().isoformat()}
    print(json.dumps(record, indent=1))
    if given.output:
        records = json.loads(given.output.read_text()) if given.output.exists() else []
        write_json(given.output, [*records, record])


if __name__ == "__main__":
    main()
