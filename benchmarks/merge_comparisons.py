"""Results of algorithms that were compared in several runs, as of one comparison.

    python benchmarks/merge_comparisons.py runs/a:bc,ilql runs/b:token_ppo --output benchmarks/results/both.json

All runs have the same environment, tasks, seeds and initial policies: an algorithm that two of them have must have played the same episodes in both, and
at least one such algorithm links each run to the first.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sweetrl_agent.data.files import Row
from sweetrl_agent.evaluation.comparison import compare_scores
from sweetrl_agent.evaluation.evaluate import read_evaluation

#: What is kept of a run's results.json.
KEPT = ("settings", "versions", "tasks", "ledger", "success_means")


def merged(folders: dict[Path, list[str]]) -> dict[str, Any]:
    """Results of the given algorithms of each folder.

    Raises:
        ValueError: If a run shares no algorithm with the first, or has played it otherwise.
    """
    results = {folder: json.loads((folder / "results.json").read_text(encoding="utf-8")) for folder in folders}
    first = next(iter(folders))
    metric = results[first]["metric"]
    rows = {folder: _rows(folder, metric) for folder in folders}
    seeds = rows[first].keys()
    for folder in folders:
        common = sorted(results[first]["algorithms"].keys() & results[folder]["algorithms"].keys())
        if not common or rows[folder].keys() != seeds:
            raise ValueError(f"{folder} must have the seeds of {first} and an algorithm of it.")
        for seed in seeds:
            if _of(rows[folder][seed], common[:1]) != _of(rows[first][seed], common[:1]):
                raise ValueError(f"{common[0]!r} of seed {seed} played other episodes in {folder} than in {first}.")
    evaluations = {seed: [row for folder, names in folders.items() for row in _of(rows[folder][seed], names)] for seed in seeds}
    runs = {
        folder.name: {"algorithms": names, **{name: results[folder][name] for name in KEPT if name in results[folder]}}
        for folder, names in folders.items()
    }
    for run in runs.values():
        run["settings"] = {name: without_folder(value) for name, value in run["settings"].items()}
    return {**compare_scores(evaluations, metric), "runs": runs}


def _rows(folder: Path, metric: str) -> dict[int, list[Row]]:
    return {
        int(path.parent.name.removeprefix("seed_")): list(read_evaluation(path, metric))
        for path in sorted(folder.glob("seed_*/evaluation.jsonl"))
    }


def without_folder(value: Any) -> Any:
    """A setting; of a path on this machine, such as a file of demonstrations, its last part."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _of(rows: list[Row], names: list[str]) -> list[Row]:
    return [row for name in names for row in rows if row["agent"] == name]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="FOLDER:ALGORITHM,...")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--note", default="", help="commands and machine, written into the file")
    given = parser.parse_args()
    folders = {Path(folder): names.split(",") for folder, _, names in (text.rpartition(":") for text in given.runs)}
    results = {"note": given.note, **merged(folders)}
    given.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
