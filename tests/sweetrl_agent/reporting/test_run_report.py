"""The report of a run: what stands in which order, and what a stage took."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from colbench_gym.stage_records import StageRecords
from sweetrl_agent.reporting.page import vega
from sweetrl_agent.reporting.run_report import write_report
from sweetrl_agent.reporting.scores import ARROW

from .made_up import write_run_folder


@pytest.fixture
def folder(tmp_path):
    return write_run_folder(tmp_path / "run")


def _text(folder: Path) -> str:
    return re.sub(r"<[^>]+>", " ", write_report(folder).read_text(encoding="utf-8").replace(vega(), ""))


def test_changes_from_and_to_the_initial_policy_are_shown_large(folder):
    results = json.loads((folder / "results.json").read_text())
    others = [{**results["differences"][0], "from": "pretrained", "to": agent} for agent in ("initial", "trained")]
    results["differences"] += others
    (folder / "results.json").write_text(json.dumps({"pretrained": results["initial"], **results}))
    text = _text(folder)
    assert f"pretrained {ARROW} initial on test" in text and f"initial {ARROW} trained on test" in text
    assert f"pretrained {ARROW} trained" not in text


def test_a_stage_has_its_peak_where_it_is_known(folder):
    assert "GiB" not in _text(folder)
    records = StageRecords(folder)
    for name, peak in {"sft": 6656, "collect": "none"}.items():
        records.begin(name, (), (), (), peak_mib=peak)
    text = _text(folder)
    assert re.search(r"30(\.0)? s \(86%\)\s+6\.5 GiB", text), "of SFT"
    assert re.search(r"5(\.0)? s \(14%\)\s+—", text), "of collection, without a peak"


def test_a_run_of_another_critic_lacks_nothing(folder):
    """It has no pairs of outcomes, and its advantages are in its own folder."""
    results = json.loads((folder / "results.json").read_text())
    results["seconds"] = {"collect": 1.0, "candidates": 1.0, "rank gain": 1.0, "actor gain": 1.0}
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "gain").mkdir()
    (folder / "turn_advantages.jsonl").rename(folder / "gain/turn_advantages.jsonl")
    (folder / "pairs_summary.json").unlink(missing_ok=True)
    text = _text(folder)
    assert "No advantages" not in text and "Preference pairs" not in text and "Missing or unreadable" not in text
