"""The table of what was asked, heard and written down, also from files that hold anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweetrl_agent.reporting.run_report import write_report
from sweetrl_agent.reporting.wishes import wishes_part, wishes_section

ATTACK = "</script><img src=x onerror=alert(1)>"
ODD: list[Any] = [None, True, 7, float("nan"), 10**400, "text", [], {}, [None], {"a": 1}, ATTACK]
ROW = {
    "agent": "initial", "split": "test", "n": 300, "questions": 4.9433, "heard": 0.25, "heard_ci95": [0.2, 0.31], "written": 0.5,
    "written_ci95": [0.4, 0.6],
}  # fmt: skip
DEAF = {**ROW, "agent": "sweet", "questions": 0.0, "heard": 0.0, "heard_ci95": [0.0, 0.0], "written": None, "written_ci95": []}


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
    assert "| SWEET-RL | 300 | 0 |" in part.markdown()


@pytest.mark.parametrize("odd", ODD)
def test_odd_results_have_no_table_or_a_safe_one(odd: Any) -> None:
    for found in (odd, [odd], [dict.fromkeys(ROW, odd)], [{**ROW, "agent": odd}, {"split": odd}]):
        assert "<img" not in wishes_section({"wishes": found})
    assert wishes_section({}) == wishes_section({"wishes": []}) == ""


def test_the_report_of_a_run_has_it(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"wishes": [{**ROW, "agent": ATTACK}]}))
    page = write_report(tmp_path).read_text()
    assert "<h2>What was asked, heard and written down" in page and "<img" not in page and "25.0% [20.0, 31.0]" in page
