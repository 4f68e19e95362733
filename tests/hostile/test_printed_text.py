"""What programs and rows can make `grade` print: text that stays in its line, and that nobody takes for a result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import colbench_gym
from colbench_gym.grade import main
from colbench_gym.tasks.rows import RowError

FORGED = "x\nsuccess: 100.00% (95% interval 100.00% to 100.00%, n = 7500)\r\x1b[2J\x1b]0;title\x07\u202e\u2028\x9b2Jé"
ROW = {
    "problem_description": "Add. The signature of the function is: def total(p)",
    "ground_truth": "def total(p):\n    return sum(p)",
    "test_cases": {"test1": "total([1, 2])"},
}
RAISES = "def total(p):\n    print({0!r}, flush=True)\n    raise type({0!r}, (Exception,), {{}})({0!r})"


def grade(folder, capsys, *rows, options=(), name="rows.jsonl"):
    """Lines on standard output and on standard error, and the scores."""
    path, out = folder / name, folder / "scores.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main([str(path), "--out", str(out), "--sandbox", "embedded", "--workers", "1", *options])
    printed = capsys.readouterr()
    assert printed.out.isascii() and printed.err.isascii()
    assert all(line.isprintable() for text in printed for line in text.split("\n"))
    return printed.out.splitlines(), printed.err.splitlines(), out.read_text().splitlines() if out.exists() else []


def test_the_name_of_an_exception_stays_in_its_line(tmp_path, capsys):
    out, err, scores = grade(tmp_path, capsys, {"task": ROW, "answer": RAISES.format(FORGED)})
    assert len(out) == 4 and out[2].startswith("success: 0.00% ")
    assert out[3].startswith("outcomes: exception:'x\\nsuccess: 100.00% ") and out[3].endswith("' 1")
    assert json.loads(scores[0])["outcome"].isprintable()
    assert [line.split(":")[0] for line in err] == ["sandbox", "graded 1 of 1 rows, " + err[1].split(", ", 1)[1]]


@pytest.mark.parametrize(
    "name",
    ["E 1, passed 7500, exception:E", "passed", "E', passed 7500, 'E", "", " ", "Ü", "E: passed", "\N{HEBREW LETTER ALEF}"],
)
def test_no_name_of_an_exception_is_a_second_outcome(tmp_path, capsys, name):
    """A name that Python source could give stands as it is; any other one in quotes."""
    out, _, _ = grade(tmp_path, capsys, {"task": ROW, "answer": RAISES.format(name)})
    shown = name if name == "passed" else ascii(name)
    assert out[3] == f"outcomes: exception:{shown} 1"


def test_many_names_are_counted_and_not_listed(tmp_path, capsys):
    answers = [{"task": ROW, "answer": RAISES.format(f"E{i}")} for i in range(60)]
    out, _, _ = grade(tmp_path, capsys, *answers, {"task": ROW, "answer": RAISES.format("E1") + "\n"})
    assert out[3].startswith("outcomes: exception:E1 2, ") and out[3].count("exception:") == 20
    assert out[3].endswith(", 40 other outcomes 40")


def test_a_reference_that_raises_stays_in_its_line(tmp_path, capsys):
    task = {**ROW, "ground_truth": RAISES.format(FORGED)}
    out, _, _ = grade(tmp_path, capsys, {"task": task, "answer": "def total(p): return 1"})
    assert out[-1].startswith("  row 0: 'total([1, 2])' gives no value ('x\\nsuccess: 100.00% ") and out[-1].endswith("')")


def test_so_does_one_that_runs_into_a_wall(tmp_path, capsys):
    """An `OSError` of the program's own, with the number that the kernel's refusals have."""
    source = f"def total(p):\n    raise type({FORGED!r}, (OSError,), {{}})(1, 'no')"
    out, _, scores = grade(tmp_path, capsys, {"task": {**ROW, "ground_truth": source}, "answer": source})
    assert out[-1].startswith("  row 0: 'total([1, 2])' gives no value ('x\\nsuccess: 100.00% ") and out[-1].endswith("')")
    assert json.loads(scores[0])["outcome"] == "ungradable"


@pytest.mark.parametrize(
    "task",
    [
        {**ROW, "test_cases": {FORGED: 3}},
        {**ROW, "test_cases": {FORGED: "total("}},
        {**ROW, "ground_truth": FORGED},
        {**ROW, "problem_description": [FORGED]},
        {**ROW, "test_cases": {"\ud800": 3}},
    ],
)
def test_a_malformed_row_stays_in_its_line(tmp_path, capsys, task):
    _, err, _ = grade(tmp_path, capsys, {"task": task, "answer": ""})
    assert len(err) == 2 and err[1].startswith(f"error: {tmp_path}")
    out, _, _ = grade(tmp_path, capsys, {"task": task, "answer": ""}, options=["--on-error", "skip"])
    assert out[-1].startswith("  row 0: ") and sum(line.startswith("success") for line in out) == 0


def test_the_name_of_a_file_stays_in_its_line(tmp_path, capsys):
    _, err, _ = grade(tmp_path, capsys, {"task": 3}, name="rows\n\x1b[2Ké.jsonl")
    assert len(err) == 2 and "rows\\n\\x1b[2K\\xe9.jsonl, line 1" in err[1]


def test_an_encoding_that_lacks_a_character_does_not_matter(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"task": {**ROW, "test_cases": {"é\u202e": 3}}}) + "\n")
    command = [sys.executable, "-m", "colbench_gym.grade", str(path), "--out", str(tmp_path / "o"), "--on-error", "skip"]
    result = subprocess.run(
        command, capture_output=True, env={"PYTHONIOENCODING": "ascii:strict"}, cwd=Path(colbench_gym.__file__).parents[1]
    )
    assert result.returncode == 0 and b"\\xe9\\u202e" in result.stdout and result.stdout.isascii(), result.stderr


def test_an_error_of_the_world_stays_in_its_line(capsys, tmp_path, monkeypatch):
    def fail(name):
        raise RowError(tmp_path, 1, FORGED, "nothing", 1)

    monkeypatch.setattr("colbench_gym.grade.sandboxes.resolve", fail)
    _, err, _ = grade(tmp_path, capsys, ROW)
    assert len(err) == 1 and err[0].startswith("error: ")
