"""What training has changed: the paired difference between the trained and the initial policy, and one dialogue of each."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colbench_gym.outside_text import printable
from sweetrl_agent.data.files import Row
from sweetrl_agent.evaluation.statistics import agents_interval, permutation_p

#: Lines of a dialogue on the screen, and columns of a line.
_MOST_LINES, _WIDTH = 40, 110


def paired_gain(initial: Sequence[Row], trained: Sequence[Row], metric: str = "success") -> dict[str, Any] | None:
    """The trained policy's mean less the initial policy's, over tasks that both have valid episodes of.

    The interval (bootstrap over tasks) and the p-value (random sign flips per task) hold for these two policies.

    Args:
        initial: Rows of `evaluation.jsonl` of the initial policy on a split.
        trained: The trained policy's.
        metric: What is compared.

    Returns:
        "of" (the metric), "mean", "ci95", "p" and "tasks"; None if there are no such tasks.
    """
    before, after = _by_task(initial, metric), _by_task(trained, metric)
    shared = sorted(before.keys() & after.keys())
    if not shared:
        return None
    scores = np.array([[after[task] - before[task] for task in shared]])
    low, high = agents_interval(scores)
    return {
        "of": metric,
        "mean": round(float(scores.mean()), 4),
        "ci95": [round(low, 4), round(high, 4)],
        "p": round(permutation_p(scores), 4),
        "tasks": len(shared),
    }


def _by_task(rows: Sequence[Row], metric: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["outcome"] != "void":
            found.setdefault(row["task_id"], []).append(float(row[metric]))
    return {task: sum(values) / len(values) for task, values in found.items()}


def gain_lines(differences: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The differences as lines for the terminal."""
    return [
        f"trained - initial, {split}: {gain['of'].replace('_', ' ')} {gain['mean'] * 100:+.1f} points ({gain['ci95'][0] * 100:.1f} to {gain['ci95'][1] * 100:.1f}), "
        f"p = {gain['p']:.4f}, {gain['tasks']} tasks"
        for split, gain in differences.items()
    ]


def example(rows: Sequence[Row]) -> str:
    """A test task that only the trained policy solves, as both policies played it; "" if there is none.

    It is chosen for that, so it shows what has been learnt and not how often.

    Args:
        rows: Rows of `evaluation.jsonl`.
    """
    first = {(row["agent"], row["task_id"]): row for row in rows if row["split"] == "test" and row["episode"] == 0}
    for (agent, task), row in first.items():
        other = first.get(("trained", task))
        if agent == "initial" and other and row["success"] == 0 and other["success"] == 1 and row["outcome"] != "void":
            parts = (("before", row), ("after", other))
            return f"A test task that only the trained policy solves ({printable(task)}):" + "".join(
                f"\n\n--- {when}: {row['turns']} turns, outcome {printable(str(row['outcome']))}\n{_dialogue(row)}"
                for when, row in parts
            )
    return ""


def _dialogue(row: Row) -> str:
    names = {"user": "human", "assistant": "agent"}
    lines = [
        line
        for message in row["dialogue_history"]
        for line in _wrapped(names.get(message["role"], message["role"]), printable(message["content"]))
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"[{len(lines) - _MOST_LINES} more lines are in the report]"]
    return "\n".join(lines)


def _wrapped(name: str, text: str) -> list[str]:
    lines = [part for line in text.split("\n") for part in (textwrap.wrap(line, _WIDTH, replace_whitespace=False) or [""])]
    return [f"{name if i == 0 else '':>6}  {line}" for i, line in enumerate(lines)]
