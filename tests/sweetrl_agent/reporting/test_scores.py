"""The parts on scores, differences and costs of a report."""

from __future__ import annotations

import json

import pytest

from sweetrl_agent.reporting.run_folder import RunFolder
from sweetrl_agent.reporting.run_report import write_report
from sweetrl_agent.reporting.scores import differences_part, scores_part, use_part

from .made_up import html_of

ATTACK = "</script><img src=x onerror=alert(1)>"
CHANGE = {"difference": 0.25, "ci95": [0.1, 0.4], "p": 0.03, "p_holm": 0.06}
PAIR = {"split": "test", "from": "a", "to": ATTACK, "n": 3, "tasks": 2, "success": CHANGE, "tests_passed": CHANGE}
SCORE = {
    "success": 0.5, "tests_passed": 0.6, "n": 2, "ci95": {"success": [0.1, 0.9], "tests_passed": [0.1, 0.9]},
    "tokens": {"prompt_tokens": 12, "generated_tokens": None}, "cost": {"total": 0.5},
}  # fmt: skip
RESULTS = {ATTACK: {"test": SCORE}, "policies": {ATTACK: {"policy": ATTACK}}, "differences": [PAIR], "metric": "tests_passed"}


def test_differences_are_in_points_and_escaped():
    html = html_of(differences_part(RunFolder("e", results=RESULTS)))
    assert "+25.0" in html and "[+10.0, +40.0]" in html and "0.03" in html and "0.06" in html
    assert ATTACK not in html and "&lt;/script&gt;" in html and '<th scope="col">Minus' in html


def test_differences_of_a_metric_that_is_no_share_are_numbers():
    results = {**RESULTS, "metric": "return", "differences": [{**PAIR, "return": {**CHANGE, "difference": -3.25}}]}
    html = html_of(differences_part(RunFolder("e", results=results)))
    assert "−3.25" in html and "[0.1, 0.4]" in html and "[+10.0, +40.0]" in html


def test_tokens_and_cost_are_shown_where_they_are_known():
    html = html_of(use_part(RunFolder("e", results=RESULTS)))
    assert ">12<" in html and ">0.5<" in html and ATTACK not in html


def test_a_run_has_neither():
    run = RunFolder("e", results={"a": {"test": SCORE}, "differences": []})
    assert differences_part(run) is use_part(run) is None


def test_the_scores_list_silent_turns_where_there_are_some():
    results = {"a": {"test": {**SCORE, "silent_turns": 3}}, "b": {"test": SCORE}}
    (table,) = scores_part(RunFolder("run", results=results)).tables
    assert table.head[-1] == "Silent turns" and [row[-1] for row in table.rows] == ["3", "0"]
    (table,) = scores_part(RunFolder("run", results={"b": {"test": SCORE}})).tables
    assert "Silent turns" not in table.head


@pytest.mark.parametrize("score", [{"success": 0.5}, {**SCORE, "ci95": 3}, {**SCORE, "tokens": 3}, {**SCORE, "n": "x"}])
def test_results_of_another_version_are_named_and_the_rest_is_shown(score, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({**RESULTS, "a": {"test": score}}))
    page = write_report(tmp_path).read_text()
    assert page.count("results.json is not as a run of this version writes it") > 1 and "evaluation.jsonl is missing" in page


def test_an_agent_with_void_episodes_only_has_no_scores(tmp_path):
    void = {"success": None, "tests_passed": None, "n": 0, "void": 3, "ci95": {}}
    (tmp_path / "results.json").write_text(json.dumps({**RESULTS, "a": {"test": void}}))
    assert "results.json is" not in write_report(tmp_path).read_text()
