"""Parts of the leaderboard's page: cells, numbers of tasks, and how the command of an entry is tested."""

from __future__ import annotations

import re
from typing import Any


def task_counts(scores: dict[str, Any]) -> str:
    """The number of tasks of every split."""
    counts = {split: score["n"] for split, score in scores.items()}
    if len({*counts.values()}) == 1:
        return f"{next(iter(counts.values()))} tasks a split"
    return " and ".join(f"{count} {split}" for split, count in counts.items()) + " tasks"


def how_tested(command: str) -> str:
    """How a command of an entry is tested: one that names modules ("module:NAME") needs their package, which is not installed here."""
    names = [
        word
        for word in command.split()
        if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.-]*", word) and not word.startswith(("embedded:", "seeds:"))
    ]
    return "skip needs the package of " + names[0] if names else "dry_run"


def score_cell(of: dict[str, Any], metric: str) -> str:
    """A mean with its 95% interval: success in percent, any other metric as it is."""
    low, high = of["ci95"]
    return (
        f"{of['mean']:.1%} ({low:.1%} to {high:.1%})" if metric == "success" else f"{of['mean']:.2f} ({low:.2f} to {high:.2f})"
    )
