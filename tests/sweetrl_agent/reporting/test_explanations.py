"""Explanations in reports: whatever a file holds is checked, clipped and shown; the sample has every kind of failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sweetrl_agent.reporting.dialogues import MAX_DIALOGUES, dialogues_data, key_of, shown_records
from sweetrl_agent.reporting.explanations import MAX_LINES, Explanation, diff
from sweetrl_agent.reporting.run_folder import RunFolder
from sweetrl_agent.reporting.run_report import write_report

from .made_up import write_lines

ATTACK = "</script><img src=x onerror=alert(1)>"
ODD: list[Any] = [None, True, 7, float("nan"), 10**400, "text", [], {}, [None], {"a": 1}, ATTACK]
ADDRESS = {"agent": "initial", "split": "test", "task_id": "task-1", "episode": 0}
PAGES = {"wanted": "QUJD", "got": "", "width": 400, "height": 500, "score": {"text": 0.5}}


def episode(i: int, agent: str = "initial", **others: Any) -> dict[str, Any]:
    """One line of evaluation.jsonl."""
    history = [{"role": "user", "content": "Please help."}, {"role": "assistant", "content": "I WANT TO ANSWER:\ndef f(): ..."}]
    given = {"agent": agent, "split": "test", "task_id": f"task-{i}", "episode": 0, "outcome": "wrong", "success": 0}
    return {**given, "tests_passed": 0.0, "turns": 1, "dialogue_history": history, **others}


def shown(**parts: Any) -> dict[str, Any]:
    """The parts of an explanation in the viewer."""
    return Explanation(**ADDRESS, **parts).shown(is_success=False)


def test_a_diff_marks_what_only_one_side_has() -> None:
    assert diff("a\nb\nc", "a\nx\nc") == [(" ", "a"), ("-", "b"), ("+", "x"), (" ", "c")]
    assert diff("a\nb", None) == diff("a\nb", "  ") == [(" ", "a"), (" ", "b")]
    assert diff(None, "a") == []


def test_long_programs_are_cut_with_a_note() -> None:
    lines = diff("\n".join(map(str, range(1_000))), "y" * 5_000)
    assert len(lines) == MAX_LINES + 2 and lines[-1] == ("?", f"[the reference: only the first {MAX_LINES} lines are shown]")
    assert lines[-2][1] == "y" * 200 + "… (4800 more characters)"


def test_texts_and_lists_are_clipped() -> None:
    test = {"call": "f(" + "1" * 900, "expected": "1", "got": ATTACK, "outcome": "wrong", "seconds": 0.5, "wishes": ["tax"]}
    parts = shown(tests=[test] * 100, notes=["n" * 999] * 9)
    assert len(parts["tests"]) == 40 and len(parts["notes"]) == 5
    assert parts["tests"][0]["call"].endswith("(502 more characters)") and parts["tests"][0]["got"] == ATTACK
    assert parts["notes"][0].endswith("(599 more characters)")


def test_what_a_users_environment_leaves_out_has_a_default() -> None:
    parts = shown(wishes=[{"topic": "tax"}], tests=[{"call": "f(1)"}])
    assert parts["wishes"] == [{"topic": "tax", "sentence": "", "is_special": False, "asked": None, "heard": None}]
    assert parts["tests"][0]["got"] == "?" and parts["tests"][0]["wishes"] == [] and set(parts) == {"wishes", "tests"}


@pytest.mark.parametrize("odd", ODD)
def test_odd_lines_are_shown_safely_or_counted(odd: Any, tmp_path: Path) -> None:
    items = ("topic", "asked", "heard", "call", "seconds", "outcome", "box", "side", "turns", "score", "blocks", "wanted")
    values = (odd, [odd], [dict.fromkeys(items, odd)], dict.fromkeys(items, odd))
    names = ("wishes", "tests", "notes", "pages", "answer", "reference", "advantages")
    write_lines(tmp_path / "evaluation.jsonl", [episode(1), *({**episode(1), name: odd} for name in episode(1))])
    write_lines(tmp_path / "explanations.jsonl", [{**ADDRESS, name: value} for name in names for value in values])
    write_lines(tmp_path / "failures.jsonl", [{**ADDRESS, "kind": odd}, {**ADDRESS, "kind": "deaf", "about": odd}])
    assert "<img" not in write_report(tmp_path).read_text()
    assert len(RunFolder.read(tmp_path).evaluation) >= 1


@pytest.mark.parametrize("change", [{"got": 'QUJD"><script>'}, {"got": "A" * 200_001}, {"width": 0}, {"height": float("inf")}])
def test_only_pictures_with_a_size_are_pictures(change: dict[str, Any]) -> None:
    blocks = [{"side": "wanted", "what": "missing", "text": ATTACK, "box": [1, 2, 3, 4]}]
    parts = shown(pages={**PAGES, "blocks": blocks})
    assert (parts["pages"]["wanted"], parts["pages"]["got"]) == ("QUJD", "")
    assert parts["pages"]["blocks"][0]["box"] == (1, 2, 3, 4)
    with pytest.raises(ValidationError):
        shown(pages={**PAGES, **change})


def test_the_sample_has_examples_of_every_kind_of_every_agent() -> None:
    evaluation = [episode(i, agent) for agent in ("initial", "trained") for i in range(300)]
    kinds = {key_of(row): f"kind {int(row['task_id'].split('-')[1]) // 60}" for row in evaluation}
    leading = {("initial", "test", f"task-{i}", 0) for i in range(24)}
    records = shown_records(evaluation, leading, kinds)
    assert len(records) == MAX_DIALOGUES and len({key_of(row) for row in records}) == MAX_DIALOGUES
    assert [key_of(row) in leading for row in records[:4]] == [True, False, True, False]  # the other agent's beside each
    for agent in ("initial", "trained"):
        for number in range(5):
            assert sum(row["agent"] == agent and kinds[key_of(row)] == f"kind {number}" for row in records) >= 3
    assert all(sum(row["task_id"] == other["task_id"] for other in records) == 2 for row in records)  # both agents on each task
    assert shown_records(evaluation[:5], (), {}) == evaluation[:5]


def test_many_dialogues_with_advantages_leave_room_for_the_kinds() -> None:
    evaluation = [episode(i) for i in range(300)]
    kinds = {key_of(row): "rare" if row["task_id"] == "task-299" else "often" for row in evaluation}
    scored = {key_of(row) for row in evaluation[:200]}
    assert "task-299" in [row["task_id"] for row in shown_records(evaluation, scored, kinds)]


def test_kinds_and_explanations_meet_their_dialogue_and_no_other(tmp_path: Path) -> None:
    write_lines(tmp_path / "evaluation.jsonl", [episode(0), episode(1)])
    write_lines(tmp_path / "failures.jsonl", [{**ADDRESS, "kind": "deaf", "about": ["tax"]}])
    write_lines(tmp_path / "explanations.jsonl", [{**ADDRESS, "notes": ["So it is."], "advantages": {"exact": [0.5]}}])
    (tmp_path / "no_hidden").mkdir()
    write_lines(tmp_path / "no_hidden" / "turn_advantages.jsonl", [{**ADDRESS, "advantages": [0.25]}])
    write_lines(tmp_path / "turn_advantages.jsonl", [{**ADDRESS, "advantages": [-1]}])
    kinds = [{"name": "deaf", "title": "did not listen", "means": "It did not."}, {"name": "other"}]
    (tmp_path / "results.json").write_text(json.dumps({"failures": {"kinds": kinds}}))
    data = dialogues_data(RunFolder.read(tmp_path))
    first, second = data["dialogues"]
    assert (first["task"], first["kind"], first["about"], first["why"]) == ("task-1", "deaf", ["tax"], {"notes": ["So it is."]})
    assert (
        first["advantages"] == {"sweet": [-1.0], "exact": [0.5], "no_hidden": [0.25]} and [*first["advantages"]][0] == "sweet"
    )
    assert (second["kind"], second["about"], second["why"], second["advantages"]) == (None, [], {}, None)
    assert data["kinds"] == kinds[:1]
