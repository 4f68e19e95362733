"""An evaluation: plays the missing episodes of every policy, split and seed, and computes the results from their rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colbench_gym.evaluation.folder import RESULTS, ROWS, Cell, EvaluationFolder, Settings
from colbench_gym.evaluation.prices import Prices, check_limit
from colbench_gym.evaluation.rows import Key, Player
from colbench_gym.evaluation.summary import SCHEMA, differences, scores, used
from colbench_gym.evaluation.table import table
from colbench_gym.files import Row, write_text
from colbench_gym.outside_text import printable
from colbench_gym.progress import progress_file, tell_stage
from colbench_gym.servers.usage import USAGE, Meter, metered_command

#: Players of a policy on a split, by seed.
Players = Callable[[int], Player]
#: Adds to the results what they say beyond the rows' means: rows, results.
Explain = Callable[[Sequence[Row], dict[str, Any]], object]


@dataclass(frozen=True)
class EvaluatedPolicy:
    """A policy that can be played.

    Attributes:
        name: Its name in the results.
        about: What it is, in words, for the plan.
        settings: What its rows depend on, for `settings.json`: "policy" and, if it has one, its "model" and how that samples.
        inputs: What its rows depend on, by input names (`colbench_gym.digests`).
        open: Opens its players on a split, by its name; closed after the last seed. Opened only if episodes are left.
        served: Name of its model in the prices, where it is on a server; "" for none.
    """

    name: str
    about: str
    settings: Mapping[str, Any]
    inputs: Sequence[str]
    open: Callable[[str], AbstractContextManager[Players]]
    served: str = ""


@dataclass(frozen=True)
class Split:
    """Tasks of an evaluation.

    Attributes:
        source: Their source, as it was named.
        full_name: The same for `settings.json`, with its defaults filled in.
        tasks: The tasks, each with an `id`.
        inputs: Files that they are read from, by input names.
    """

    source: str
    full_name: str
    tasks: Sequence[Any]
    inputs: Sequence[str] = ()


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated.

    Attributes:
        folder: The folder of its files.
        env: Id of the environment.
        metric: Name of its metric.
        success_means: When an episode is a success, in words.
        policies: The policies.
        splits: The tasks, by the name of their split.
        seeds: Seeds of the episodes.
        episodes: Episodes of a task with a seed.
        fixed: Settings that all rows depend on.
        versions: Versions of packages.
        human: Name of the simulated human's model; "" if it is not a model.
        prices: Price of every model; {} for none.
        max_cost: Largest cost of the requests to model servers, by the prices; 0 for no limit.
        redo: Policies, or names of cells, whose episodes are played again.
        replay_void: Whether void episodes are played again.
        max_void: Share of void episodes in a cell above which it stops.
        files: Further files of the folder, by name, which are written before anything is played.
    """

    folder: Path
    env: str
    metric: str
    success_means: str
    policies: Sequence[EvaluatedPolicy]
    splits: Mapping[str, Split]
    seeds: Sequence[int]
    episodes: int
    fixed: Mapping[str, Any]
    versions: Mapping[str, Any]
    human: str = ""
    prices: Prices = field(default_factory=dict)
    max_cost: float = 0.0
    redo: Sequence[str] = ()
    replay_void: bool = False
    max_void: float = 1.0
    files: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a limit of costs that cannot be kept."""
        check_limit(self.max_cost, self.prices, [self.human, *(policy.served for policy in self.policies)])

    @property
    def meter(self) -> Meter:
        """Counts the requests to model servers in the folder."""
        served = [policy.served for policy in self.policies if policy.served]
        return Meter(self.folder / USAGE, self.prices, self.max_cost, served)

    @property
    def settings(self) -> Settings:
        """What the rows depend on, for `settings.json`."""
        return {
            "evaluation": dict(self.fixed),
            "policies": {policy.name: dict(policy.settings) for policy in self.policies},
            "tasks": {name: split.full_name for name, split in self.splits.items()},
        }

    def folder_of(self) -> EvaluationFolder:
        """Its folder, as it is now; see there for errors."""
        cells = [
            Cell(policy.name, name, seed, (*split.inputs, *policy.inputs))
            for policy in self.policies
            for name, split in self.splits.items()
            for seed in self.seeds
        ]
        return EvaluationFolder(self.folder, self.settings, cells, self.redo)

    @property
    def count(self) -> int:
        """Number of episodes of each policy."""
        return sum(len(split.tasks) for split in self.splits.values()) * self.episodes * len(self.seeds)


def evaluate(evaluation: Evaluation, explain: Explain | None = None) -> dict[str, Any]:
    """Play the missing episodes and write `results.json`; returns its content. The folder must be locked.

    Args:
        evaluation: What is evaluated.
        explain: Adds to the results before they are written.

    Raises:
        ColBenchError: If a service fails; the same command resumes.
        ValueError: If the folder has rows of other settings.
    """
    folder = evaluation.folder_of()
    folder.prepare(evaluation.replay_void)
    for name, text in evaluation.files.items():
        write_text(evaluation.folder / name, text)
    with progress_file(evaluation.folder), metered_command(evaluation.meter):
        _play(evaluation, folder)
    rows = folder.rows(evaluation.metric)
    results = _results(evaluation, rows, folder.settings)
    if explain is not None:
        explain(rows, results)
    folder.write_results(results)
    return results


def _play(evaluation: Evaluation, folder: EvaluationFolder) -> None:
    for policy in evaluation.policies:
        for name, split in evaluation.splits.items():
            left = folder.left(policy.name, name)
            if not left:
                print(f"{printable(policy.name)}, {name}: every episode was played by an earlier command", file=sys.stderr)
            else:
                keys = [Key(task.id, index) for task in split.tasks for index in range(evaluation.episodes)]
                with policy.open(name) as players:
                    for cell in left:
                        tell_stage(cell.name)
                        with folder.recorded(cell) as file:
                            file.play(keys, players(cell.seed), cell.name, evaluation.max_void, evaluation.replay_void)


def _results(evaluation: Evaluation, rows: Sequence[Row], settings: Settings) -> dict[str, Any]:
    """The content of `results.json`.

    Args:
        evaluation: What is evaluated.
        rows: All rows of the folder.
        settings: Settings of the folder.

    Returns:
        By name of the agent and split the scores (`summary.summarize`, `summary.used`); and "schema", "environment", "metric",
        "success_means", "tasks", "seeds", "episodes" per task and seed, "policies", "differences", "versions" and, if given, "prices".
    """
    metric, prices = evaluation.metric, evaluation.prices
    results = scores(rows, settings["policies"], list(settings["tasks"]), metric)
    for agent, by_split in results.items():
        model = settings["policies"][agent].get("model", "")
        for split, score in by_split.items():
            played = [row for row in rows if (row["agent"], row["split"]) == (agent, split)]
            score |= used(played, model, evaluation.human, prices)
    shown = {model: dict(zip(("input", "output"), pair, strict=True)) for model, pair in prices.items()}
    return results | {
        "schema": SCHEMA,
        "environment": evaluation.env,
        "metric": metric,
        "success_means": evaluation.success_means,
        "tasks": settings["tasks"],
        "seeds": sorted({row["seed"] for row in rows}),
        "episodes": evaluation.episodes,
        "policies": settings["policies"],
        "differences": differences(rows, metric),
        **({"prices": shown} if shown else {}),
        "versions": dict(evaluation.versions),
    }


def plan(evaluation: Evaluation) -> tuple[list[str], dict[str, int]]:
    """What would be played, as lines for the screen, and the number of episodes that each policy has left.

    Raises:
        ColBenchError, ValueError: As `evaluate`, as far as it can be known before anything is played.
    """
    folder = evaluation.folder_of()
    done = folder.count_rows(evaluation.metric)
    left = {policy.name: max(0, evaluation.count - done[policy.name]) for policy in evaluation.policies}
    human, seeds = evaluation.fixed["simulator"], " ".join(map(str, evaluation.seeds))
    lines = [
        *(f"policy     {policy.name}: {policy.about}" for policy in evaluation.policies),
        *(
            f"tasks      {name}: {len(split.tasks)} of {split.source}; human: {human}"
            for name, split in evaluation.splits.items()
        ),
        f"episodes   {evaluation.count} of each policy, seeds {seeds}; {evaluation.env}",
        *(f"again      {name}: {why}" for name, why in folder.invalid.items()),
        f"left       {sum(left.values())} episodes in {evaluation.folder}",
    ]
    return [printable(line) for line in lines], left


def result_lines(results: Mapping[str, Any], folder: Path) -> list[str]:
    """The results as lines for the screen: the table, void episodes, and where the files are."""
    scores = [score for name in results["policies"] for score in results.get(name, {}).values()]
    void, played = sum(score["void"] for score in scores), sum(score["void"] + score["n"] for score in scores)
    lines = [table(results)]
    if void:
        lines += [f"\n{void} of {played} episodes are void: counted, and in no mean. `--replay_void true` plays them again."]
    return [*lines, f"\nresults: {folder / RESULTS}\nrows:    {folder / ROWS}"]
