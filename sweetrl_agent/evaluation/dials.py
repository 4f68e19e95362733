"""The same algorithms on tasks of other dials: when does turn-level credit help?

Each dial is a comparison of its own, in a folder of its own; its results stand beside those of this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweetrl_agent.data.files import Row, read_object
from sweetrl_agent.envs.registry import find_record

NUMBERS = ("success", "n", "seeds", "by_seed", "ci95")


def read_results(folder: str) -> dict[str, Any]:
    """What a comparison found.

    Raises:
        ColBenchError: If its results.json is no JSON object.
        ValueError: If the folder holds none, or one from before tasks had dials.
    """
    path = Path(folder) / "results.json"
    if not path.is_file():
        raise ValueError(f"`dials` names folders of comparisons, each with a results.json; {folder!r} has none.")
    found = read_object(path)
    if not {"tasks", "algorithms", "paired"} <= found.keys():
        raise ValueError(f"{path} does not say which tasks it is about; make that comparison again.")
    return found


def summarize(every: Sequence[Mapping[str, Any]]) -> list[Row]:
    """A row for each comparison, in the order given: its dial's "name" and "tasks", and for each algorithm its numbers on the test split."""
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
    """The dial's name, and the turns where `max_turns` took the place of the dial's own."""
    settings = results["settings"]
    record = find_record(settings.get("env", ""), settings.get("env_record", ""))
    name, turns = record.level(results["tasks"]["train"]), settings.get("max_turns")
    return f"{name}, {turns} turns" if turns else name
