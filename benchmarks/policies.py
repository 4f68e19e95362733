"""How far do scripted agents come on the embedded tasks that know the list of topics, and differ only in what they ask?

    PYTHONPATH=. python benchmarks/policies.py [--dial preset=hard] [--count 384] [--output benchmarks/results/policies.json]

Each plays the tasks of ``embedded:test`` through the real environment, with the scripted person and the embedded sandbox, and ends with the
function as a programmer writes it who makes no error: every wish that was heard is met, the plain choice is taken elsewhere.

    never asks: answers at once, with the plain choice on everything.
    in order: asks about one topic a message, in the order of the list, for as many turns as there are.
    at random: the same, in random order.
    two sentences, one sentence: about two random topics a message, as two questions or as one, joined by "and".
    oracle: asks about the topics that can be special in the family only, in the order of the list, one a message.
    told everything: writes from all facts without asking. What it falls short of 1, nobody can reach.

Success has Wilson's 95% interval. Without `--dial` every preset is measured. A dial's numbers in OUTPUT are replaced, others stay.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import sandboxes
from colbench_gym.envs import BackendEnv
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.scoring.intervals import wilson
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.dial import PRESETS, parse_dial
from colbench_gym.tasks.embedded import family_of, reference_knowing
from colbench_gym.tasks.families.family import Topic
from sandboxes import Sandbox

#: Topics to ask about, message by message.
Plan = list[tuple[Topic, ...]]
JOINED = "two points, one sentence"


def ordered_map(task: Task, rng: random.Random) -> Plan:
    return [(topic,) for topic in family_of(task)[0].topics]


def at_random(task: Task, rng: random.Random) -> Plan:
    return rng.sample(ordered_map(task, rng), len(task.hidden.facts))


def in_pairs(task: Task, rng: random.Random) -> Plan:
    topics = [topic for (topic,) in at_random(task, rng)]
    return [tuple(topics[i : i + 2]) for i in range(0, len(topics), 2)]


def relevant_only(task: Task, rng: random.Random) -> Plan:
    family, _ = family_of(task)
    return [(family.topics[i],) for i in family.relevant]


def nothing(task: Task, rng: random.Random) -> Plan:
    return []


POLICIES: dict[str, Callable[[Task, random.Random], Plan]] = {
    "never asks": nothing,
    "in order": ordered_map,
    "at random": at_random,
    "two points, two sentences": in_pairs,
    JOINED: in_pairs,
    "oracle": relevant_only,
    "told everything": nothing,
}


def message(topics: Sequence[Topic], is_joined: bool, rng: random.Random) -> str:
    """A question on each topic, in one of the wordings that demonstrations have."""
    asks = [rng.choice(topic.asks) for topic in topics]
    if not is_joined:
        return " ".join(asks)
    first, *others = asks
    return " and ".join([first.rstrip("?.") if others else first, *(text[0].lower() + text[1:] for text in others)])


def play(name: str, env: BackendEnv, task: Task, seed: int) -> tuple[int, int]:
    """Success of an episode, and its turns."""
    rng = random.Random(f"{name} {task.id} {seed}")
    env.reset(seed=seed, options={"task_id": task.id})
    for topics in POLICIES[name](task, rng)[: env.turn_limit - 1]:
        env.step(message(topics, name == JOINED, rng))
    said = "\n".join(turn["content"] for turn in env.messages[1:] if turn["role"] == "user")
    known = [fact.topic for fact in task.hidden.facts if fact.sentence in said or name == "told everything"]
    *_, info = env.step(f"{ANSWER_MARKER}\n```python\n{reference_knowing(task, known)}\n```")
    return info["metrics"]["success"], info["metrics"]["turns"]


def measure(query: str, count: int, seed: int, sandbox: Sandbox) -> dict[str, dict[str, object]]:
    """Success of every policy on the first tasks of test at a dial."""
    tasks = load_tasks(f"embedded:test?{query}[:{count}]")
    env = BackendEnv(tasks, sandbox=sandbox, on_world_error="raise")
    results: dict[str, dict[str, object]] = {}
    for name in POLICIES:
        played = [play(name, env, task, seed) for task in tasks]
        rate = sum(success for success, _ in played) / len(played)
        low, high = wilson(rate, len(played))
        turns = sum(turns for _, turns in played) / len(played)
        results[name] = {
            "n": len(played),
            "success": round(rate, 4),
            "ci95": [round(low, 4), round(high, 4)],
            "turns": round(turns, 2),
        }
        print(
            f"{parse_dial(query).name:10} {name:26} {rate:6.1%} ({low:.1%} to {high:.1%}), {turns:.1f} turns, n = {len(played)}",
            flush=True,
        )
    return results


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dial", nargs="*", default=[f"preset={name}" for name in PRESETS], help="such as preset=hard or topics=8&turns=5"
    )
    parser.add_argument("--count", type=int, default=384, help="tasks of a dial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/policies.json"))
    given = parser.parse_args()
    results = json.loads(given.output.read_text()) if given.output.exists() else {}
    with sandboxes.make("embedded", workers=1) as sandbox:
        for query in given.dial:
            results[parse_dial(query).name] = measure(query, given.count, given.seed, sandbox)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
