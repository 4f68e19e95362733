"""Dialogues and turns that each algorithm of a comparison plays until its training episodes have a given mean return.

    PYTHONPATH=. python benchmarks/samples_to_return.py runs/maze --returns -40 -20 -10 --output benchmarks/results/maze_samples.json

An algorithm has reached a return when the mean over `--window` iterations, of the stochastic policy's own training episodes, is at least that return. Continuations of
VinePPO count as played dialogues and turns. One number per seed; null if the training ended before.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from colbench_gym.files import read_rows

#: What is counted, by its column in metrics.jsonl, where it is a running total.
AMOUNTS = ("episodes", "environment_turns")


def reached(rows: Sequence[Mapping[str, Any]], least: float, window: int) -> dict[str, int] | None:
    """The amounts at the first iteration with a mean return of at least `least`; None if there is none.

    Args:
        rows: The iterations of one training, with "return" and `AMOUNTS`.
        least: The return to reach.
        window: Iterations whose returns are averaged, the current one the last.
    """
    for end in range(window, len(rows) + 1):
        if sum(row["return"] for row in rows[end - window : end]) / window >= least:
            return {name: int(rows[end - 1][name]) for name in AMOUNTS}
    return None


def of_comparison(folder: Path, returns: Sequence[float], window: int) -> dict[str, dict[str, list[dict[str, int] | None]]]:
    """By algorithm and return, what each seed of a comparison's folder needed."""
    found: dict[str, dict[str, list[dict[str, int] | None]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("seed_*/metrics.jsonl")):
        by_stage: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in read_rows(path):
            if "return" in row and "environment_turns" in row:
                by_stage[row["stage"]].append(row)
        for stage, rows in by_stage.items():
            for least in returns:
                found[stage][f"{least:g}"].append(reached(rows, least, window))
    return {stage: dict(by_return) for stage, by_return in found.items()}


def line(stage: str, least: str, seeds: Sequence[Mapping[str, int] | None]) -> str:
    """One line of the table: the medians over the seeds that reached the return, and how many did."""
    there = [amounts for amounts in seeds if amounts]
    middle = "".join(f"{median(amounts[name] for amounts in there):18,.0f}" if there else f"{'-':>18}" for name in AMOUNTS)
    return f"{stage:12} {least:>7} {middle}   {len(there)} of {len(seeds)} seeds"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write the file; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--returns", type=float, nargs="+", required=True)
    parser.add_argument("--window", type=int, default=3, help="iterations whose returns are averaged")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    found = of_comparison(given.folder, given.returns, given.window)
    print(f"{'algorithm':12} {'return':>7} {''.join(f'{name:>18}' for name in AMOUNTS)}")
    for stage, by_return in found.items():
        print("\n".join(line(stage, least, seeds) for least, seeds in by_return.items()))
    if given.output:
        given.output.write_text(json.dumps({"window": given.window, "algorithms": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
