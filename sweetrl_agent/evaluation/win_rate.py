"""Win rate against a recorded run: the fraction of tasks on which an agent does better (arXiv:2503.15478, Table 2, on pages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from colbench_gym.files import Row, read_rows
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.evaluation.statistics import cell_table, on_same_tasks, score_of
from sweetrl_agent.trainers.run import Run, without_endpoints

Values = dict[tuple[str, str], float]


def recorded(source: str, metric: str) -> Values:
    """Mean metric of an agent of a recorded run, by split and task.

    Args:
        source: An `evaluation.jsonl`, or FILE:AGENT if it has several agents.
        metric: Name of the metric.

    Raises:
        ColBenchError: If a line is not a JSON object.
        ValueError: If the file does not exist, has other rows, or the agent is not unique.
    """
    file, _, agent = source.rpartition(":") if not Path(source).exists() else (source, "", "")
    if not Path(file).is_file():
        raise ValueError(f"`baseline` names no file: {source!r}; give the evaluation.jsonl of a run, or FILE:AGENT.")
    every = read_rows(Path(file))
    if not all({"agent", "split", "task_id", "outcome"} <= row.keys() and _is_number(row.get(metric)) for row in every):
        raise ValueError(f"`baseline` must be the evaluation.jsonl of a run; {file!r} has other rows.")
    rows = [row for row in every if row["outcome"] != "void" and row.get(metric) is not None]
    agents = dict.fromkeys(row["agent"] for row in rows)
    if (agent not in agents) if agent else (len(agents) != 1):
        raise ValueError(f"`baseline` must name one agent of {file} as FILE:AGENT, of {tuple(agents)}; got {source!r}.")
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if not agent or row["agent"] == agent:
            values.setdefault((row["split"], row["task_id"]), []).append(float(row[metric]))
    return {key: sum(values) / len(values) for key, values in values.items()}


def refuse_other_settings(source: str, task: TaskArguments) -> None:
    """Refuse a recorded run with another environment, simulated human or limit of turns, where its settings lie beside its rows.

    Raises:
        ValueError: Names the setting.
    """
    file = source if Path(source).exists() else source.rpartition(":")[0]
    path = Path(file).parent / "config.yaml"
    there: Any = None
    with suppress(yaml.YAMLError, UnicodeDecodeError):
        there = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else None
    for name in ("env", "simulator", "max_turns") if isinstance(there, Mapping) else ():
        if name in there and without_endpoints({name: there[name]}) != without_endpoints({name: (here := getattr(task, name))}):
            raise ValueError(
                f"`baseline`: {file} was played with {name} {there[name]!r}, here it is {here!r}; win rates compare agents with the same settings."
            )


def summarize(runs: Sequence[Run], algorithms: Sequence[str], source: str) -> list[Row]:
    """For every algorithm and split: "algorithm", "split", "win_rate" (ties count one half) with "ci95", "n" tasks, "seeds", "by_seed". All algorithms are compared on the same tasks."""
    metric = runs[0].record.metric
    values = recorded(source, metric)
    rows = {
        run.seed: [
            {**row, "won": _won(float(row[metric]), values[row["split"], row["task_id"]])}
            for row in read_rows(run.path("evaluation.jsonl"))
            if row["agent"] in algorithms and row["outcome"] != "void" and (row["split"], row["task_id"]) in values
        ]
        for run in runs
    }
    splits = dict.fromkeys(split for split, _ in values)
    same = {split: on_same_tasks(rows, [{"agent": name, "split": split} for name in algorithms]) for split in splits}
    rates: list[Row] = []
    for name in algorithms:
        for split in splits:
            scores = cell_table(same[split], {"agent": name, "split": split}, "won")
            if scores.size:
                score = score_of(scores)
                rates.append({"algorithm": name, "split": split, "win_rate": score.pop("success"), **score})
    return rates


def _won(score: float, other: float) -> float:
    return 0.5 if score == other else float(score > other)


def _is_number(value: Any) -> bool:
    return value is None or type(value) in (int, float)
