"""ColBench's JSONL rows: read without loss, refused with file, line and field."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

from colbench_gym.errors import TaskError
from colbench_gym.tasks.rows import RowError, answer_from_row, read_tasks, row_from_task, task_from_row

ROW = {
    "problem_description": "I need a total.The signature of the function is: def total(prices, tax=0)",
    "ground_truth": "def total(prices, tax=0):\n    return sum(prices) + tax",
    "hidden_information": "def total(prices, tax=0):\n    return sum(prices) + tax",
    "test_cases": {f"test{i}": f"total([{i}], 1)" for i in range(1, 11)},
    "extra": {"kept": [1, 2.5, None, "ü"]},
}
TRAJECTORY = {
    "task": ROW,
    "dialogue_history": [
        {"role": "user", "content": "I need a total."},
        {"role": "assistant", "content": "Tax?", "input": "<prompt>", "output": "thought OUTPUT: Tax?"},
    ],
    "answer": "def total(p, t=0): return 0",
    "reward": 0.0,
}


def _write(path, *rows):
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_a_task_row_is_read_without_loss(tmp_path):
    (task,) = read_tasks(_write(tmp_path / "rows.jsonl", ROW))
    assert (task.id, task.signature, task.function_name) == ("rows/0", "def total(prices, tax=0)", "total")
    assert task.description == ROW["problem_description"]
    assert task.hidden.reference == ROW["ground_truth"] and task.hidden.calls == tuple(ROW["test_cases"].values())
    assert json.dumps(row_from_task(task)) == json.dumps(ROW)


def test_trajectory_rows_are_tasks_as_well(tmp_path):
    tasks = read_tasks(_write(tmp_path / "rows.jsonl", TRAJECTORY, b"", ROW))
    assert [task.id for task in tasks] == ["rows/0", "rows/2"]
    assert [row_from_task(task) for task in tasks] == [ROW, ROW]


def test_a_task_of_ours_makes_the_round_trip_as_a_row(tmp_path, total_task):
    task = total_task()
    (again,) = read_tasks(_write(tmp_path / "rows.jsonl", row_from_task(task)))
    assert (again.description, again.signature) == (task.description, "def total(prices)")
    assert (again.hidden.reference, again.hidden.calls) == (task.hidden.reference, task.hidden.calls)


def test_the_signature_comes_from_the_reference_where_the_description_has_none(tmp_path):
    row = {**ROW, "problem_description": "I need a total."}
    (task,) = read_tasks(_write(tmp_path / "rows.jsonl", row))
    assert task.signature == "def total(prices, tax=0)"


def test_the_answer_of_a_row():
    assert answer_from_row(TRAJECTORY, "f", 1) == TRAJECTORY["answer"]
    assert answer_from_row({"task": ROW}, "f", 1) is None
    assert answer_from_row({**TRAJECTORY, "answer": None}, "f", 1) is None
    assert answer_from_row(ROW, "f", 1) == ROW["ground_truth"]
    assert answer_from_row({**ROW, "answer": "x"}, "f", 1) == "x"
    with pytest.raises(
        RowError, match=r"^f, line 3, field 'answer': expected a text or null, got 7\. Correct the row, or pass"
    ):
        answer_from_row({"task": ROW, "answer": 7}, "f", 3)


CHANGES = [
    ("problem_description", None, "a non-empty text, got None"),
    ("problem_description", " ", "a non-empty text, got ' '"),
    ("ground_truth", 5, "the source of a function, got 5"),
    ("ground_truth", "def f(:", "Python source that compiles, got 'def f(:'"),
    ("ground_truth", "x\0", "Python source that compiles, got 'x\\x00'"),
    ("ground_truth", "x = 1", "source that defines a function, got 'x = 1'"),
    ("hidden_information", ["a"], "a text, got ['a']"),
    ("test_cases", [], "a table of test name to call, got []"),
    ("test_cases", {}, "a table of test name to call, got {}"),
]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("field", "value", "text"), CHANGES)
def test_a_malformed_field_is_refused_with_its_place(tmp_path, field, value, text, nested):
    bad = {**ROW, field: value}
    path = _write(tmp_path / "rows.jsonl", ROW, {"task": bad} if nested else bad)
    prefix = "task." if nested else ""
    advice = "Correct the row, or pass on_error='skip' to leave such rows out."
    with pytest.raises(RowError) as caught:
        read_tasks(path)
    message = re.sub(r"compiles \(.*\), got", "compiles, got", str(caught.value))  # the compiler's words vary with Python
    assert message == f"{path}, line 2, field '{prefix}{field}': expected {text}. {advice}"
    assert (caught.value.line, caught.value.field) == (2, prefix + field)


@pytest.mark.parametrize("missing", ["problem_description", "ground_truth", "test_cases"])
def test_a_missing_field_is_refused(tmp_path, missing):
    row = {key: value for key, value in ROW.items() if key != missing}
    with pytest.raises(RowError, match=f"line 1, field '{missing}': expected .*, got a row of '"):
        read_tasks(_write(tmp_path / "rows.jsonl", row))


def test_a_call_that_is_none_is_refused_by_its_name(tmp_path):
    for call, text in (
        (7, "a call of the function, got 7"),
        ("total(", "a Python expression, such as a call, that compiles"),
        ("x = 1", "a Python expression"),
        ("assert total([1]) == 1", "a Python expression"),
    ):
        row = {**ROW, "test_cases": {**ROW["test_cases"], "test4": call}}
        with pytest.raises(RowError, match=re.escape(f"field 'test_cases.test4': expected {text}")):
            read_tasks(_write(tmp_path / "rows.jsonl", row))


@pytest.mark.parametrize("line", [b"[1]", b"7", b"{", b"not json", b'{"a": "\xff"}', b"[" * 100_000])
def test_a_line_that_is_no_row_is_refused(tmp_path, line):
    with pytest.raises(RowError, match=r"line 2, field '\(the line\)': expected a JSON object.*, got ") as caught:
        read_tasks(_write(tmp_path / "rows.jsonl", ROW, line))
    assert len(str(caught.value)) < 500


def test_a_task_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(RowError, match="line 1, field 'task': expected a task row, got 'x'"):
        read_tasks(_write(tmp_path / "rows.jsonl", {"task": "x"}))


def test_skipping_leaves_out_counts_and_lists(tmp_path):
    skipped = []
    path = _write(tmp_path / "rows.jsonl", b"{", ROW, {**ROW, "ground_truth": ""}, ROW)
    assert [task.id for task in read_tasks(path, "skip", skipped)] == ["rows/1", "rows/3"]
    assert [(error.line, error.field) for error in skipped] == [(1, "(the line)"), (3, "ground_truth")]


def test_a_file_without_tasks_is_refused(tmp_path):
    missing = tmp_path / "none.jsonl"
    with pytest.raises(TaskError) as caught:
        read_tasks(missing)
    assert (
        str(caught.value)
        == f"Expected a JSONL file of tasks at {str(missing)!r}, found none; give the path of an existing file."
    )
    with pytest.raises(
        TaskError, match=r"empty\.jsonl holds no task row; a task row has problem_description, ground_truth and"
    ):
        read_tasks(_write(tmp_path / "empty.jsonl"))
    with pytest.raises(ValueError, match=r"^`on_error` must be 'raise' or 'skip', got 'ignore'\.$"):
        read_tasks(_write(tmp_path / "rows.jsonl", ROW), "ignore")


def test_a_row_error_survives_pickling(tmp_path):
    error = RowError(tmp_path, 3, "answer", "a text", 7)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line, again.field) == (str(error), 3, "answer")


def test_an_asynchronous_reference_is_a_function(tmp_path):
    row = {**ROW, "ground_truth": "async def total(prices):\n    return 1"}
    assert task_from_row(row, tmp_path / "x.jsonl", 1).function_name == "total"


def test_nulls_as_datasets_writes_them_are_absent(tmp_path):
    filled = {
        **ROW,
        "hidden_information": None,
        "test_cases": {**ROW["test_cases"], "test11": None, "test12": None},
        "task": None,
        "answer": None,
    }
    nested = {
        "task": {**ROW, "hidden_information": None, "test_cases": {"test0": None, "test1": "total([1])"}},
        "problem_description": None,
        "answer": "x",
    }
    tasks = read_tasks(_write(tmp_path / "rows.jsonl", filled, nested))
    assert [task.hidden.calls for task in tasks] == [tuple(ROW["test_cases"].values()), ("total([1])",)]
    assert row_from_task(tasks[0]) == filled and row_from_task(tasks[1]) == nested["task"]
    assert answer_from_row(filled, "f", 1) == ROW["ground_truth"] and answer_from_row(nested, "f", 1) == "x"
    assert (
        answer_from_row({**nested, "answer": None}, "f", 1) is None and answer_from_row({**ROW, "answer": None}, "f", 1) is None
    )
    for tests in (None, {"test1": None}):
        with pytest.raises(RowError, match="field 'test_cases': expected a table of test name to call, got "):
            read_tasks(_write(tmp_path / "rows.jsonl", {**ROW, "test_cases": tests}))


def test_a_byte_order_mark_in_a_reference_is_no_part_of_it():
    row = {**ROW, "ground_truth": "\ufeff" + ROW["ground_truth"]}
    assert task_from_row(row, Path("f"), 1).hidden.reference == ROW["ground_truth"] == answer_from_row(row, Path("f"), 1)
