"""The index over runs: what it lists, where it looks, and that nothing in a folder can break out of it."""

from __future__ import annotations

import json
import os
import re

import pytest

from sweetrl_agent import report
from sweetrl_agent.reporting.index import read_entries, write_index

from .made_up import ATTACK, write_comparison_folder, write_run_folder


@pytest.fixture
def runs(tmp_path):
    """A folder with a comparison, and a run two folders below."""
    write_comparison_folder(tmp_path / "compare")
    write_run_folder(tmp_path / "mine" / "first run")
    os.utime(tmp_path / "compare" / "results.json", (1_700_000_000, 1_700_000_000))
    os.utime(tmp_path / "mine" / "first run" / "results.json", (1_600_000_000, 1_600_000_000))
    return tmp_path


def test_runs_and_comparisons_are_listed_newest_first(runs):
    comparison, run = read_entries(runs)
    assert (comparison.place, comparison.kind, comparison.environment) == ("compare", "comparison", "ColBench-Backend-v0")
    assert (comparison.date, comparison.state, comparison.has_report) == ("2023-11-14 22:13", "", False)
    assert [line.agent for line in comparison.lines] == ["initial", "rft", "sweet", "reinforce", "grpo"]
    assert comparison.lines[2].scores["unseen"] == ("16.0%", "[11.0, 21.0]") and comparison.lines[2].seeds == "0, 1, 2"
    assert (run.place, run.kind, run.environment, run.date) == (
        "mine/first run",
        "run",
        "ColBench-Backend-v0",
        "2020-09-13 12:26",
    )
    assert [(line.agent, line.seeds) for line in run.lines] == [("sweet: initial policy", "7"), ("sweet", "7")]
    assert run.lines[1].scores["test"] == ("40.0%", "[35.0, 45.0]")


def test_the_page_links_the_reports_that_are_there(runs):
    assert "href" not in write_index(runs).read_text()
    assert report.main([str(runs / "mine" / "first run")]) == 0
    text = write_index(runs).read_text()
    assert set(re.findall(r'href="([^"]*)"', text)) == {"mine/first%20run/report.html"}
    assert "40.0% <span" in text and "2020-09-13 12:26" in text


def test_one_command_makes_index_report_or_comparison(runs, capsys):
    for folder, name in ((runs, "index.html"), (runs / "mine" / "first run", "report.html"), (runs / "compare", "report.html")):
        assert report.main([str(folder)]) == 0
        assert capsys.readouterr().out == f"{folder / name}\n"
    assert "Paired differences" in (runs / "compare" / "report.html").read_text()
    assert "![Success](charts/scores.svg)" in (runs / "compare" / "report.md").read_text()
    assert len(read_entries(runs)) == 2  # what was written is no run


def test_a_run_in_progress_is_listed_without_scores(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.yaml").write_text("env: my_package:Mine-v0\nalgorithm: grpo\nseed: 3\n")
    (tmp_path / "seeds" / "seed_0").mkdir(parents=True)
    found = {entry.place: entry for entry in read_entries(tmp_path)}
    assert (found["new"].environment, found["new"].lines[0].agent, found["new"].lines[0].seeds) == (
        "my_package:Mine-v0",
        "grpo",
        "3",
    )
    assert found["seeds"].kind == "comparison" and found["seeds"].state == "not finished"
    assert write_index(tmp_path).read_text().count("not finished") == 2


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"algorithms": {"a": 3, "b": {"test": 4, "u": {"seeds": "x", "ci95": 3}}}}',
                                     '{"algorithms": {}}', '{"initial": {"test": {"n": 3}}, "seed": []}', '{"settings": 3, "metric": []}'])  # fmt: skip
def test_broken_results_are_survived(tmp_path, content):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text(content)
    assert "run" in write_index(tmp_path).read_text()


def test_names_and_values_cannot_become_markup_or_leave_the_folder(tmp_path):
    evil = tmp_path / 'javascript:"><img src=x onerror=alert(1)>'
    write_run_folder(evil)
    results = {ATTACK: {ATTACK: {"success": 0.5, "n": 3}}, "algorithm": ATTACK, "seed": ATTACK}
    (evil / "results.json").write_text(json.dumps(results))
    (evil / "config.yaml").write_text(f"env: {ATTACK.replace(' ', '')}\n")
    (evil / "report.html").write_text("")
    text = write_index(tmp_path).read_text()
    assert "<img" not in text and text.count("<script") == 2
    assert all(link.startswith("javascript%3A%22%3E") for link in re.findall(r'href="([^"]*)"', text))
    assert "default-src 'none'" in text and "innerHTML" not in text


def test_links_are_not_followed(runs, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    write_run_folder(outside / "secret")
    (runs / "linked").symlink_to(outside / "secret")
    (runs / "half").mkdir()
    (runs / "half" / "results.json").symlink_to(outside / "secret" / "results.json")
    assert {entry.place for entry in read_entries(runs)} == {"compare", "mine/first run"}


@pytest.mark.parametrize("name", ["index.html", "index.html.part"])
def test_the_index_is_not_written_through_a_link(runs, tmp_path_factory, name):
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.write_text("mine")
    (runs / name).symlink_to(outside)
    with pytest.raises(ValueError, match="is a symbolic link, so no index is written there"):
        write_index(runs)
    assert outside.read_text() == "mine"


@pytest.mark.parametrize(
    "content", [{"algorithms": {}}, {"algorithms": {"sweet": {"test": {}}}}, {"algorithms": {"sweet": 3}, "paired": 3}]
)
def test_results_that_are_not_a_comparisons_are_named(runs, content, capsys):
    (runs / "compare" / "results.json").write_text(json.dumps(content))
    for chart in ([], ["--chart", "scores"]):
        with pytest.raises(SystemExit, match="2"):
            report.main([str(runs / "compare"), *chart])
        assert "expected the results of a comparison of this version" in capsys.readouterr().err


def test_a_folder_without_runs_is_refused(tmp_path, capsys):
    for folder, said in ((tmp_path, "has none: no results.json, config.yaml"), (tmp_path / "nowhere", "which is not a folder")):
        with pytest.raises(SystemExit, match="2"):
            report.main([str(folder)])
        said_there = capsys.readouterr().err
        assert "`folder` must be a run, a comparison, or a folder with some below it" in said_there and said in said_there
