"""Scaling of cost: seconds and peak memory of every stage with 100, 1,000 and 10,000 training tasks.

    PYTHONPATH=. python benchmarks/cost.py --output benchmarks/results/cost.json

The agent is scripted, because a model would take days: its seed determines its questions, and it answers with the reference or a wrong
program. The simulated human, the grader, the files, the critic and the actor are real; critic and actor are a model with one narrow layer. Every
size runs in its own process. "growth" is the time per task with 10,000 tasks divided by that with 1,000; it is 1 for linear scaling.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.files import Row, write_json, write_rows
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.rows import row_from_task
from sweetrl_agent.algorithms import sweet
from sweetrl_agent.algorithms.critic_settings import SWEET
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.evaluation.comparison_job import parse
from sweetrl_agent.evaluation.held_out import record
from sweetrl_agent.rollouts import collection
from sweetrl_agent.trainers.run import Run

SIZES = (100, 1_000, 10_000)
STAGES = ("collect", "pairs", "critic", "candidates", "rank", "actor", "evaluate")
NARROW = [
    "--sft_dialogues",
    "400",
    "--sft_epochs",
    "1",
    "--tiny_layers",
    "1",
    "--tiny_hidden_size",
    "32",
    "--tiny_vocab_size",
    "1000",
]


class Replayed:
    """A scripted agent without cost: two questions, then an answer that is right half of the time."""

    def __init__(self, answers: dict[str, str]) -> None:
        """Store the right answer to every request."""
        self.answers = answers

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy`."""
        return [self._say(dialogue, seed) for dialogue, seed in zip(dialogues, seeds, strict=True)]

    def _say(self, dialogue: Messages, seed: int) -> Utterance:
        if len(dialogue) < 5:
            return Utterance(f"What about case {seed % 1000}?", [1] * 12, [-0.1] * 12)
        right = self.answers[dialogue[0]["content"]]
        code = right if np.random.default_rng(seed).random() < 0.5 else right.replace("return", "return None #", 1)
        return Utterance(f"{ANSWER_MARKER}\n{code}", [1] * 60, [-0.1] * 60)


def tasks_of_their_own(size: int) -> Iterator[Row]:
    """Rows of embedded tasks, modified to be distinct: the agent identifies each by its request, and no verdict is cached from another."""
    tasks = load_tasks("embedded:train")
    for i in range(size):
        row = row_from_task(tasks[i % len(tasks)])
        row["problem_description"] += f" (Request {i}.)"
        row["ground_truth"] += f"\n# {i}"
        yield row


def measure(size: int, folder: Path) -> dict[str, Any]:
    """Run all stages at one size in this process, on the tasks in the folder."""
    _, config = parse([
        "--model", str(folder.parent / "initial" / "initial"), "--tasks", str(folder / "rows.jsonl"), "--test_tasks", "embedded:test", "--unseen_tasks", "",
        "--num_tasks", "0", "--sweet.num_states", str(size * 3 // 10), "--output", str(folder / "run"), "--max_new_tokens", "80",
    ])  # fmt: skip
    run = Run(config)
    agent = Replayed({task.description: task.hidden.reference for task in run.train})
    for module in (collection, sweet):
        vars(module)["load_policy"] = lambda *_: agent
    played = run.train[: max(size // 10, 1)]
    work = {
        "collect": lambda: collection.collect(run),
        "pairs": lambda: collection.pair_outcomes(run),
        "critic": lambda: sweet.train_critic(run, SWEET),
        "candidates": lambda: sweet.sample_candidates(run),
        "rank": lambda: sweet.rank(run),
        "actor": lambda: sweet.train_actor(run),
        "evaluate": lambda: record(run, run.path("evaluation.jsonl"), {"agent": "replayed"}, played, lambda: agent, "evaluate"),
    }
    for name in STAGES:
        with run.stage(run.stages[name]):
            work[name]()
        print(f"{size} tasks, {name}: {run.seconds[name]:.1f} s, {run.peak_mib[name]:.0f} MiB", file=sys.stderr, flush=True)
    return {"seconds": run.seconds, "peak_mib": run.peak_mib}


def main() -> None:
    """Measure every size in its own process, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.folder)))
        return
    from pretrained_speed import machine  # imported here, because its imports would count as memory of the stages

    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = [sys.executable, "-m", "sweetrl_agent.train", "--stage", "sft", "--output", str(folder / "initial"), *NARROW]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL)
        for size in given.sizes:
            size_folder = folder / str(size)
            size_folder.mkdir()
            write_rows(size_folder / "rows.jsonl", tasks_of_their_own(size))
            command = [sys.executable, __file__, "--measure", str(size), "--folder", str(size_folder)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            results[str(size)] = json.loads(done.stdout.splitlines()[-1])
    sizes = [str(size) for size in given.sizes]
    if len(sizes) > 1:
        last, before = sizes[-1], sizes[-2]
        results["growth"] = {
            stage: results[last]["seconds"][stage] / results[before]["seconds"][stage] * int(before) / int(last)
            for stage in STAGES
        }
        results["more_mib"] = {
            stage: results[last]["peak_mib"][stage] - results[sizes[0]]["peak_mib"][stage] for stage in STAGES
        }
    print(json.dumps(results, indent=2))
    if given.output:
        write_json(given.output, results)


if __name__ == "__main__":
    main()
