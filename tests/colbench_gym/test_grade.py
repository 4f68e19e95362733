"""python -m colbench_gym.grade: files of trajectories in, scores and a summary out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc

import pytest

from colbench_gym.grade import grade_file, main, read_attempts
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks.rows import RowError, row_from_task

RIGHT = "def total(prices):\n    return round(sum(prices), 2) if prices else None"


@pytest.fixture
def task_row(total_task):
    """A task row."""
    return row_from_task(total_task())


@pytest.fixture
def write(tmp_path):
    """Function: rows (tables or bytes) -> path of a file that holds them."""

    def write(*rows):
        path = tmp_path / "trajectories.jsonl"
        path.write_bytes(b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows))
        return path

    return write


def _scores(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_row_gets_one_line_in_order(write, task_row, tmp_path, capsys):
    bad = {**task_row, "ground_truth": "def total(p):\n    return p[100]"}
    path = write(
        {"task": task_row, "dialogue_history": [], "answer": RIGHT, "reward": 1.0},
        {"task": task_row, "answer": f"Here it is:\n```python\n{RIGHT.replace(' if prices else None', '')}\n```"},
        {"task": task_row, "answer": None},
        {"task": task_row},
        b"",
        task_row,
        {"task": bad, "answer": RIGHT},
        {"task": task_row, "answer": "import socket\ndef total(p): return socket.socket()"},
    )
    out = tmp_path / "scores.jsonl"
    assert main([str(path), "--out", str(out), "--sandbox", "embedded", "--workers", "2"]) == 0
    scores = _scores(out)
    assert [score["index"] for score in scores] == list(range(7))
    assert [list(score) for score in scores] == [["index", "tests_passed", "success", "outcome", "calls"]] * 7
    assert [score["tests_passed"] for score in scores] == [1.0, 0.9, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert [score["success"] for score in scores] == [1, 0, 0, 0, 1, 0, 0]
    assert [score["outcome"] for score in scores] == [
        "passed", "wrong", "no_answer", "no_answer", "passed", "ungradable", "forbidden",
    ]  # fmt: skip
    assert scores[1]["calls"] == ["passed"] * 9 + ["wrong"]
    assert {len(score["calls"]) for score in scores} == {10}
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0] == "6 rows of 1 tasks graded, 1 left out of the means"
    assert re.fullmatch(r"tests passed: 48\.33% \(95% interval [\d.]+% to [\d.]+%, n = 6\)", lines[1])
    assert re.fullmatch(r"success: 33\.33% \(95% interval [\d.]+% to [\d.]+%, n = 6\)", lines[2])
    assert lines[3] == "outcomes: passed 2, no_answer 2, wrong 1, ungradable 1, forbidden 1"
    assert lines[4:] == [
        "1 rows have no verdict (rows are counted from 0):",
        "  row 5: 'total([0, 0.125])' gives no value (IndexError)",
    ]
    assert re.search(r"graded 7 of 7 rows, \d+ rows/s in [\d.]+ s", output.err)


def test_task_rows_alone_grade_their_own_reference(write, task_row, tmp_path, capsys):
    out = tmp_path / "scores.jsonl"
    assert main([str(write(task_row, task_row)), "--out", str(out)]) == 0
    assert [score["success"] for score in _scores(out)] == [1, 1]
    assert "success: 100.00%" in capsys.readouterr().out


def test_the_released_semantics_keep_all_rows_in_the_means(write, task_row, tmp_path, capsys):
    bad = {**task_row, "ground_truth": "def total(p):\n    return p[100]"}
    out = tmp_path / "scores.jsonl"
    path = write({"task": bad, "answer": RIGHT}, {"task": task_row, "answer": f"import math\n{RIGHT}"}, task_row)
    assert main([str(path), "--out", str(out), "--semantics", "released"]) == 0
    assert [score["outcome"] for score in _scores(out)] == ["wrong", "wrong", "wrong"]
    assert [score["tests_passed"] for score in _scores(out)] == [0.0, 0.9, 0.9]  # None passes nothing
    text = capsys.readouterr().out
    assert "3 rows of 2 tasks graded\n" in text and "row 0: 'total([0, 0.125])' gives no value (IndexError)" in text
    assert "3 rows have a call without an expected value (rows are counted from 0):\n" in text and "no verdict" not in text


@pytest.mark.parametrize("place", ["row", "metrics"])
def test_void_episodes_and_cut_answers_of_an_evaluation_are_not_graded(place, write, task_row, tmp_path, capsys):
    def evaluated(outcome, answer):
        return {
            "task": task_row,
            "answer": answer,
            **({"outcome": outcome} if place == "row" else {"metrics": {"outcome": outcome}}),
        }

    rows = [
        evaluated("passed", RIGHT),
        evaluated("void", "What is x?"),
        evaluated("answer_cut", RIGHT),
        evaluated("wrong", RIGHT),
    ]
    out = tmp_path / "scores.jsonl"
    assert main([str(write(*rows)), "--out", str(out), "--sandbox", "embedded", "--explain"]) == 0
    assert [(score["outcome"], score["success"]) for score in _scores(out)] == [
        ("passed", 1), ("void", 0), ("answer_cut", 0), ("passed", 1),
    ]  # fmt: skip
    text = capsys.readouterr().out
    assert "3 rows of 1 tasks graded, 1 left out of the means\n" in text and "n = 3)" in text
    assert "row 1: the episode is void" in text


@pytest.mark.parametrize("spec", ['{"name": "embedded", "foo": 1}', '{"name": "embedded", "workers": 0}'])
def test_wrong_arguments_of_a_sandbox_are_a_sentence(spec, write, task_row, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([str(write(task_row)), "--out", str(tmp_path / "scores.jsonl"), "--sandbox", spec])
    assert ended.value.code == 2 and "foo" in (said := capsys.readouterr().err) or "workers" in said


def test_a_malformed_row_stops_before_anything_runs(write, task_row, tmp_path, capsys, humans):
    path, out = write(task_row, {"task": {**task_row, "test_cases": 3}, "answer": ""}), tmp_path / "scores.jsonl"
    assert main([str(path), "--out", str(out)]) == 1
    assert (
        f"error: {path}, line 2, field 'task.test_cases': expected a table of test name to call, got 3."
        in capsys.readouterr().err
    )
    assert not out.exists()
    with pytest.raises(RowError):
        grade_file(path, out, UnitTests(humans.BrokenSandbox()), "raise")  # the broken sandbox is not reached


def test_skipped_rows_keep_their_line(write, task_row, tmp_path, capsys):
    path = write(b"{", task_row, {"task": task_row, "answer": 3}, b"[]", task_row, b"7")
    out = tmp_path / "scores.jsonl"
    assert main([str(path), "--out", str(out), "--on-error", "skip"]) == 0
    assert [score["outcome"] for score in _scores(out)] == [
        "malformed",
        "passed",
        "malformed",
        "malformed",
        "passed",
        "malformed",
    ]
    text = capsys.readouterr().out
    assert "2 rows of 1 tasks graded, 4 left out of the means" in text
    assert f"  row 2: {path}, line 3, field 'answer': expected a text or null, got 3." in text


def test_a_failing_sandbox_leaves_no_scores(write, task_row, tmp_path, humans):
    from colbench_gym.errors import SandboxError

    out = tmp_path / "scores.jsonl"
    out.write_text("old\n")
    with pytest.raises(SandboxError, match="^The daemon died"):
        grade_file(write(*[task_row] * 50), out, UnitTests(humans.BrokenSandbox()), "raise")
    assert out.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.jsonl", "trajectories.jsonl"]


def test_what_cannot_be_read_or_written_is_refused(write, task_row, tmp_path, capsys):
    path = write(task_row)
    assert main([str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "o")]) == 1
    assert "error: Expected a JSONL file of tasks at" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(path), "--out", str(path)])
    assert "--out would overwrite the trajectories in" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(path), "--out", str(tmp_path / "o"), "--workers", "0"])
    assert "--workers must be from 1 to 1024, got 0" in capsys.readouterr().err
    assert main([str(write()), "--out", str(tmp_path / "o")]) == 1
    assert "got an empty file" in capsys.readouterr().err


def test_a_large_file_is_not_held_in_memory(write, task_row, tmp_path, humans):
    class Instant(humans.BrokenSandbox):
        def run(self, programs):
            from sandboxes import CallResult, ExecutionResult, Outcome

            return [ExecutionResult((CallResult(Outcome.OK, 1),) * len(program.calls)) for program in programs]

    row = {"task": task_row, "dialogue_history": [{"role": "user", "content": "x" * 20_000}], "answer": RIGHT}
    path = write(*[row] * 1000)
    tracemalloc.start()
    grade_file(path, tmp_path / "scores.jsonl", UnitTests(Instant()), "raise")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 20e6 and peak < 8e6


def test_attempts_count_rows_not_lines(write, task_row):
    assert [attempt.index for attempt in read_attempts(write(b"", task_row, b"", task_row))] == [0, 1]


def test_it_runs_as_a_command(write, task_row, tmp_path):
    command = [sys.executable, "-m", "colbench_gym.grade", str(write(task_row)), "--out", str(tmp_path / "scores.jsonl")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("1 rows of 1 tasks graded\n") and _scores(tmp_path / "scores.jsonl")[0]["success"] == 1


def test_explain_prints_the_failed_tests_of_every_row_without_success(write, task_row, tmp_path, capsys):
    nearly = RIGHT.replace(" if prices else None", "")
    bad = {**task_row, "ground_truth": "def total(p):\n    return p[100]"}
    answers = [RIGHT, nearly, "def total(:", None, "def total(p):\n    return '\\x1b[31m\\n' + 'x' * 999"]
    path = write(*({"task": task_row, "answer": answer} for answer in answers), {"task": bad, "answer": RIGHT}, b"{")
    out = tmp_path / "scores.jsonl"
    assert main([str(path), "--out", str(out), "--sandbox", "embedded", "--explain", "--on-error", "skip"]) == 0
    lines = capsys.readouterr().out.splitlines()
    explained = lines[lines.index("Rows without success, with their failed tests (rows are counted from 0):") + 1 :]
    assert explained[0] == "row 1: wrong, 9 of 10 tests passed"
    assert re.fullmatch(r"  total\(\[\]\): expected None, got 0 \(wrong, [\d.]+ ms\)", explained[1])
    fault = "The answer is the signature of `total` without a body."
    assert explained[2:4] == [
        f"row 2: exception:SyntaxError, 0 of 10 tests passed. {fault}",
        "  all 10 calls: exception:SyntaxError",
    ]
    assert explained[4] == "row 3: no_answer, 0 of 10 tests passed"
    assert (
        explained[5] == "row 4: wrong, 0 of 10 tests passed"
        and r"got '\x1b[31m\nxxx" in explained[6]
        and "[cut]" in explained[6]
    )
    assert explained[16].startswith("exception:SyntaxError: the program raised an exception") and len(explained) == 19
    assert all(" " <= character <= "~" for line in lines for character in line)
    assert [score["outcome"] for score in _scores(out)][-2:] == ["ungradable", "malformed"]


def test_help_says_what_each_outcome_means(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "not_serialisable  the value is of a type that is not compared" in text and "--explain" in text
