"""What agents ask, hear and write down, by agent and split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row
from colbench_gym.scoring.intervals import mean_interval
from sweetrl_agent.core.dialogues import VOID
from sweetrl_agent.core.explanation import WishCounts
from sweetrl_agent.evaluation.failures import Evaluated, tasks_of


def summarize_wishes(run: Evaluated, rows: Sequence[Row]) -> list[Row]:
    """What all agents asked, heard and wrote down, by split: "wishes" of results.json. Answers run once more in the sandbox.

    Args:
        run: What was evaluated.
        rows: Rows of evaluation.jsonl.

    Returns:
        For each agent and split "agent", "split", "n" (episodes with a score and known wishes), "questions" (mean), "heard" (share of the wishes that the
        human stated, mean over episodes) and "written" (share of the heard ones that the answer does, mean over the episodes that heard one), both with an
        interval over tasks, "heard_ci95" and "written_ci95". [] if the environment does not know, or its sandbox is not available, which is printed.
    """
    return summarize_counts(counted_wishes(run, rows))


def counted_wishes(run: Evaluated, rows: Sequence[Row]) -> list[tuple[Row, WishCounts]]:
    """The episodes with known wishes, and the counts of each; see `summarize_wishes`."""
    tasks = tasks_of(run)
    known = [(row, tasks[row["split"], row["task_id"]]) for row in rows if (row["split"], row["task_id"]) in tasks]
    played = [(row, task) for row, task in known if row["outcome"] != VOID]
    try:
        all_counts = run.record.wish_counts(played, run.config) if played else []
    except ColBenchError as error:
        print(f"The report does not say what was heard and written down: {error}")
        return []
    counted = zip(played, all_counts, strict=False)
    return [(row, counts) for (row, _), counts in counted if counts is not None and counts.wishes]


def summarize_counts(counted: Iterable[tuple[Row, WishCounts]]) -> list[Row]:
    """The summary of episodes, by the agent and the split of their rows."""
    groups: dict[tuple[str, str], list[tuple[str, WishCounts]]] = {}
    for row, counts in counted:
        groups.setdefault((row["agent"], row["split"]), []).append((row["task_id"], counts))
    return [{"agent": agent, "split": split, **_summary(of_group)} for (agent, split), of_group in groups.items()]


def _summary(episodes: Sequence[tuple[str, WishCounts]]) -> dict[str, Any]:
    having = [(task, counts) for task, counts in episodes if counts.heard]
    shares = {
        "heard": ([counts.heard / counts.wishes for _, counts in episodes], [task for task, _ in episodes]),
        "written": ([counts.written / counts.heard for _, counts in having], [task for task, _ in having]),
    }
    summary: dict[str, Any] = {
        "n": len(episodes),
        "questions": round(sum(counts.questions for _, counts in episodes) / len(episodes), 3),
    }
    for name, (values, of) in shares.items():
        summary[name] = round(sum(values) / len(values), 4) if values else None
        summary[f"{name}_ci95"] = [round(bound, 4) for bound in mean_interval(values, of)]
    return summary


def wish_lines(summary: Sequence[Row]) -> list[str]:
    """The summary as lines for the terminal."""
    return [
        f"{row['agent']}, {row['split']}: {row['questions']:.1f} questions, {row['heard']:.0%} of the wishes heard"
        + ("" if row["written"] is None else f", {row['written']:.0%} of those written down")
        for row in summary
    ]
