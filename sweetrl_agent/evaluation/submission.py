"""A comparison as an entry of the leaderboard: what others need to judge it and to run it again. `compare --submit FILE` writes one.

An entry is a file in `benchmarks/leaderboard/`. `docs/leaderboard.md` is generated from all of them. A test checks each, as `compare` does (`refuse_entry`).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.algorithms.registry import specification
from sweetrl_agent.algorithms.settings import make_config, with_defaults_of_environment
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.model import TINY
from sweetrl_agent.config.reading import flat
from sweetrl_agent.evaluation.checks import seed_numbers

SCHEMA = 1
#: Fewest seeds of a trained algorithm.
FEWEST_SEEDS = 3
#: Costs that an entry has of an algorithm, means over its seeds.
BUDGET = ("dialogues", "generated_tokens", "scored_tokens", "trained_tokens")
#: Settings that change no result, or are in the entry by other names.
_LEFT_OUT = (
    "output",
    "seed",
    "threads",
    "dry_run",
    "log_level",
    "callbacks",
    "redo",
    "ray_workers",
    "ray_address",
    "initial_policy",
)
#: Settings on which the defaults of others depend.
_DECIDING = ("env", "env_kwargs", "env_record", "model", "demonstrations")
_FIELDS = {
    "schema": int,
    "environment": str,
    "metric": str,
    "tasks": dict,
    "algorithms": dict,
    "command": str,
    "commit": str,
    "versions": dict,
}


def entry(results: Mapping[str, Any], given: CompareArguments, config: Config) -> dict[str, Any]:
    """The entry of a finished comparison.

    Args:
        results: The content of its results.json.
        given: Its settings.
        config: Those of the main job.
    """
    metric = results["metric"]
    names = ["success", *([metric] if metric not in ("success", "tests_passed") else [])]
    ledgers = list(results["ledger"].values())
    algorithms = {}
    for name, by_split in results["algorithms"].items():
        scores = {
            split: {
                "n": score["n"], "seeds": score["seeds"], **{one: {"mean": score[one], "ci95": score["ci95"][one]} for one in names}
            }
            for split, score in by_split.items()
        }  # fmt: skip
        budget = {kind: round(sum(of[name][kind] for of in ledgers) / len(ledgers)) for kind in BUDGET}
        algorithms[name] = {"title": config.algorithms[name].title, "scores": scores, "budget": budget}
    return {
        "schema": SCHEMA,
        "environment": config.task.env,
        "metric": names[-1],
        "tasks": results["tasks"],
        "algorithms": algorithms,
        "command": command(given, config),
        "commit": str(results["versions"].get("git_commit", "")),
        "versions": {name: value for name, value in results["versions"].items() if name != "git_commit"},
    }


def command(given: CompareArguments, config: Config) -> str:
    """The command that runs a comparison again: its algorithms and seeds, its environment, and every setting that is not a default there."""
    used = flat(config.settings())
    deciding = {name: used[name] for name in _DECIDING if used[name]}
    defaults = flat(make_config(with_defaults_of_environment(deciding), [*config.algorithms]).settings())
    defaults |= {**dict.fromkeys(_DECIDING, ""), "model": TINY}
    seeds = seed_numbers(given.seeds, config.run.seed)
    counted = [len(seeds)] if seeds == [*range(len(seeds))] else seeds
    words = ["python", "-m", "sweetrl_agent.compare", "--algorithms", *map(specification, given.algorithms)]
    words += ["--seeds", *map(str, counted)]
    for name, value in {**deciding, **used}.items():
        if value != defaults.get(name) and name not in _LEFT_OUT:
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}", *(str(one).lower() if isinstance(one, bool) else str(one) for one in values)]
    return shlex.join(words)


def refuse_submission(seeds: Sequence[int], commit: str) -> None:
    """Refuse before its run a comparison that can have no entry.

    Args:
        seeds: Its seeds.
        commit: The commit of the package, "" if unknown.

    Raises:
        ValueError: Says what to change.
    """
    if len(seeds) < FEWEST_SEEDS:
        raise ValueError(f"`submit`: an entry has at least {FEWEST_SEEDS} seeds, got {len(seeds)}: --seeds {FEWEST_SEEDS}.")
    if not commit or "dirty" in commit:
        has = (
            "tracked files have changed: commit them"
            if commit
            else "the package is not in a git checkout: clone the repository and install it with `pip install -e .`"
        )
        raise ValueError(f"`submit`: an entry names the commit that others can run, and {has}.")


def refuse_entry(row: Any) -> None:
    """Refuse an entry that is not complete, or whose numbers cannot be.

    Args:
        row: The content of its file.

    Raises:
        ColBenchError: Names the field and what is wrong.
    """
    if not isinstance(row, Mapping):
        raise ColBenchError(f"An entry is a mapping, got {type(row).__name__}.")
    for name, kind in _FIELDS.items():
        if not isinstance(row.get(name), kind) or not row[name]:
            raise ColBenchError(f"An entry has {name!r}, a {kind.__name__} that is not empty, got {row.get(name)!r}.")
    if row["schema"] != SCHEMA or "dirty" in row["commit"]:
        raise ColBenchError(
            f"An entry has the schema {SCHEMA} and a commit without changes, got {row['schema']} and {row['commit']!r}."
        )
    for name, algorithm in row["algorithms"].items():
        for split, score in algorithm["scores"].items():
            where = f"{name!r} on {split!r}"
            if score["n"] < 1 or score["seeds"] < FEWEST_SEEDS:
                raise ColBenchError(
                    f"{where}: an entry has at least one task and {FEWEST_SEEDS} seeds, got {score['n']} and {score['seeds']}."
                )
            for metric in dict.fromkeys(["success", row["metric"]]):
                _refuse_number(score[metric]["mean"], score[metric]["ci95"], f"{where}, {metric!r}")
        if {*algorithm["budget"]} != {*BUDGET} or any(value < 0 for value in algorithm["budget"].values()):
            raise ColBenchError(f"{name!r}: the budget has {', '.join(BUDGET)}, none below 0, got {algorithm['budget']}.")


def _refuse_number(mean: float, ci95: Sequence[float], where: str) -> None:
    low, high = ci95
    if not all(map(math.isfinite, (mean, low, high))) or not low <= mean <= high:
        raise ColBenchError(f"{where}: a mean lies in its interval, got {mean} and {low} to {high}.")
