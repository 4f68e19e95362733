"""ColBench's own JSONL rows, read and written without loss.

A task row has `problem_description`, `ground_truth`, `hidden_information` and `test_cases` ({"test1": call, ...}).
A trajectory row has such a row under `task`, and `dialogue_history`, `answer` and `reward`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from colbench_gym.errors import TaskError
from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.tasks.task import HiddenTask, Task

OnError = Literal["raise", "skip"]
_SIGNATURE = re.compile(r"The signature of the function is:?\s*(def\s.*?)\s*$", re.DOTALL)


class RowError(TaskError):
    """A malformed row: file, line and field."""

    def __init__(self, path: Path, line: int, field: str, expected: str, got: object) -> None:
        """Say what stood in `field` and what should have."""
        shown = repr(got)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        super().__init__(
            f"{path}, line {line}, field '{field}': expected {expected}, got {shown}. "
            "Correct the row, or pass on_error='skip' to leave such rows out."
        )
        self.line, self.field = line, field
        self._arguments = (path, line, field, expected, got)

    def __reduce__(self) -> tuple[type[RowError], tuple[Any, ...]]:
        return type(self), self._arguments


def read_rows(
    path: str | Path, on_error: OnError = "raise", skipped: list[RowError] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, row) of a JSONL file.

    Raises:
        TaskError: If the file does not exist.
        RowError: If a line is no JSON object and `on_error` is "raise".
    """
    path = Path(path)
    if not path.is_file():
        raise TaskError(f"Expected a JSONL file of tasks at {str(path)!r}, found none; give the path of an existing file.")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8"))
                problem = "" if isinstance(row, dict) else "a JSON object"
            except (ValueError, RecursionError) as error:
                row, problem = line.strip(), f"a JSON object ({error})"
            if problem:
                _refuse(RowError(path, number, "(the line)", problem, row), on_error, skipped)
                continue
            yield number, row


def read_tasks(
    path: str | Path,
    on_error: OnError = "raise",
    skipped: list[RowError] | None = None,
    from_row: Callable[[Mapping[str, Any], Path, int], Task] | None = None,
) -> list[Task]:
    """Read every task of a file of task rows or trajectory rows, all rows checked before anything runs.

    Args:
        path: The JSONL file.
        on_error: "raise" stops at the first malformed row; "skip" leaves it out.
        skipped: Receives the error of each row left out.
        from_row: Builds a task of a row, its file and its line; None for `task_from_row`.

    Raises:
        TaskError: If the file does not exist or holds no task.
        RowError: If a row is malformed and `on_error` is "raise".
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"`on_error` must be 'raise' or 'skip', got {on_error!r}.")
    path = Path(path)
    tasks = []
    for number, row in read_rows(path, on_error, skipped):
        try:
            tasks.append((from_row or task_from_row)(row, path, number))
        except RowError as error:
            _refuse(error, on_error, skipped)
    if not tasks:
        raise TaskError(f"{path} holds no task row; a task row has problem_description, ground_truth and test_cases.")
    return tasks


class _Fields:
    """The fields of a task row, or of the `task` of a trajectory row."""

    def __init__(self, row: Mapping[str, Any], path: Path, line: int) -> None:
        self.path, self.line, self.row, self.prefix = path, line, row, ""
        if "task" in row:
            if not isinstance(row["task"], dict):
                raise RowError(path, line, "task", "a task row", row["task"])
            self.row, self.prefix = row["task"], "task."

    def take(self, field: str, kind: type, expected: str, is_valid: Callable[[Any], bool] = bool) -> Any:
        value = self.row.get(field)
        if not isinstance(value, kind) or not is_valid(value):
            raise RowError(self.path, self.line, self.prefix + field, expected, value)
        return value


def page_from_row(row: Mapping[str, Any], path: Path, line: int) -> Task:
    """Build a page task from a row of ColBench-Frontend, or from the `task` of a trajectory row: a description and HTML.

    Raises:
        RowError: If a field is missing or no text.
    """
    fields = _Fields(row, path, line)
    description = fields.take("problem_description", str, "a non-empty text", _has_text)
    html = fields.take("ground_truth", str, "the source of a page", lambda text: "<" in text)
    return Task(f"{path.stem}/{line - 1}", description, "", HiddenTask(html, (), row=dict(fields.row)))


def task_from_row(row: Mapping[str, Any], path: Path, line: int) -> Task:
    """Build a task from a task row, or from the `task` of a trajectory row.

    Raises:
        RowError: If a field is missing or of another type than ColBench's.
    """
    fields = _Fields(row, path, line)
    take, inner, prefix = fields.take, fields.row, fields.prefix
    description = take("problem_description", str, "a non-empty text", _has_text)
    reference = take("ground_truth", str, "the source of a function", _has_text)
    if "hidden_information" in inner:
        take("hidden_information", str, "a text", lambda text: True)
    tests = take("test_cases", dict, "a table of test name to call")
    functions = [
        node
        for node in _parse(reference, "exec", path, line, prefix + "ground_truth").body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if not functions:
        raise RowError(path, line, prefix + "ground_truth", "source that defines a function", reference)
    for name, call in tests.items():
        field = f"{prefix}test_cases.{name}"
        if not isinstance(call, str):
            raise RowError(path, line, field, "a call of the function", call)
        _parse(call.strip(), "eval", path, line, field)
    return Task(
        id=f"{path.stem}/{line - 1}",
        description=description,
        signature=_signature(description, functions[-1]),
        hidden=HiddenTask(reference, tuple(tests.values()), row=dict(inner)),
    )


def answer_from_row(row: Mapping[str, Any], path: Path, line: int) -> str | None:
    """The answer in a trajectory row, None where it has none; a task row alone answers with its own reference.

    Raises:
        RowError: If the answer is neither a text nor null.
    """
    if "task" not in row and "answer" not in row:
        return str(row["ground_truth"])
    answer = row.get("answer")
    if answer is not None and not isinstance(answer, str):
        raise RowError(path, line, "answer", "a text or null", answer)
    return answer


def row_from_task(task: Task) -> dict[str, Any]:
    """The task as ColBench's row; the row it was read from where there is one."""
    if task.hidden.row:
        return dict(task.hidden.row)
    return {
        "problem_description": task.description,
        "ground_truth": task.hidden.reference,
        "hidden_information": task.hidden.reference,
        "test_cases": {f"test{i}": call for i, call in enumerate(task.hidden.calls, start=1)},
    }


def _has_text(value: str) -> bool:
    return bool(value.strip())


def _parse(source: str, mode: str, path: Path, line: int, field: str) -> Any:
    try:
        return parse_source(source, mode)
    except PARSE_ERRORS as error:
        raise RowError(path, line, field, f"Python source that compiles ({error})", source) from None


def _signature(description: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    match = _SIGNATURE.search(description)
    return match.group(1).rstrip(":") if match else f"def {function.name}({ast.unparse(function.args)})"


def _refuse(error: RowError, on_error: OnError, skipped: list[RowError] | None) -> None:
    if on_error == "raise":
        raise error
    if skipped is not None:
        skipped.append(error)
