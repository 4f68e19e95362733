"""The same algorithms on tasks at other dials (difficulty settings): when does turn-level credit help?

Each dial is a separate comparison in its own folder; the results are shown next to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colbench_gym.files import Row, read_object
from sweetrl_agent.envs.registry import find_record

NUMBERS = ("success", "n", "seeds", "by_seed", "ci95")


def read_results(folder: str) -> dict[str, Any]:
    """Read the results of a comparison.

    Raises:
        ColBenchError: If its results.json is not a JSON object.
        ValueError: If the folder has no results.json, or one without the tasks' dial (from an older version).
    """
    path = Path(folder) / "results.json"
    if not path.is_file():
        raise ValueError(f"`dials` must be folders of comparisons, each with a results.json; {folder!r} has none.")
    found = read_object(path)
    if not {"tasks", "algorithms", "paired"} <= found.keys():
        raise ValueError(f"{path} does not name its tasks; run that comparison again.")
    return found


def summarize(every: Sequence[Mapping[str, Any]]) -> list[Row]:
    """A row for each comparison, in the given order: its dial's "name" and "tasks", and the results of each algorithm on the test split."""
    return [
        {
            "name": _name(results),
            "tasks": results["tasks"]["test"],
            "algorithms": {
                name: {number: splits["test"][number] for number in NUMBERS} for name, splits in results["algorithms"].items()
            },
            "paired": [row for row in results["paired"] if row["split"] == "test"],
        }
        for results in every
    ]


def _name(results: Mapping[str, Any]) -> str:
    """The dial's name, with the limit of turns if `max_turns` overrides the dial's own."""
    settings = results["settings"]
    record = find_record(settings.get("env", ""), settings.get("env_record", ""))
    name, turns = record.level(results["tasks"]["train"]), settings.get("max_turns")
    return f"{name}, {turns} turns" if turns else name
