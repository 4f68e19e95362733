"""Means with intervals over the episodes that are not void."""

from __future__ import annotations

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.scoring.intervals import mean_interval, wilson
from sweetrl_agent.data.files import write_rows
from sweetrl_agent.evaluation.evaluate import links, read_evaluation, summarize


def _row(task, success, tests_passed, turns=4, answered=True, leak=0.0):
    return {
        "task_id": task, "outcome": "answered", "success": success, "tests_passed": tests_passed, "turns": turns,
        "answered": answered, "leak": leak,
    }  # fmt: skip


VOID = {"task_id": "v", "outcome": "void", "success": None, "tests_passed": None, "turns": 0, "answered": None, "leak": 0.0}


def test_means_and_intervals_leave_void_episodes_out():
    rows = [_row("a", 1, 1.0, 2), _row("b", 0, 0.5, 4, leak=0.3), VOID, _row("c", 0, 0.0, 3, answered=False)]
    score = summarize(rows)
    assert score == {
        "success": 0.3333, "tests_passed": 0.5, "n": 3, "void": 1, "turns": 3.0, "answered": 0.6667, "leak": 0.1,
        "ci95": {
            "success": [round(x, 4) for x in wilson(1 / 3, 3)],
            "tests_passed": [round(x, 4) for x in mean_interval([1.0, 0.5, 0.0], ["a", "b", "c"])],
        },
    }  # fmt: skip


def test_repeated_tasks_are_no_independent_evidence():
    rows = [_row(task, success, float(success)) for task, success in (("a", 1), ("a", 1), ("b", 0), ("b", 0))]
    interval = summarize(rows)["ci95"]["success"]
    assert interval == [round(x, 4) for x in mean_interval([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"])]
    assert interval != [round(x, 4) for x in wilson(0.5, 4)]


@pytest.mark.parametrize("rows", [[], [VOID, VOID]])
def test_without_evidence_there_is_no_mean(rows):
    assert summarize(rows) == {"success": None, "tests_passed": None, "n": 0, "void": len(rows), "ci95": {}}


def test_links_say_whether_wishes_are_heard_and_written_down():
    rows = [
        {**_row("a", 1, 1.0), "wishes_heard": 1.0},
        {**_row("b", 0, 0.5), "wishes_heard": 1.0},
        {**_row("c", 0, 0.0), "wishes_heard": 0.5},
        {**_row("d", 0, 0.0), "wishes_heard": 0.0},
        {**_row("e", 1, 1.0), "wishes_heard": None},
    ]
    found = {"wishes_heard": 0.625, "all_heard": 0.5, "success_if_all_heard": 0.5}
    assert links(rows) == found and summarize([*rows, VOID])["links"] == found
    assert links(rows[2:]) == {"wishes_heard": 0.25, "all_heard": 0.0, "success_if_all_heard": None}
    assert links(rows[4:]) == links([_row("f", 1, 1.0)]) == {}


def test_a_row_without_its_numbers_is_named(tmp_path):
    path, label = tmp_path / "evaluation.jsonl", {"agent": "initial", "split": "test", "episode": 0}
    good = [{**label, **_row("a", 1, 1.0)}, {**label, **VOID}]
    write_rows(path, good)
    assert read_evaluation(path, "tests_passed") == good
    for spoilt in ({"success": "yes"}, {"tests_passed": None}, {"leak": []}):
        write_rows(path, [*good, {**label, **_row("b", 1, 1.0), **spoilt}])
        with pytest.raises(
            ColBenchError, match=rf"expected a number for {next(iter(spoilt))} in the row of initial, test, b, got "
        ):
            read_evaluation(path, "tests_passed")
