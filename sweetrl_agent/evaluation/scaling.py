"""Data scaling: success of each algorithm trained on the first n trajectories of a seed (arXiv:2503.15478, Figure 3b)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from colbench_gym.files import Row, read_rows, write_rows
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.evaluation.statistics import cell_table, on_same_tasks, score_of
from sweetrl_agent.trainers.run import Run


def scaled_run(run: Run, trajectories: int, steps: Mapping[str, Stage]) -> Run:
    """A run in a subfolder of `run`'s, with the same initial policy and the first trajectories, in whole tasks.

    Args:
        run: The run.
        trajectories: Number of trajectories.
        steps: The steps that the smaller run has.

    Raises:
        ValueError: If the run has fewer trajectories.
    """
    config = run.config
    per_task = config.collect.trajectories_per_task
    rows = read_rows(run.path("trajectories.jsonl"))
    if not per_task <= trajectories <= len(rows):
        raise ValueError(f"`scaling` takes counts from {per_task} to {len(rows)} trajectories, got {trajectories}.")
    num_tasks = trajectories // per_task
    folder = run.path(f"scale_{trajectories}")
    folder.mkdir(parents=True, exist_ok=True)
    small = Run(
        replace(
            config,
            run=replace(config.run, output=str(folder), redo=[name for name in config.run.redo if name in steps]),
            collect=replace(config.collect, num_tasks=num_tasks),
        )
    )
    small.prepare(steps.values(), small.find_invalid(steps.values()))
    for stage in _shared(run, small, rows[: num_tasks * per_task]):
        if not small.is_done(stage.name):
            with small.stage(stage):
                stage.run(small)
    return small


def _shared(run: Run, small: Run, rows: Sequence[Row]) -> tuple[Stage, Stage]:
    """The first two stages of the smaller run, which take the files of the other."""

    def link(_: Run) -> None:
        small.path("initial").unlink(missing_ok=True)
        if run.config.has_sft:
            os.symlink(os.path.relpath(run.path("initial"), small.folder), small.path("initial"))

    def cut(_: Run) -> None:
        write_rows(small.path("trajectories.jsonl"), rows)

    return (
        replace(STAGES["sft"], reads=("../initial/",), inputs=(), work=link),
        replace(STAGES["collect"], reads=("../trajectories.jsonl", "initial/"), inputs=(), work=cut),
    )


def summarize(runs: Sequence[Run], algorithms: Sequence[str], counts: Sequence[int]) -> list[Row]:
    """For every algorithm and count: "algorithm", "trajectories", "success" with "ci95", "n" and "seeds", on the test tasks that are void for none."""
    collected = len(read_rows(runs[0].path("trajectories.jsonl")))
    folders = {count: [run.path(f"scale_{count}") for run in runs] for count in counts} | {
        collected: [run.folder for run in runs]
    }
    rows: dict[int, list[Row]] = {run.seed: [] for run in runs}
    for count, of_count in folders.items():
        for run, folder in zip(runs, of_count, strict=True):
            rows[run.seed] += [{**row, "count": count} for row in read_rows(folder / "evaluation.jsonl")]
    cells = [{"agent": name, "split": "test", "count": count} for count in folders for name in algorithms]
    same = on_same_tasks(rows, cells)
    tables = [(cell["agent"], cell["count"], cell_table(same, cell)) for cell in cells]
    return [
        {"algorithm": name, "trajectories": count, **score_of(scores)}
        for name, count, scores in tables
        if scores.size  # empty if every episode of a seed is void
    ]
