"""Evaluation with other simulators: the same agents with other user simulators than the one in training.

A ranking of algorithms that holds for only one simulator says little about real users. For every other simulator this reports the success of
every agent, the length of replies, the fraction of the hidden code that is leaked, and whether the ranking of the algorithms is the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from colbench_gym.files import Row, read_rows
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.evaluation.held_out import record
from sweetrl_agent.evaluation.statistics import Scores, cell_table, on_same_tasks, score_of
from sweetrl_agent.trainers.run import Run

ROWS = "simulators.jsonl"


def simulator_spec(name: str, record: EnvironmentRecord) -> Any:
    """Specification of a simulated human: a name of the record's `simulators`, a name of a simulator, or JSON.

    Args:
        name: The name or JSON.
        record: Record of the environment.

    Raises:
        ValueError: If it is none of these.
    """
    if name in record.simulators:
        return record.simulators[name]
    try:
        spec = parsed(name)
        record.make_simulator(spec).close()
    except (ValueError, TypeError, RecursionError) as error:
        shown = "JSON" if name.lstrip().startswith("{") else repr(name[:200])  # JSON may contain a password
        raise ValueError(
            f"`simulators` takes {tuple(record.simulators)}, names of simulators or JSON, got {shown}: {error}"
        ) from None
    return spec


def parsed(name: str) -> Any:
    """A name, or the mapping that JSON stands for."""
    return json.loads(name) if name.lstrip().startswith("{") else name


def evaluate_with_simulators(run: Run, algorithms: Sequence[str], simulators: Sequence[str], num_tasks: int) -> None:
    """Play episodes of every agent on the first test tasks with every simulator; writes simulators.jsonl. Uses the evaluation's seeds."""
    for simulator in simulators:
        for name in algorithms:
            label = {"simulator": simulator, "agent": name, "tasks": num_tasks}
            load = run.config.algorithms[name].loader(run)
            spec = simulator_spec(simulator, run.record)
            record(run, run.path(ROWS), label, run.test[:num_tasks], load, "evaluate test", simulator=spec)


def summarize(runs: Sequence[Run], algorithms: Sequence[str], simulators: Sequence[str], num_tasks: int) -> dict[str, Any]:
    """Effect of the simulator, on the tasks that no agent lost with any. The first simulator is the run's own, from the evaluation.

    Returns:
        "cells": for every simulator and algorithm "success" with "ci95", "n", "seeds", "turns", "reply_chars" (mean length of a reply)
        and "leak" (fraction of the hidden code in the replies). "rankings": for every simulator the algorithms, best first, and
        Kendall's tau of their success with the first simulator's. "variance": shares of the variance of success (means by
        algorithm, simulator and seed) explained by the algorithm, the simulator, the seed, the interaction of algorithm and simulator
        (changes of ranking), and the rest. "void": simulators that failed in every episode of an agent and seed, which are excluded.
    """
    training_human = f"{runs[0].config.task.simulator} (of the training)"
    rows = {
        run.seed: [
            *_rows_of_evaluation(run, training_human, num_tasks),
            *(row for row in read_rows(run.path(ROWS)) if row["tasks"] == num_tasks),
        ]
        for run in runs
    }
    simulators = [training_human, *simulators]
    rows = on_same_tasks(rows, [{"simulator": simulator, "agent": name} for simulator in simulators for name in algorithms])

    def table(simulator: str, name: str, metric: str = "success") -> Scores:
        return cell_table(rows, {"simulator": simulator, "agent": name}, metric)

    heard = [simulator for simulator in simulators if all(table(simulator, name).size for name in algorithms)]
    cells = [
        {
            "simulator": simulator,
            "algorithm": name,
            **score_of(table(simulator, name)),
            **{metric: round(float(table(simulator, name, metric).mean()), 4) for metric in ("turns", "reply_chars", "leak")},
        }
        for simulator in heard
        for name in algorithms
    ]
    means = np.array([[table(simulator, name).mean(axis=1) for name in algorithms] for simulator in heard])
    rankings = [
        {
            "simulator": simulator,
            "best_first": [algorithms[i] for i in np.argsort(-by_name.mean(axis=1), kind="stable")],
            "tau": _tau(means[0].mean(axis=1), by_name.mean(axis=1)),
        }
        for simulator, by_name in zip(heard, means, strict=True)
    ]
    shares = variance_shares(means.swapaxes(0, 1)) if heard else {}
    return {"cells": cells, "rankings": rankings, "variance": shares, "void": [s for s in simulators if s not in heard]}


def _rows_of_evaluation(run: Run, simulator: str, num_tasks: int) -> list[Row]:
    """The evaluation's rows on the same tasks."""
    tasks = {task.id for task in run.test[:num_tasks]}
    rows = read_rows(run.path("evaluation.jsonl"))
    return [{**row, "simulator": simulator} for row in rows if row["split"] == "test" and row["task_id"] in tasks]


def variance_shares(means: Any) -> dict[str, float]:
    """Shares of the sum of squares of a table by algorithm, simulator and seed; they sum to 1 (all 0 if nothing varies)."""
    centred = means - means.mean()
    total = float((centred**2).sum())
    effects = {}
    for axis, name in enumerate(("algorithm", "simulator", "seed")):
        others = tuple(a for a in range(3) if a != axis)
        effects[name] = float((centred.mean(axis=others) ** 2).sum() * centred.size / centred.shape[axis])
    pairs = centred.mean(axis=2)
    both = float((pairs**2).sum() * centred.shape[2])
    effects["algorithm x simulator"] = both - effects["algorithm"] - effects["simulator"]
    effects["rest"] = total - both - effects["seed"]
    return {name: round(value / total, 4) if total else 0.0 for name, value in effects.items()}


def _tau(first: Any, other: Any) -> float | None:
    """Kendall's tau; None if it is undefined because all values are equal."""
    from scipy import stats  # takes a second to load

    if len(first) < 2:
        return None
    tau = float(stats.kendalltau(first, other).statistic)
    return None if np.isnan(tau) else round(tau, 4)
