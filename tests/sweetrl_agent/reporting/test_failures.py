"""Why episodes fail, in tables; also from files that hold anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweetrl_agent.reporting.failures import failures_part, wishes_part
from sweetrl_agent.reporting.page import markdown
from sweetrl_agent.reporting.run_report import write_report

from .made_up import html_of

ATTACK = "</script><img src=x onerror=alert(1)>"
ODD: list[Any] = [True, 7, float("nan"), 10**400, "text", [None], {"a": 1}, ATTACK]
ROW = {
    "agent": "initial", "split": "test", "n": 300, "questions": 4.9433, "heard": 0.25, "heard_ci95": [0.2, 0.31], "written": 0.5,
    "written_ci95": [0.4, 0.6],
}  # fmt: skip
DEAF = {
    **ROW,
    "agent": "sweet",
    "questions": 0.0,
    "heard": 0.0,
    "heard_ci95": [0.0, 0.0],
    "written": None,
    "written_ci95": [0, 1],
}
FAILURES = {
    "kinds": [{"name": "passed", "title": "success", "means": "It is one."}, {"name": "deaf", "title": ATTACK, "means": "m"}, {"name": "rare"}],
    "rows": [
        {"agent": "initial", "split": "test", "kind": "passed", "count": 3, "n": 4, "share": 0.75, "ci95": [0.3, 0.95]},
        {"agent": "initial", "split": "test", "kind": "deaf", "count": 1, "n": 4, "share": 0.25, "ci95": [0.05, 0.7]},
        {"agent": "sweet", "split": "test", "kind": "passed", "count": 0, "n": 4, "share": 0.0, "ci95": [0.0, 0.5]},
    ],
    "wishes": [{"agent": "initial", "split": "test", "topic": "tax", "unheard": 1, "n": 2}],
}  # fmt: skip


def test_the_table_has_counts_shares_and_intervals() -> None:
    part = failures_part({"failures": FAILURES}, {"sweet": "SWEET-RL"})
    assert part is not None
    kinds, topics = part.tables
    assert [*kinds.head] == ["Kind", "initial", "SWEET-RL"]
    assert kinds.rows == [("success", "3: 75.0% [30.0, 95.0]", "0"), (ATTACK, "1: 25.0% [5.0, 70.0]", "—")]
    assert topics.rows == [("tax", "1 of 2 (50.0%)")] and topics.caption == "test: wishes that were never heard"
    assert "Success: It is one." in part.notes and "<img" not in html_of(failures_part({"failures": FAILURES}))
    assert failures_part({}) is None


def test_a_row_of_an_agent_on_a_split() -> None:
    part = wishes_part({"wishes": [ROW, DEAF, {**ROW, "split": "unseen"}]}, {"sweet": "SWEET-RL"})
    assert part is not None and part.title == "What was asked, heard and written down"
    test, unseen = part.tables
    assert [*test.head] == ["Agent", "Episodes", "Questions", "Wishes heard", "Of these written down"]
    assert test.rows == [
        ("initial", "300", "4.94", "25.0% [20.0, 31.0]", "50.0% [40.0, 60.0]"),
        ("SWEET-RL", "300", "0", "0.0% [0.0, 0.0]", "—"),
    ]
    assert (test.caption, unseen.caption, len(unseen.rows)) == ("test", "unseen", 1)
    assert "| SWEET-RL | 300 | 0 |" in markdown("title", [part])
    assert wishes_part({}) is wishes_part({"wishes": []}) is None


def test_the_report_of_a_run_has_both(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"wishes": [{**ROW, "agent": ATTACK}], "failures": FAILURES}))
    page = write_report(tmp_path).read_text()
    assert "<h2>What was asked, heard and written down" in page and "<img" not in page and "25.0% [20.0, 31.0]" in page
    assert "<h2>Why episodes fail" in page


@pytest.mark.parametrize("odd", ODD)
def test_odd_results_have_a_report_that_is_safe(odd: Any, tmp_path: Path) -> None:
    for results in (
        *({"failures": failures} for failures in (odd, {**FAILURES, "kinds": odd}, {**FAILURES, "rows": odd})),
        {"failures": {**FAILURES, "rows": [dict.fromkeys(FAILURES["rows"][0], odd)]}},
        *({"wishes": wishes} for wishes in (odd, [odd], [dict.fromkeys(ROW, odd)], [{**ROW, "agent": odd}])),
    ):
        (tmp_path / "results.json").write_text(json.dumps(results))
        assert "<img" not in write_report(tmp_path).read_text()
