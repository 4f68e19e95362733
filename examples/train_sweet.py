"""SWEET-RL from Python: train, read the results, and print the dialogue that improved most.

    python examples/train_sweet.py [--output runs/figures] [settings of `python -m sweetrl_agent.train`]

Trains on one domain of the embedded tasks. `run_train` takes every setting of the command line by its name. All output of a run is in files of its
folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

#: One domain of the tasks, and less of everything than by default.
SMALL = {
    "tasks": "embedded:train/figures", "test_tasks": "embedded:test/figures", "unseen_tasks": "",
    "sft_dialogues": 3500, "num_tasks": 300, "sweet.num_states": 300,
}  # fmt: skip


def train(output: str, **settings: Any) -> dict[str, Any]:
    """Train, or resume an unfinished run; returns the content of results.json."""
    from sweetrl_agent import run_train

    return run_train(output=output, **{**SMALL, **settings})


def most_improved(output: str) -> str:
    """Both dialogues, as text, of the test task on which the trained policy gained most passed tests."""
    from colbench_gym.files import read_rows

    played: dict[str, dict[str, Any]] = {}
    for row in read_rows(Path(output) / "evaluation.jsonl"):
        if row["split"] == "test" and row["tests_passed"] is not None:  # None: void
            played.setdefault(row["task_id"], {})[row["agent"]] = row
    pairs = [rows for rows in played.values() if {*rows} == {"initial", "trained"}]
    most_improved_pair = max(pairs, key=lambda rows: rows["trained"]["tests_passed"] - rows["initial"]["tests_passed"])
    return "\n\n".join(f"--- {agent}\n{_as_text(row['dialogue_history'])}" for agent, row in most_improved_pair.items())


def _as_text(messages: list[dict[str, str]]) -> str:
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


def main(arguments: list[str]) -> int:
    """Train and print; `arguments` are words of the command line, such as --seed 1."""
    words = iter(arguments)
    settings: dict[str, Any] = {word.removeprefix("--"): next(words) for word in words}
    output = settings.pop("output", "runs/figures")
    results = train(output, **settings)
    for agent in ("initial", "trained"):
        score = results[agent]["test"]
        low, high = score["ci95"]["success"]
        print(f"{agent}: {score['success']:.1%} ({low:.1%} to {high:.1%}) of {score['n']} test tasks")
    print(most_improved(output))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
