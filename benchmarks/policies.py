"""Success of scripted policies on the embedded tasks. They know the list of topics and differ only in their questions.

    PYTHONPATH=. python benchmarks/policies.py [--dial preset=hard] [--count 384] [--output benchmarks/results/policies.json]

Each policy plays the tasks of ``embedded:test`` in the real environment, with the scripted human and the embedded sandbox. It ends with a
program without errors: it implements every wish that the human stated, and the plain choice on all other topics.

    never asks: answers at once, with the plain choice on everything.
    in order: asks about one topic per message, in the order of the list, until the turns are used up.
    at random: the same, in random order.
    two sentences, one sentence: asks about two random topics per message, as two questions or as one, joined by "and".
    oracle: asks only about the topics that can be special in the family, one per message, in the order of the list.
    told everything: uses all facts without asking. Its success is the upper bound for any policy.

Success has Wilson's 95% interval. Without `--dial` every preset is measured. The numbers of a measured dial in OUTPUT are replaced, others stay.
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
    """A question on each topic, in one of the wordings of the demonstrations."""
    asks = [rng.choice(topic.asks) for topic in topics]
    if not is_joined:
        return " ".join(asks)
    first, *others = asks
    return " and ".join([first.rstrip("?.") if others else first, *(text[0].lower() + text[1:] for text in others)])


def play(name: str, env: BackendEnv, task: Task, seed: int) -> tuple[int, int]:
    """Play an episode and return its success and its turns."""
    rng = random.Random(f"{name} {task.id} {seed}")
    env.reset(seed=seed, options={"task_id": task.id})
    for topics in POLICIES[name](task, rng)[: env.turn_limit - 1]:
        env.step(message(topics, name == JOINED, rng))
    replies = "\n".join(turn["content"] for turn in env.messages[1:] if turn["role"] == "user")
    known = [fact.topic for fact in task.hidden.facts if fact.sentence in replies or name == "told everything"]
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
    parser.add_argument("--count", type=int, default=384, help="tasks per dial")
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
