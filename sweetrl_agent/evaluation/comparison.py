"""Results of a comparison: scores of every algorithm on the same tasks and seeds, paired differences, intervals and tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from colbench_gym.evaluation.rows import read_evaluation
from colbench_gym.evaluation.summary import COUNTS, links
from colbench_gym.evaluation.table import count_lines, left_out, shown_pairs
from colbench_gym.files import Row
from colbench_gym.scoring.intervals import SHARES, holm
from sweetrl_agent.algorithms.registry import ON_DISCRETE, scaled, titles
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.data.machine import versions
from sweetrl_agent.evaluation import best_of_n, credit_accuracy, dials, scaling, simulators, win_rate
from sweetrl_agent.evaluation.costs import ledger
from sweetrl_agent.evaluation.failures import failures_of, summarize_failures
from sweetrl_agent.evaluation.statistics import (
    Components,
    Scores,
    agents_interval,
    algorithm_interval,
    components,
    permutation_p,
    score_interval,
    share_difference_interval,
    task_table,
    tasks_needed,
    tasks_of,
)
from sweetrl_agent.evaluation.wishes import summarize_wishes
from sweetrl_agent.reporting.numbers import measure
from sweetrl_agent.trainers.run import Run

#: Rows of `evaluation.jsonl`, by seed.
Evaluations = Mapping[int, Sequence[Row]]


def _of_split(evaluations: Evaluations, split: str) -> list[tuple[int, Row]]:
    return [(seed, row) for seed, rows in evaluations.items() for row in rows if row["split"] == split]


def kept_tasks(evaluations: Evaluations, split: str) -> set[str]:
    """Ids of the tasks of a split that every algorithm has played on every seed, and that are void for none: all are evaluated on the same tasks."""
    agents = {row["agent"] for _, row in _of_split(evaluations, split)}
    return set.intersection(*(tasks_of(evaluations, {"agent": agent, "split": split}) for agent in agents))


def tables(
    evaluations: Evaluations, split: str, metrics: Sequence[str] = ("success", "tests_passed")
) -> dict[str, dict[str, Scores]]:
    """Scores of every algorithm on the kept tasks of one split by metric, each shape (S, T): mean over a task's episodes, rows by seed, columns by task."""
    of_split = _of_split(evaluations, split)
    names, kept = dict.fromkeys(row["agent"] for _, row in of_split), kept_tasks(evaluations, split)
    by_name: dict[str, dict[int, list[Row]]] = {name: {seed: [] for seed in evaluations} for name in names}
    for seed, row in of_split:
        if row["task_id"] in kept:
            by_name[row["agent"]][seed].append(row)
    return {metric: {name: task_table(own, metric) for name, own in by_name.items() if kept} for metric in metrics}


def compare_scores(evaluations: Evaluations, metric: str = "tests_passed") -> dict[str, Any]:
    """All results of a comparison except the ledger of costs.

    Args:
        evaluations: Rows of episodes by seed.
        metric: The metric besides success: "tests_passed", or "similarity" for pages.

    Returns:
        "metric": its name. "algorithms": name -> split -> "success", the metric (means in [0, 1]), "n" (tasks), "seeds", both means "by_seed" and "metric_by_seed", and 95% intervals: "ci95" for
        the algorithm (over runs and tasks) and "ci95_agents" for the trained agents (over tasks); "links" locates failures of dialogues; "silent_turns", "cut_turns" and "answer_cut" where they are not 0.
        "paired": for every pair of algorithms and every split the "difference" of success (a minus b on the same task and seed), its "ci95",
        "p" of a permutation test over tasks and "p_holm" corrected over all pairs of the split, the number of "seeds_ahead", and
        "tasks_for_80" (tasks needed with this number of seeds to detect a difference of this size with power 0.8; None if no number suffices).
        If the metric is not a share, such as a return, "of_metric" has the same of it: "difference", "ci95", "ci95_agents", "p" and "p_holm".
    """
    splits = dict.fromkeys(row["split"] for rows in evaluations.values() for row in rows)
    algorithms: dict[str, dict[str, Any]] = defaultdict(dict)
    paired: list[dict[str, Any]] = []
    for split in splits:
        by_metric, kept = tables(evaluations, split, ("success", metric)), kept_tasks(evaluations, split)
        for name, success in by_metric["success"].items():
            graded = by_metric[metric][name]
            played = [
                row for rows in evaluations.values() for row in rows if _is_of(row, name, split) and row["task_id"] in kept
            ]
            algorithms[name][split] = {
                "success": _round(success.mean()),
                metric: _round(graded.mean()),
                "n": success.shape[1],
                "seeds": success.shape[0],
                "by_seed": [_round(x) for x in success.mean(axis=1)],
                "metric_by_seed": [_round(x) for x in graded.mean(axis=1)],
                "ci95": {
                    "success": _interval(score_interval(success)),
                    metric: _metric_interval(metric, graded, algorithm_interval),
                },
                "ci95_agents": {
                    "success": _interval(score_interval(success, agents_interval)),
                    metric: _metric_interval(metric, graded, agents_interval),
                },
                "links": links(played),
                **{key: total for key in COUNTS if (total := sum(row.get(key, 0) for row in played))},
            }
        rows = _paired(by_metric["success"], split)
        if metric not in SHARES:
            _add_differences_of_metric(rows, by_metric[metric])
        paired += rows
    return {"metric": metric, "algorithms": dict(algorithms), "paired": paired}


