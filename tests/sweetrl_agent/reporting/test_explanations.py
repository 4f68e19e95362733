"""Explanations in reports: whatever a file holds is checked, clipped and shown; the sample has every kind of failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweetrl_agent.reporting.dialogues import EXAMPLES, MAX_DIALOGUES, dialogues_data, key_of, shown_records
from sweetrl_agent.reporting.explanations import MAX_LINES, MAX_TESTS, diff, explanation
from sweetrl_agent.reporting.failures import failures_part, failures_section, kinds_of
from sweetrl_agent.reporting.run_folder import RunFolder

ATTACK = "</script><img src=x onerror=alert(1)>"
ODD: list[Any] = [None, True, 7, float("nan"), 10**400, "text", [], {}, [None], {"a": 1}, ATTACK]


def episode(i: int, agent: str = "initial", **others: Any) -> dict[str, Any]:
    """One line of evaluation.jsonl."""
    history = [{"role": "user", "content": "Please help."}, {"role": "assistant", "content": "I WANT TO ANSWER:\ndef f(): ..."}]
    given = {"agent": agent, "split": "test", "task_id": f"task-{i}", "episode": 0, "outcome": "wrong", "success": 0}
    return {**given, "tests_passed": 0.0, "turns": 1, "dialogue_history": history, **others}


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_diff_marks_what_only_one_side_has() -> None:
    assert diff("a\nb\nc", "a\nx\nc") == [(" ", "a"), ("-", "b"), ("+", "x"), (" ", "c")]
    assert diff("a\nb", None) == diff("a\nb", "  ") == [(" ", "a"), (" ", "b")]
    assert diff(None, "a") == diff(3, "a") == []


def test_long_programs_are_cut_with_a_note() -> None:
    found = diff("\n".join(map(str, range(1_000))), "y" * 5_000)
    assert len(found) == MAX_LINES + 2 and found[-1] == ("?", f"[the reference: only the first {MAX_LINES} lines are shown]")
    assert found[-2][1] == "y" * 200 + "... [4800 more characters]"


def test_texts_and_lists_are_clipped() -> None:
    test = {"call": "f(" + "1" * 900, "expected": "1", "got": ATTACK, "outcome": "wrong", "seconds": 0.5, "wishes": ["tax", 3]}
    found = explanation({"tests": [test] * 100, "notes": ["n" * 999] * 9}, is_success=False)
    assert len(found["tests"]) == MAX_TESTS and len(found["notes"]) == 5
    assert found["tests"][0]["call"].endswith("[502 more characters]") and found["tests"][0]["got"] == ATTACK
    assert found["tests"][0]["wishes"] == ["tax"] and found["notes"][0].endswith("[599 more characters]")


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_are_survived(odd: Any) -> None:
    fields = ("wishes", "tests", "notes", "pages", "answer", "reference", "advantages")
    items = {
        name: odd
        for name in (
            "topic",
            "asked",
            "heard",
            "call",
            "seconds",
            "outcome",
            "box",
            "side",
            "turns",
            "score",
            "blocks",
            "wanted",
        )
    }
    for value in (odd, [odd], [items], items):
        found = explanation({name: value for name in fields}, is_success=False)
        json.dumps(found, allow_nan=False)
        assert set(found) <= {"wishes", "tests", "notes", "diff", "pages"}


def test_only_pictures_are_pictures() -> None:
    pages = {"wanted": "QUJD", "got": 'QUJD"><script>', "width": 400, "height": 500, "score": {"text": 0.5}}
    found = explanation(
        {"pages": {**pages, "blocks": [{"side": "wanted", "what": "missing", "text": ATTACK, "box": [1, 2, 3, 4]}]}}, False
    )
    assert (found["pages"]["wanted"], found["pages"]["got"]) == ("QUJD", "")
    assert found["pages"]["blocks"][0]["box"] == [1, 2, 3, 4]


def test_the_sample_has_examples_of_every_kind_of_every_agent() -> None:
    evaluation = [episode(i, agent) for agent in ("initial", "trained") for i in range(300)]
    kinds = {key_of(row): f"kind {int(row['task_id'].split('-')[1]) // 60}" for row in evaluation}
    leading = {("initial", "test", f"task-{i}", "0") for i in range(24)}
    shown = shown_records(evaluation, leading, kinds)
    assert len(shown) == MAX_DIALOGUES and len({key_of(row) for row in shown}) == MAX_DIALOGUES
    assert [key_of(row) in leading for row in shown[:4]] == [True, False, True, False]  # the other agent's beside each
    for agent in ("initial", "trained"):
        for number in range(5):
            found = [row for row in shown if row["agent"] == agent and kinds[key_of(row)] == f"kind {number}"]
            assert len(found) >= EXAMPLES
    assert shown_records(evaluation[:5], (), {}) == evaluation[:5]


def test_kinds_and_explanations_meet_their_dialogue_and_no_other(tmp_path: Path) -> None:
    write_lines(tmp_path / "evaluation.jsonl", [episode(0), episode(1)])
    address = {"agent": "initial", "split": "test", "task_id": "task-1", "episode": 0}
    write_lines(tmp_path / "failures.jsonl", [{**address, "kind": "deaf", "about": ["tax"]}])
    write_lines(tmp_path / "explanations.jsonl", [{**address, "notes": ["So it is."], "advantages": {"exact": [0.5]}}])
    (tmp_path / "no_hidden").mkdir()
    write_lines(tmp_path / "no_hidden" / "turn_advantages.jsonl", [{**address, "advantages": [0.25]}])
    write_lines(tmp_path / "turn_advantages.jsonl", [{**address, "advantages": [-1]}])
    results = {"failures": {"kinds": [{"name": "deaf", "title": "did not listen", "means": "It did not."}, {"name": "other"}]}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    data = dialogues_data(RunFolder.read(tmp_path))
    first, second = data["dialogues"]
    assert (first["task"], first["kind"], first["about"], first["why"]) == ("task-1", "deaf", ["tax"], {"notes": ["So it is."]})
    assert (
        first["advantages"] == {"sweet": [-1.0], "exact": [0.5], "no_hidden": [0.25]} and [*first["advantages"]][0] == "sweet"
    )
    assert (second["kind"], second["about"], second["why"], second["advantages"]) == (None, [], {}, None)
    assert data["kinds"] == [{"name": "deaf", "title": "did not listen", "means": "It did not."}]


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
    assert "Success: It is one." in part.notes and "<img" not in failures_section({"failures": FAILURES})


@pytest.mark.parametrize("odd", ODD)
def test_odd_results_have_no_table_or_a_safe_one(odd: Any) -> None:
    for found in (
        odd,
        {"kinds": odd, "rows": odd},
        {"kinds": [{"name": odd}], "rows": [{"kind": odd, "count": odd, "agent": odd}], "wishes": [{"topic": odd}]},
    ):
        assert "<img" not in failures_section({"failures": found})
        kinds_of({"failures": found})
    assert failures_section({}) == ""
