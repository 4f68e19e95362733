"""The parts of an evaluation's report, with files in which nothing is as it should be."""

from __future__ import annotations

import json

import pytest

from sweetrl_agent.reporting.evaluation_parts import differences_section, use_section
from sweetrl_agent.reporting.run_folder import RunFolder
from sweetrl_agent.reporting.run_report import write_report

ATTACK = "</script><img src=x onerror=alert(1)>"
PAIR = {
    "split": "test", "from": "a", "to": ATTACK, "n": 3, "tasks": 2,
    "success": {"difference": 0.25, "ci95": [0.1, 0.4], "p": 0.03, "p_holm": 0.06}, "tests_passed": {"difference": "x"},
}  # fmt: skip
RESULTS = {
    ATTACK: {"test": {"success": 0.5, "n": 2, "tokens": {"prompt_tokens": 12, "generated_tokens": None}, "cost": {"total": 0.5}}},
    "policies": {ATTACK: {"policy": ATTACK}, "b": 3}, "differences": [PAIR, 7], "metric": "tests_passed",
}  # fmt: skip


def test_differences_are_in_points_and_escaped():
    html = differences_section(RunFolder("e", results=RESULTS))
    assert "+25.0" in html and "[+10.0, +40.0]" in html and "0.03" in html and "0.06" in html
    assert ATTACK not in html and "&lt;/script&gt;" in html


def test_tokens_and_cost_are_shown_where_they_are_known():
    html = use_section(RunFolder("e", results=RESULTS))
    assert ">12<" in html and ">0.5<" in html and ATTACK not in html


@pytest.mark.parametrize("results", [{}, {"policies": [], "differences": {}}, {"policies": 3, "differences": 3}])
def test_a_run_has_neither(results):
    run = RunFolder("e", results=results)
    assert differences_section(run) == use_section(run) == ""


@pytest.mark.parametrize("score", [3, None, [], {"tokens": 3, "cost": []}, {"tokens": {"prompt_tokens": float("inf")}}])
def test_broken_scores_break_nothing(score, tmp_path):
    results = {"a": {"test": score}, "policies": {"a": {}}, "differences": [{}], "metric": "tests_passed"}
    (tmp_path / "results.json").write_text(json.dumps(results))
    page = write_report(tmp_path).read_text()
    assert 'id="use"' in page and "metrics.jsonl" not in page
