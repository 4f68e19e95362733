"""What agents ask, hear and write down, by agent and split."""

from __future__ import annotations

from collections.abc import Sequence
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
    tasks = tasks_of(run)
    played = [row for row in rows if row["outcome"] != VOID and row["task_id"] in tasks]
    try:
        all_counts = run.record.wish_counts([(row, tasks[row["task_id"]]) for row in played], run.config) if played else []
    except ColBenchError as error:
        print(f"The report does not say what was heard and written down: {error}")
        return []
    groups: dict[tuple[str, str], list[tuple[str, WishCounts]]] = {}
    for row, counts in zip(played, all_counts, strict=False):
        if counts is not None and counts.wishes:
            groups.setdefault((row["agent"], row["split"]), []).append((row["task_id"], counts))
    return [{"agent": agent, "split": split, **_summary(counts)} for (agent, split), counts in groups.items()]


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
