"""Results of an evaluation, computed from the rows of its episodes. Needs only numpy.

The rows are those of `evaluation.jsonl`. A void episode (the simulated human, the sandbox or the agent's server failed) is counted and
never scored. Episodes of one task are not independent, so intervals are clustered by task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from colbench_gym.agents.agent import CUT_TURNS, SILENT_TURNS, SIMULATED_TURNS
from colbench_gym.evaluation.prices import Prices, cost_of
from colbench_gym.scoring.intervals import (
    SHARES,
    Interval,
    difference_interval,
    holm,
    mean_interval,
    rate_interval,
    sign_flip_p,
)

Row = Mapping[str, Any]
VOID = "void"
#: Metric of an episode whose answer was cut by the limit of tokens.
ANSWER_CUT = "answer_cut"
#: What rows have where it is not 0, and results as a sum.
COUNTS = (SILENT_TURNS, CUT_TURNS, ANSWER_CUT, SIMULATED_TURNS)
#: Token counts of a row; None where a server does not report them.
AGENT_TOKENS = ("prompt_tokens", "generated_tokens")
HUMAN_TOKENS = ("human_prompt_tokens", "human_generated_tokens")
#: Keys of results that are not agents.
RESERVED = frozenset(
    (
        "schema",
        "environment",
        "metric",
        "success_means",
        "tasks",
        "seeds",
        "episodes",
        "policies",
        "differences",
        "prices",
        "versions",
        "failures",
        "wishes",
    )
)
SCHEMA = 1


def summarize(rows: Sequence[Row], metric: str = "tests_passed") -> dict[str, Any]:
    """Means over episodes that are not void.

    Args:
        rows: Rows of `evaluation.jsonl`.
        metric: Name of the metric, higher is better: "tests_passed", or "similarity" for pages.

    Returns:
        "success" and the metric in [0, 1] with "ci95" of both (Wilson; bootstrap clustered by task), "n" episodes, "void"
        episodes, "turns" per dialogue, the fraction "answered" before the limit of turns, "leak": the fraction of the reference's code
        that the simulated human leaked in a dialogue, and, if tasks have wishes, "links" (`links`). Sums that are not 0: "silent_turns", "cut_turns", "answer_cut", "simulated_turns".
    """
    valid = [row for row in rows if row["outcome"] != VOID]
    if not valid:
        return {"success": None, metric: None, "n": 0, "void": len(rows), "ci95": {}}
    successes, values = ([float(row[name]) for row in valid] for name in ("success", metric))
    tasks = [row["task_id"] for row in valid]
    return {
        "success": round(_mean([row["success"] for row in valid]), 4),
        metric: round(_mean(values), 4),
        "n": len(valid),
        "void": len(rows) - len(valid),
        "turns": round(_mean([row["turns"] for row in valid]), 2),
        "answered": round(_mean([row["answered"] for row in valid]), 4),
        **({"leak": round(_mean([row["leak"] for row in valid]), 4)} if all("leak" in row for row in valid) else {}),
        "ci95": {
            "success": _rounded(rate_interval(successes, tasks)),
            metric: _rounded(mean_interval(values, tasks, is_share=metric in SHARES)),
        },
        **{name: total for name in COUNTS if (total := sum(row.get(name, 0) for row in valid))},
        **({"links": reply_links} if (reply_links := links(valid)) else {}),
    }


def scores(rows: Sequence[Row], agents: Iterable[str], splits: Sequence[str], metric: str) -> dict[str, Any]:
    """`summarize` by agent and split, for agents and splits with rows, in the given order."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["agent"], row["split"]), []).append(row)
    played = {agent: [split for split in splits if (agent, split) in cells] for agent in agents}
    return {
        agent: {split: summarize(cells[agent, split], metric) for split in agent_splits}
        for agent, agent_splits in played.items()
        if agent_splits
    }


