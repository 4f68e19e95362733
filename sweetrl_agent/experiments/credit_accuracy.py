"""How well critics credit turns: against the exact advantage (`exact_credit`), apart from all optimisation of an agent.

The start plays held-out tasks; at every turn candidates are sampled from it, and every critic of a run scores the same ones. Two
numbers a task: Spearman's rank correlation of credit and exact advantage over all candidates of all its turns, and the fraction of
pairs of candidates of one turn, unlike in exact advantage, of which the critic prefers the better one (half a point where it has no
preference). Chance is 0 and 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
from scipy import stats
from tqdm import tqdm

from sweetrl_agent.algorithms.critics import CRITICS, open_critic
from sweetrl_agent.evaluation import splits
from sweetrl_agent.files import Row, read_rows, write_rows
from sweetrl_agent.models import load_policy
from sweetrl_agent.rollouts import episodes_of, play
from sweetrl_agent.run import Run
from sweetrl_agent.seeds import derive_seed
from sweetrl_agent.statistics import algorithm_interval

STATES, SCORES = "credit_states.jsonl", "credit_scores.jsonl"
METRICS = ("rank_correlation", "pair_accuracy")
_SAME = 1e-9


def sample_states(run: Run, num_tasks: int) -> None:
    """Turns of the start on the first held-out tasks of each split, with candidates and their exact advantages -> credit_states.jsonl."""
    policy = load_policy(run.start_model, run.start_model, run.config.model)
    rows: list[Row] = []
    for split, tasks in splits(run).items():
        tasks = tasks[:num_tasks]
        by_id = {task.id: task for task in tasks}
        with closing(run.environment(tasks, min(len(tasks), run.config.model.generation_batch))) as env:
            played = [t for batch in play(policy, env, episodes_of(list(by_id), 1), run.seed, f"credit {split}") for t in batch]
        states = [(t, turn) for t in played if not t.is_void for turn in range(1, len(t.turns) + 1)]
        count = run.config.actor.num_candidates
        seeds = [derive_seed(run.seed, "credit candidates", t.task_id, turn, i) for t, turn in states for i in range(count)]
        said = [u.text for u in policy.generate([t.prefix(turn) for t, turn in states for _ in range(count)], seeds)]
        rows += [
            {
                "split": split,
                "task_id": t.task_id,
                "turn": turn,
                "messages": t.prefix(turn),
                "reference": by_id[t.task_id].hidden.reference,
                "texts": said[i * count : (i + 1) * count],
            }
            for i, (t, turn) in enumerate(states)
        ]
    with open_critic(run, "exact") as exact:
        for row in tqdm(rows, desc="exact advantages", unit="turn"):
            row["exact"] = exact.rank(row["messages"], row["reference"], row["texts"])
    write_rows(run.path(STATES), rows)


def score(run: Run, critic: str) -> None:
    """A critic's credit of the same candidates -> the critic's credit_scores.jsonl."""
    with open_critic(run, critic) as judged_by:
        write_rows(
            run.own(critic, SCORES),
            [
                {"credit": judged_by.rank(row["messages"], CRITICS[critic].told(run, row["reference"]), row["texts"])}
                for row in tqdm(read_rows(run.path(STATES)), desc=f"credit of {critic}", unit="turn")
            ],
        )


def accuracies(run: Run, critic: str) -> list[Row]:
    """Numbers of every task: "split", "task_id", "rank_correlation", "pair_accuracy"; None where nothing differs."""
    by_task: dict[tuple[str, str], list[tuple[list[float], list[float]]]] = {}
    scores = read_rows(run.own(critic, SCORES))
    for state, scored in zip(read_rows(run.path(STATES)), scores, strict=True):
        by_task.setdefault((state["split"], state["task_id"]), []).append((state["exact"], scored["credit"]))
    return [
        {
            "split": split,
            "task_id": task_id,
            "rank_correlation": rank_correlation(*map(np.concatenate, zip(*turns, strict=True))),
            "pair_accuracy": pair_accuracy(turns),
        }
        for (split, task_id), turns in by_task.items()
    ]


def rank_correlation(exact: Any, credit: Any) -> float | None:
    """Spearman's rho; 0 where the critic sees no difference, None where there is none to be seen."""
    if np.ptp(exact) < _SAME:
        return None
    return 0.0 if np.ptp(credit) < _SAME else float(stats.spearmanr(exact, credit).statistic)


def pair_accuracy(turns: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    """Fraction of unlike pairs of one turn's candidates whose better one has more credit; None without such a pair."""
    right, count = 0.0, 0
    for exact, credit in turns:
        difference = np.subtract.outer(np.array(exact), np.array(exact))
        preference = np.subtract.outer(np.array(credit), np.array(credit))
        better = difference > _SAME
        right += float((preference[better] > 0).sum()) + 0.5 * float((preference[better] == 0).sum())
        count += int(better.sum())
    return right / count if count else None


def summarize(runs: Sequence[Run], critics: Sequence[str]) -> dict[str, dict[str, Row]]:
    """Critic -> split -> both numbers, means over tasks and seeds, with 95% intervals over both, and their paired difference to SWEET-RL's.

    A task counts where every critic and seed has a number.
    """
    cells: dict[tuple[str, str], dict[str, dict[int, dict[str, float]]]] = {}
    for critic in critics:
        for run in runs:
            for row in accuracies(run, critic):
                for metric in METRICS:
                    if row[metric] is not None:
                        by_critic = cells.setdefault((row["split"], metric), {})
                        by_critic.setdefault(critic, {}).setdefault(run.seed, {})[row["task_id"]] = row[metric]
    found: dict[str, dict[str, Row]] = {critic: {} for critic in critics}
    for (split, metric), by_critic in cells.items():
        each = [set(tasks) for by_seed in by_critic.values() for tasks in by_seed.values()]
        kept = sorted(set.intersection(*each))
        tables = {
            critic: np.array([[by_critic[critic][run.seed][task] for task in kept] for run in runs]) for critic in critics
        }
        for critic, scores in tables.items():
            row = found[critic].setdefault(split, {"n": len(kept), "seeds": len(runs)})
            row[metric] = {"mean": float(scores.mean()), "ci95": list(algorithm_interval(scores))}
            if "sweet" in tables and critic != "sweet":
                difference = tables["sweet"] - scores
                row[metric]["behind_sweet"] = {"mean": float(difference.mean()), "ci95": list(algorithm_interval(difference))}
    return found
