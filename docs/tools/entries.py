"""Parts of tables: cells and numbers of tasks of the leaderboard, how the command of an entry is tested, rows of credit accuracy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median
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


def credit_row(title: str, of: dict[str, Any], has_marginal: bool) -> tuple[str, ...]:
    """Credit accuracy of a rule on a split: pairs ranked rightly by the exact (and the marginal) advantage, rank correlation, and the cost of a candidate."""

    def share(row: dict[str, Any]) -> str:
        return "{:.0%} ({:.0%} to {:.0%})".format(row["mean"], *row["ci95"])

    marginal, cost = of.get("marginal", {}).get("pair_accuracy"), of["cost"]
    costs = ("-" if cost[name] is None else f"{cost[name]:.3g}" for name in ("passes", "environment_steps", "generated_tokens"))
    return (
        title, share(of["pair_accuracy"]), ", ".join(f"{mean:.0%}" for mean in of["pair_accuracy"]["by_seed"]),
        *([share(marginal) if marginal else ""] if has_marginal else []), f"{of['rank_correlation']['mean']:.2f}", *costs,
    )  # fmt: skip


def needed_cell(seeds: Sequence[dict[str, int] | None]) -> str:
    """The medians of what the seeds needed that reached a return, and how many did if not all."""
    there = [seed for seed in seeds if seed]
    if not there:
        return "not reached"
    dialogues, turns = (median(seed[name] for seed in there) for name in ("episodes", "environment_turns"))
    return f"{dialogues:,.0f} ({turns:,.0f})" + (f", {len(there)} of {len(seeds)} seeds" if len(there) < len(seeds) else "")
