"""What an attack with only the docs found on the host's side of grading: files, memory, rows and values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, time, timedelta, timezone
from pathlib import Path

import pytest

import sandboxes
from colbench_gym import grade
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import Task
from colbench_gym.tasks.rows import RowError, task_from_row
from colbench_gym.tasks.task import HiddenTask
from sandboxes.runner.encode import to_json
from sandboxes.values import canonical
from sweetrl_agent.reporting.run_report import write_report
from tests.sandboxes.runs import decode

ROW = {"problem_description": "A sum", "ground_truth": "def f(x):\n    return x", "test_cases": {"test1": "f(1)"}}
HUGE = "0x" + "9" * 6000


@pytest.fixture
def rows(tmp_path):
    """A file with one row, whose answer is its reference."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return path


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/nowhere")], ids=["pipe", "link"])
def test_scores_replace_no_device_pipe_or_link(rows, tmp_path, make, capsys):
    out = tmp_path / "scores.jsonl"
    make(out)
    before = out.lstat()
    with pytest.raises(SystemExit):
        grade.main([str(rows), "--out", str(out), "--sandbox", "embedded"])
    assert "--out must name a file of its own, got a link, a folder or a device" in capsys.readouterr().err
    assert out.lstat() == before


@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard", "symbolic"])
def test_what_lies_at_the_partial_file_is_not_written_into(rows, tmp_path, link):
    out = tmp_path / "scores.jsonl"
    link(rows, tmp_path / "scores.jsonl.part")
    assert grade.main([str(rows), "--out", str(out), "--sandbox", "embedded"]) == 0
    assert json.loads(rows.read_text()) == ROW
    assert json.loads(out.read_text())["success"] == 1 and not out.is_symlink()


def test_a_report_that_cannot_be_printed_is_one_sentence(rows, tmp_path):
    command = [sys.executable, "-m", "colbench_gym.grade", str(rows), "--out", str(tmp_path / "out"), "--sandbox", "embedded"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
    assert (tmp_path / "out").exists()


def test_values_of_references_are_not_kept():
    """256 references of ten values each, of which each took some ten MiB, were kept together."""
    kept = []

    class Seen(UnitTests):
        def _expect(self, calls, first, second):
            kept.extend([*first, *second])
            return super()._expect(calls, first, second)

    task = Task("t", "A list.", "def f(x)", HiddenTask("def f(x):\n    return [()] * 1000 + [x]", ("f(1)", "f(2)")))
    with sandboxes.make("embedded", workers=1) as sandbox:
        assert Seen(sandbox).score(task, task.hidden.reference).success == 1
        assert [call.value for call in kept] == [None] * 4 and all(call.fingerprint for call in kept)
        kept.clear()
        assert Seen(sandbox, "released").score(task, task.hidden.reference).success == 1
        assert all(call.value is not None for call in kept)


@pytest.mark.parametrize("default", ["", "=f\"{'\u00a0'}\""])
def test_a_reference_that_cannot_be_written_is_a_malformed_row(default):
    """It has an integer of more digits than Python writes, or a default that Python 3.11 does not."""
    number = "1" if default else HUGE
    row = {**ROW, "ground_truth": f"def f(x{default}):\n    return x + {number}"}
    try:
        task = task_from_row(row, Path("rows.jsonl"), 7)
    except RowError as error:
        assert "expected a function whose" in str(error) if default else "integers of at most" in str(error)
        assert len(str(error)) < 1000
    else:  # newer versions of Python can
        assert default and task.signature.startswith("def f(x=")


def test_a_report_of_scores_beyond_any_scale_is_written(tmp_path):
    score = {"success": 1e308, "tests_passed": 1.0, "n": 1, "void": 0, "turns": 1.0, "ci95": {"success": [0.0, 1e308]}}
    (tmp_path / "results.json").write_text(json.dumps({"initial": {"test": score}, "trained": {"test": score}}))
    assert write_report(tmp_path).exists()


@pytest.mark.parametrize("microseconds", [1, -1, -999_999, 86_399_999_999, 1_000_001])
def test_offsets_of_less_than_a_second_are_read_as_they_are(microseconds):
    zone = timezone(timedelta(microseconds=microseconds))
    for value in (datetime(2020, 1, 1, 12, 0, 0, 5, zone), datetime(2020, 1, 1, tzinfo=zone), time(12, 1, 2, 3, zone)):
        wire = json.loads(to_json(value, 1 << 16))
        assert decode(wire) == value
        assert decode(wire).utcoffset() == value.utcoffset()
    moment = datetime(2020, 1, 1, tzinfo=zone)
    utc = [moment.astimezone(UTC), datetime(2020, 1, 1, tzinfo=UTC)]
    texts = [canonical(json.loads(to_json(value, 1 << 16))) for value in (moment, *utc)]
    assert [texts[0] == text for text in texts[1:]] == [moment == value for value in utc] == [True, False]
