"""Summaries of what agents asked, heard and wrote down."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.scoring.intervals import mean_interval
from sandboxes import SandboxError
from sweetrl_agent.core.explanation import WishCounts
from sweetrl_agent.evaluation.wishes import summarize_wishes, wish_lines


def _run(counts):
    """A run on tasks a to d whose record counts as told."""
    tasks = [SimpleNamespace(id=name) for name in "abcd"]
    record = SimpleNamespace(
        wish_counts=lambda episodes, config: [counts(row) for row, task in episodes if row["task_id"] == task.id]
    )
    return SimpleNamespace(record=record, config=None, held_out={"test": tasks[:2], "unseen": tasks[2:]}, folder=None)


def _row(task, counts, agent="initial", split="test", outcome="wrong"):
    return {"agent": agent, "split": split, "task_id": task, "outcome": outcome, "counts": counts}


def test_shares_are_means_over_episodes():
    rows = [
        _row("a", WishCounts(4, 2, 1, 1)), _row("b", WishCounts(1, 2, 0, 0)), _row("b", WishCounts(1, 3, 3, 1)),
        _row("a", WishCounts(9, 2, 2, 2), agent="trained"),
        _row("c", WishCounts(2, 2, 0, 0), split="unseen"),
    ]  # fmt: skip
    first, trained, unseen = summarize_wishes(_run(lambda row: row["counts"]), rows)
    heard, written = [0.5, 0.0, 1.0], [1.0, 1 / 3]
    assert first == {
        "agent": "initial", "split": "test", "n": 3, "questions": 2.0, "heard": 0.5,
        "heard_ci95": [round(bound, 4) for bound in mean_interval(heard, ["a", "b", "b"])], "written": 0.6667,
        "written_ci95": [round(bound, 4) for bound in mean_interval(written, ["a", "b"])],
    }  # fmt: skip
    assert (trained["agent"], trained["n"], trained["heard"], trained["written"]) == ("trained", 1, 1.0, 1.0)
    assert (unseen["split"], unseen["heard"], unseen["written"]) == ("unseen", 0.0, None)


def test_void_episodes_other_tasks_and_unknown_wishes_are_left_out():
    seen = []
    rows = [
        _row("a", WishCounts(1, 1, 1, 1)), _row("a", None, outcome="void"), _row("z", None), _row("b", None), _row("b", WishCounts(3, 0, 0, 0)),
    ]  # fmt: skip
    (found,) = summarize_wishes(_run(lambda row: seen.append(row) or row["counts"]), rows)
    assert seen == [rows[0], *rows[3:]] and (found["n"], found["questions"]) == (1, 1.0)
    assert summarize_wishes(_run(lambda row: None), rows[1:3]) == []


def test_an_environment_that_does_not_know_has_no_summary():
    run = _run(None)
    run.record.wish_counts = lambda episodes, config: []
    assert summarize_wishes(run, [_row("a", None)]) == []


@pytest.mark.parametrize("error", [SandboxError("no daemon"), ColBenchError("no browser")])
def test_a_sandbox_that_is_not_there_is_said(error, capsys):
    def fails(row):
        raise error

    assert summarize_wishes(_run(fails), [_row("a", None)]) == []
    assert capsys.readouterr().out == f"The report does not say what was heard and written down: {error}\n"


def test_lines_for_the_terminal():
    rows = [
        {"agent": "initial", "split": "test", "questions": 4.94, "heard": 0.251, "written": 0.5},
        {"agent": "trained", "split": "unseen", "questions": 0.0, "heard": 0.0, "written": None},
    ]
    assert wish_lines(rows) == [
        "initial, test: 4.9 questions, 25% of the wishes heard, 50% of those written down",
        "trained, unseen: 0.0 questions, 0% of the wishes heard",
    ]
    assert wish_lines([]) == []