def _is_of(row: Row, agent: str, split: str) -> bool:
    return bool(row["agent"] == agent and row["split"] == split and row["outcome"] != "void")


def _paired(success: dict[str, Scores], split: str) -> list[dict[str, Any]]:
    rows: list[Row] = []
    for a, b in combinations(success, 2):
        difference = success[b] - success[a]  # later algorithms, which should be better, minus earlier ones
        parts = components(difference) if min(difference.shape) >= 2 else Components(0.0, 0.0, 0.0)
        rows.append(
            {
                "a": b,
                "b": a,
                "split": split,
                "difference": _round(difference.mean()),
                "ci95": _interval(share_difference_interval(difference), low=-1.0),
                "p": permutation_p(difference),
                "seeds": len(difference),
                "seeds_ahead": int((difference.mean(axis=1) > 0).sum()),
                "tasks_for_80": tasks_needed(float(difference.mean()), parts, len(difference)),
            }
        )
    _correct(rows)
    return rows


def _add_differences_of_metric(rows: Sequence[Row], graded: dict[str, Scores]) -> None:
    """Add "of_metric" to the rows of a split."""
    for row in rows:
        difference = graded[row["a"]] - graded[row["b"]]
        row["of_metric"] = {
            "difference": _round(difference.mean()),
            "ci95": [_round(bound) for bound in algorithm_interval(difference)],
            "ci95_agents": [_round(bound) for bound in agents_interval(difference)],
            "p": permutation_p(difference),
        }
    _correct([row["of_metric"] for row in rows])


def _correct(rows: Sequence[Row]) -> None:
    """Add Holm's correction of the p values of a split."""
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = _round(corrected)
        row["p"] = _round(row["p"])


def table(results: dict[str, Any], titles: dict[str, str]) -> str:
    """The results as text for a terminal."""
    metric = results["metric"]
    head = f"\n{'':24} {'split':8} {'tasks':>5} {'seeds':>5} {'success':>8} {'95% interval':>17} {metric.replace('_', ' '):>13}"
    lines = [head]
    for name, splits in results["algorithms"].items():
        for split, score in splits.items():
            low, high = score["ci95"]["success"]
            lines.append(
                f"{titles.get(name, name):24} {split:8} {score['n']:5} {score['seeds']:5} {score['success']:8.1%} "
                f"{f'{low:.1%} to {high:.1%}':>17} {measure(metric, score[metric]):>13}"
            )
            lines += count_lines(score, f"{titles.get(name, name)}, {split}")
    lines.append(
        f"\n{'difference of success':48} {'split':8} {'points':>7} {'95% interval':>17} {'p (Holm)*':>10} {'seeds ahead':>12}"
    )
    paired = shown_pairs(results["paired"], lambda row: (row["ci95"], row.get("of_metric", row)["ci95"]))
    for row in paired:
        low, high = (100 * x for x in row["ci95"])
        pair = f"{titles.get(row['a'], row['a'])} - {titles.get(row['b'], row['b'])}"
        lines.append(
            f"{pair:48} {row['split']:8} {100 * row['difference']:+7.1f} {f'{low:+.1f} to {high:+.1f}':>17} {row['p_holm']:10.4f} "
            f"{row['seeds_ahead']:12}"
        )
    lines += [*_differences_of_metric(paired, metric, titles), *left_out(results["paired"], paired)]
    is_single = all(score["seeds"] < 2 for splits in results["algorithms"].values() for score in splits.values())
    holds = (
        "so do the intervals, since one seed gives no information on other runs of an algorithm"
        if is_single
        else "the intervals hold for the algorithms, and are wide with two or three seeds"
    )
    lines += [f"\n* holds for the trained agents; {holds}", *_credit_lines(results.get("credit_accuracy", {}), titles)]
    lines += results.get("notes", [])
    return "\n".join(lines)


def _credit_lines(credit: Mapping[str, Mapping[str, Row]], titles: dict[str, str]) -> list[str]:
    """Lines of the accuracy of credit; none if it was not measured."""
    rows = [
        (name, split, row["pair_accuracy"])
        for name, of in credit.items()
        for split, row in of.items()
        if "pair_accuracy" in row
    ]
    head = f"\n{'credit: the better of two candidates is preferred':52} {'split':8} {'pairs':>6} {'95% interval':>17}"
    return [head] * bool(rows) + [
        f"{titles.get(name, name):52} {split:8} {accuracy['mean']:6.0%} {'{:.0%} to {:.0%}'.format(*accuracy['ci95']):>17}"
        for name, split, accuracy in rows
    ]


