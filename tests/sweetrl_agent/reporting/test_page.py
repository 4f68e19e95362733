"""Pages: the script that draws charts is bundled once, what is missing is named, and the viewer opens on what tells most."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from colbench_gym.errors import ColBenchError
from sweetrl_agent.reporting import page
from sweetrl_agent.reporting.charts import PERCENT, Row, dot_plot
from sweetrl_agent.reporting.dialogues import dialogues_data
from sweetrl_agent.reporting.palette import colour
from sweetrl_agent.reporting.parts import Part, Share, Table
from sweetrl_agent.reporting.run_folder import RunFolder

from .made_up import ATTACK, html_of


@pytest.fixture
def bundled(monkeypatch):
    """The bundles that were made, in place of vl-convert's."""
    made = []
    monkeypatch.setattr(
        page, "converter", lambda: SimpleNamespace(javascript_bundle=lambda snippet: made.append(snippet) or "é")
    )
    page.vega.cache_clear()
    yield made
    page.vega.cache_clear()


def test_the_script_of_charts_is_bundled_once_for_all_processes(bundled, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        assert page.vega() == "é"
        page.vega.cache_clear()  # another process
    (kept,) = (tmp_path / "colbench-gym").iterdir()
    assert len(bundled) == 1 and kept.read_text(encoding="utf-8") == "é"


def test_without_a_cache_it_is_bundled_each_time(bundled, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert page.vega() == "é" and len(bundled) == 1


def test_a_page_without_charts_needs_no_script_of_charts(bundled):
    assert "<table" in html_of(Part("a", "A", [Table(("x",), [("1",)])])) and not bundled


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ColBenchError, match="^Reports need the package vl-convert-python: `pip install vl-convert-python`.$"):
        dot_plot("t", {"": [Row("r", 0.5, "50%", None, (), colour(0))]}, PERCENT, "").svg()


def test_texts_are_escaped_wherever_they_stand():
    table = Table((ATTACK,), [(ATTACK, Share.of(2.0, ATTACK))], ATTACK)
    part = Part("a", ATTACK, [table], notes=[ATTACK], missing=ATTACK, texts={ATTACK: ATTACK})
    html = html_of(part)
    assert "<img" not in html and html.count("&lt;img") == 9 and 'value="1.0000"' in html


def test_markdown_keeps_cells_in_their_columns():
    text = page.markdown("T", [Part("a", "A", [Table(("x", "y"), [("1|2", "3\n4")], "of")], notes=["n & m"])])
    assert text == "# T\n\n## A\n\n### of\n\n| x | y |\n| --- | --- |\n| 1\\|2 | 3 4 |\n\nn & m\n"


def _row(agent, task, outcome, success, turns=4, question="Why?"):
    address = {"agent": agent, "split": "test", "task_id": task, "episode": 0}
    said = [{"role": "assistant", "content": text} for text in (question, f"the answer of {agent}")]
    return {**address, "outcome": outcome, "success": success, "turns": turns, "dialogue_history": said}


def test_the_viewer_opens_where_agents_differ():
    rows = [
        _row("initial", "broken", "exception:SyntaxError", 0),
        _row("trained", "broken", "wrong", 0),
        _row("initial", "odd", "exception:SyntaxError", 0),
        _row("trained", "odd", "passed", 1, turns=1),
        _row("initial", "telling", "wrong", 0),
        _row("trained", "telling", "passed", 1),
    ]
    data = dialogues_data(RunFolder("run", evaluation=rows))
    assert data["dialogues"][data["first"]]["task"] == "telling"
    assert dialogues_data(RunFolder("run"))["first"] == 0


def test_the_viewer_opens_where_the_trained_policy_asks_something_else_and_succeeds():
    rows = [
        _row("initial", "worse", "passed", 1),
        _row("trained", "worse", "wrong", 0, question="What of an empty list?"),
        _row("initial", "same questions", "wrong", 0),
        _row("trained", "same questions", "passed", 1),
        _row("initial", "learnt", "exception:SyntaxError", 0),
        _row("trained", "learnt", "passed", 1, question="What of an empty list?"),
    ]
    scored = [{**{name: rows[0][name] for name in ("agent", "split", "task_id", "episode")}, "advantages": [0.0]}]
    data = dialogues_data(RunFolder("run", evaluation=rows, advantages=scored))
    first = data["dialogues"][data["first"]]
    assert (first["task"], first["agent"]) == ("learnt", "trained")