def links(rows: Sequence[Row]) -> dict[str, float | None]:
    """Where dialogues fail: whether questions are about what is open, whether wishes are asked about, and whether heard wishes are implemented.

    Args:
        rows: Rows of `evaluation.jsonl` without void ones.

    Returns:
        "points_stated": how many of the open points the simulated human stated, the same point counted once, None if rows do not say; "wishes_heard":
        fraction of a task's special wishes that it stated, "all_heard": fraction of dialogues in which it
        stated all, and "success_if_all_heard", None if there are no such dialogues. Empty if no task has wishes.
    """
    known = [row for row in rows if row.get("wishes_heard") is not None]
    if not known:
        return {}
    complete = [row for row in known if row["wishes_heard"] == 1]
    points: list[Any] = [row.get("points_stated") for row in known]
    return {
        "points_stated": None if None in points else round(_mean(points), 4),
        "wishes_heard": round(_mean([row["wishes_heard"] for row in known]), 4),
        "all_heard": round(len(complete) / len(known), 4),
        "success_if_all_heard": round(_mean([row["success"] for row in complete]), 4) if complete else None,
    }


def used(rows: Sequence[Row], model: str, human: str, prices: Prices) -> dict[str, Any]:
    """Tokens and cost of all episodes, void ones included.

    Args:
        rows: Rows with the fields of `AGENT_TOKENS` and, if a model plays the human, `HUMAN_TOKENS`.
        model: Name of the agent's model in the prices.
        human: Name of the simulated human's model; "" if it is not a model.
        prices: Price of every model; see `prices`.

    Returns:
        "tokens": the sum of each of these fields; None if a row has none. With prices, "cost": "agent", "human" and "total", in the
        currency of the prices; None where tokens or a price are unknown.
    """
    tokens = {name: _total(rows, name) for name in (*AGENT_TOKENS, *(HUMAN_TOKENS if human else ()))}
    if not prices:
        return {"tokens": tokens}
    agent = cost_of(prices, model, tokens["prompt_tokens"], tokens["generated_tokens"])
    other = cost_of(prices, human, tokens["human_prompt_tokens"], tokens["human_generated_tokens"]) if human else 0.0
    total = None if agent is None or other is None else agent + other
    return {"tokens": tokens, "cost": {"agent": _money(agent), "human": _money(other), "total": _money(total)}}


def differences(rows: Sequence[Row], metric: str) -> list[dict[str, Any]]:
    """Paired differences of all pairs of agents: the same tasks, seeds and episodes, none of them void.

    Args:
        rows: Rows of all agents and splits.
        metric: Name of the metric.

    Returns:
        For every split and pair "split", "from", "to", "n" paired episodes, "tasks", and for "success" and the metric "difference" (to -
        from, a mean over tasks), "ci95" (bootstrap over tasks), "p" (random sign flips of tasks), and "p_holm", corrected for all pairs of
        the split.
    """
    pairs_of_splits: list[dict[str, Any]] = []
    for split in dict.fromkeys(row["split"] for row in rows):
        valid = [row for row in rows if row["split"] == split and row["outcome"] != VOID]
        agents = list(dict.fromkeys(row["agent"] for row in rows))
        pairs = [pair for a, b in combinations(agents, 2) if (pair := _pair(valid, a, b, metric))]
        for name in ("success", metric):
            for pair, corrected in zip(pairs, holm([pair[name]["p"] for pair in pairs]), strict=True):
                pair[name]["p_holm"] = round(corrected, 4)
                pair[name]["p"] = round(pair[name]["p"], 4)
        pairs_of_splits += [{"split": split, **pair} for pair in pairs]
    return pairs_of_splits


def _pair(rows: Sequence[Row], a: str, b: str, metric: str) -> dict[str, Any] | None:
    played = {
        agent: {(row["task_id"], row.get("seed", 0), row["episode"]): row for row in rows if row["agent"] == agent}
        for agent in (a, b)
    }
    keys = [key for key in played[a] if key in played[b]]
    if not keys:
        return None
    pair: dict[str, Any] = {"from": a, "to": b, "n": len(keys), "tasks": len({key[0] for key in keys})}
    for name in dict.fromkeys(("success", metric)):
        by_task: dict[str, list[float]] = {}
        for key in keys:
            by_task.setdefault(key[0], []).append(float(played[b][key][name]) - float(played[a][key][name]))
        values = [_mean(differences) for differences in by_task.values()]
        pair[name] = {
            "difference": round(_mean(values), 4),
            "ci95": _rounded(difference_interval(values, is_share=name in SHARES)),
            "p": sign_flip_p(values),
        }
    return pair


def _total(rows: Sequence[Row], name: str) -> int | None:
    values = [row.get(name) for row in rows]
    return None if any(value is None for value in values) else sum(value for value in values if value is not None)


def _money(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _rounded(interval: Interval) -> list[float]:
    return [round(bound, 4) for bound in interval]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