def _differences_of_metric(paired: Sequence[Row], metric: str, titles: dict[str, str]) -> list[str]:
    """Lines of the differences of a metric that is not a share; none for other metrics."""
    rows = [row for row in paired if "of_metric" in row]
    name = f"difference of {metric.replace('_', ' ')}"
    lines = [f"\n{name:48} {'split':8} {'':>7} {'95% interval':>17} {'p (Holm)*':>10}"] if rows else []
    for row in rows:
        own, pair = row["of_metric"], f"{titles.get(row['a'], row['a'])} - {titles.get(row['b'], row['b'])}"
        low, high = own["ci95"]
        lines.append(
            f"{pair:48} {row['split']:8} {own['difference']:+7.2f} {f'{low:+.2f} to {high:+.2f}':>17} {own['p_holm']:10.4f}"
        )
    return lines


def all_results(given: CompareArguments, runs: Sequence[Run]) -> dict[str, Any]:
    """All results of a comparison, from the files of its runs: the content of results.json."""
    compared = [runs[0].config.algorithms[name] for name in given.algorithms]
    evaluations = {}
    for run in runs:
        rows = read_evaluation(run.path("evaluation.jsonl"), run.record.metric)
        evaluations[run.seed] = [row for name in given.algorithms for row in rows if row["agent"] == name]
    kinds = runs[0].record.failure_kinds
    failures = [row for run in runs for row in failures_of(run, evaluations[run.seed])] if kinds else []
    wishes = summarize_wishes(runs[0], [row for own in evaluations.values() for row in own])
    results = {
        **compare_scores(evaluations, runs[0].record.metric),
        **({"failures": summarize_failures(kinds, failures)} if failures else {}),
        **({"wishes": wishes} if wishes else {}),
        "success_means": runs[0].record.success_means,
        "ledger": {run.seed: ledger(run, given.algorithms) for run in runs},
        "tasks": runs[0].sources,
        "settings": {name: value for name, value in runs[0].config.settings().items() if name != "seed"},
        "versions": versions(),
        "notes": [*_without_tasks(evaluations), *_notes(compared, runs)],
    }
    if own_titles := {one.name: one.title for one in compared if one.title != titles().get(one.name)}:
        results["titles"] = own_titles
    if given.against:
        results["against"] = given.against
    if given.credit_tasks:
        results["credit_accuracy"] = credit_accuracy.summarize(runs, given.critics, given.credit_tasks, given.credit_algorithms)
    if given.best_of:
        results["best_of_n"] = best_of_n.summarize(runs, given.critics, given.best_of, given.best_of_tasks)
    if given.baseline:
        results["win_rate"] = win_rate.summarize(runs, given.algorithms, given.baseline)
    if given.scaling:
        results["scaling"] = scaling.summarize(runs, [one.name for one in scaled(compared)], given.scaling)
    if given.simulators:
        results["simulators"] = simulators.summarize(runs, given.algorithms, given.simulators, given.simulator_tasks)
    if given.dials:
        others = [dials.read_results(folder) for folder in given.dials]
        results["dials"] = dials.summarize([*others[: given.dial_place], results, *others[given.dial_place :]])
    return results


def _without_tasks(evaluations: Evaluations) -> list[str]:
    """A note on each split that is in no table."""
    splits = dict.fromkeys(row["split"] for rows in evaluations.values() for row in rows)
    return [
        f"{split}: no result, since every task is void for an algorithm on a seed."
        for split in splits
        if not kept_tasks(evaluations, split)
    ]


def _notes(algorithms: Sequence[Algorithm], runs: Sequence[Run]) -> list[str]:
    """Notes on the results."""
    left = [
        f"{algorithm.title} did not change the initial policy on seed {run.seed}. {run.unchanged[folder]}"
        for algorithm in algorithms
        for run in runs
        for folder in algorithm.folders[:1]
        if folder in run.unchanged
    ]
    return [*([ON_DISCRETE] if any(algorithm.is_discrete for algorithm in algorithms) else []), *left]


def _round(value: Any) -> float:
    return round(float(value), 4)


def _metric_interval(name: str, scores: Scores, of: Callable[[Scores], tuple[float, float]]) -> list[float]:
    """The interval of a metric by `of`: bounds of shares are in [0, 1], other metrics have none."""
    return _interval(score_interval(scores, of)) if name in SHARES else [_round(bound) for bound in of(scores)]


def _interval(interval: tuple[float, float], low: float = 0.0) -> list[float]:
    return [_round(max(low, interval[0])), _round(min(1.0, interval[1]))]
