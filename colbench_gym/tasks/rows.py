"""Read and write ColBench's JSONL rows without loss.

A task row has `problem_description`, `ground_truth`, `hidden_information` and `test_cases` ({"test1": call, ...}).
A trajectory row has such a row under `task`, and `dialogue_history`, `answer` and `reward`.

Files are untrusted. A row is malformed if it has another format, is too long (`MAX_ROW_BYTES`), or holds a text that is too long
(`MAX_TEXT_CHARS`, for pages `sandboxes.pages.page.MAX_CHARS`), too many calls (`MAX_CALLS`), too deeply nested Python (`MAX_DEPTH`) or
text that UTF-8 cannot encode. ColBench's own rows stay below a fortieth of the lengths and a tenth of the depth.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

from colbench_gym.errors import TaskError
from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.tasks.task import HiddenTask, Task
from sandboxes.pages.page import MAX_CHARS as MAX_PAGE_CHARS

OnError = Literal["raise", "skip"]
MAX_ROW_BYTES = 16 * 2**20
MAX_TEXT_CHARS, MAX_CALLS, MAX_DEPTH = 50_000, 1_000, 200
#: Maximal bits of an integer in the Python source of a row. Python converts at most 4,300 digits to decimal.
MAX_BITS = 14_284
_SIGNATURE = re.compile(r"The signature of the function is:?\s*(def\s.*)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_SHOWN = 80
#: Cache of checked sources: hash -> head of the function. A file may have many rows of a task, and is often read twice.
_checked: dict[bytes, str] = {}
_MOST_CHECKED = 10_000


class RowError(TaskError):
    """A malformed row: file, line and field."""

    def __init__(self, path: Path, line: int, field: str, expected: str, got: object) -> None:
        """Build the message from the expected and the actual value of `field`."""
        name = field if field.isprintable() else ascii(field)
        super().__init__(
            f"{path}, line {line}, field '{_cut(name)}': expected {expected}, got {_cut(repr(got))}. "
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
        RowError: If a line is not a JSON object and `on_error` is "raise".
    """
    path = Path(path)
    if not path.is_file():
        raise TaskError(f"Expected a JSONL file of tasks at {str(path)!r}, found none; give the path of an existing file.")
    with path.open("rb") as lines:
        for number, line in enumerate(_lines(lines), start=1):
            if not line.strip():
                continue
            if len(line) > MAX_ROW_BYTES:
                expected = f"at most {MAX_ROW_BYTES} bytes"
                _refuse(RowError(path, number, "(the line)", expected, line[:_MAX_SHOWN]), on_error, skipped)
                continue
            try:
                row = json.loads(line.decode("utf-8"))
                problem = "" if isinstance(row, dict) else "a JSON object"
                may_be_deep = line.count(b"{") + line.count(b"[") >= MAX_DEPTH - 2
                if may_be_deep and _is_deeper([row], MAX_DEPTH, _inner_values):
                    row, problem = line[:_MAX_SHOWN], f"JSON nested at most {MAX_DEPTH} deep"
            except (ValueError, RecursionError) as error:
                row, problem = line.strip(), f"a JSON object ({error})"
            if problem:
                _refuse(RowError(path, number, "(the line)", problem, row), on_error, skipped)
                continue
            yield number, row


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines of a file. A longer line is cut to `MAX_ROW_BYTES` plus one byte."""
    while line := file.readline(MAX_ROW_BYTES + 1):
        yield line
        while len(line) > MAX_ROW_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_ROW_BYTES + 1)


def read_tasks(
    path: str | Path,
    on_error: OnError = "raise",
    skipped: list[RowError] | None = None,
    from_row: Callable[[Mapping[str, Any], Path, int], Task] | None = None,
) -> list[Task]:
    """Read all tasks of a file with task rows or trajectory rows. All rows are checked before any program runs.

    Args:
        path: The JSONL file.
        on_error: "raise" stops at the first malformed row; "skip" skips it.
        skipped: List to which the error of each skipped row is appended.
        from_row: Builds a task from a row, its file and its line; None for `task_from_row`.

    Raises:
        TaskError: If the file does not exist or has no tasks.
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

    def text(self, field: str, expected: str, is_valid: Callable[[str], bool], most: int = MAX_TEXT_CHARS) -> str:
        """A text of at most `most` characters that can be encoded as UTF-8."""
        value: str = self.take(field, str, expected, is_valid)
        self.check_text(field, value, most)
        return value

    def check_text(self, field: str, value: str, most: int = MAX_TEXT_CHARS) -> None:
        if len(value) > most:
            raise RowError(self.path, self.line, self.prefix + field, f"at most {most} characters", value[:_MAX_SHOWN])
        if not value.isascii() and _SURROGATE.search(value):
            raise RowError(self.path, self.line, self.prefix + field, "text without half surrogate pairs", value)


def page_from_row(row: Mapping[str, Any], path: Path, line: int) -> Task:
    """Build a page task from a row of ColBench-Frontend, or from the `task` of a trajectory row: a description and HTML.

    Raises:
        RowError: If a field is missing or not a text.
    """
    fields = _Fields(row, path, line)
    description = fields.text("problem_description", "a non-empty text", _has_text)
    html = fields.text("ground_truth", "the source of a page", lambda text: "<" in text, MAX_PAGE_CHARS)
    return Task(f"{path.stem}/{line - 1}", description, "", HiddenTask(html, (), row=dict(fields.row)))


def task_from_row(row: Mapping[str, Any], path: Path, line: int) -> Task:
    """Build a task from a task row, or from the `task` of a trajectory row.

    Raises:
        RowError: If a field is missing or has another type than in ColBench.
    """
    fields = _Fields(row, path, line)
    inner = fields.row
    description = fields.text("problem_description", "a non-empty text", _has_text)
    reference = fields.text("ground_truth", "the source of a function", _has_text)
    if "hidden_information" in inner:
        fields.text("hidden_information", "a text", lambda text: True)
    tests = fields.take("test_cases", dict, "a table of test name to call")
    if len(tests) > MAX_CALLS:
        raise RowError(path, line, fields.prefix + "test_cases", f"at most {MAX_CALLS} calls", f"{len(tests)} calls")
    for name, call in tests.items():
        if not isinstance(call, str):
            raise RowError(path, line, f"{fields.prefix}test_cases.{name}", "a call of the function", call)
        fields.check_text(f"test_cases.{name}", call)
    head = _checked_head(reference, tests, fields)
    return Task(
        id=f"{path.stem}/{line - 1}",
        description=description,
        signature=_signature(description, head),
        hidden=HiddenTask(reference, tuple(tests.values()), row=dict(inner)),
    )


def answer_from_row(row: Mapping[str, Any], path: Path, line: int) -> str | None:
    """The answer of a trajectory row; None if it has none. The answer of a task row is its own reference.

    Raises:
        RowError: If the answer is neither a text nor null.
    """
    if "task" not in row and "answer" not in row:
        return str(_Fields(row, path, line).take("ground_truth", str, "the source of a function", _has_text))
    answer = row.get("answer")
    if answer is not None and not isinstance(answer, str):
        raise RowError(path, line, "answer", "a text or null", answer)
    return answer


def row_from_task(task: Task) -> dict[str, Any]:
    """The task as a ColBench row. If the task was read from a row, it is that row."""
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


def _checked_head(reference: str, tests: Mapping[str, str], fields: _Fields) -> str:
    """Check the source of a reference and its tests, and return the head of its function. Cached, as many rows may share a task."""
    key = hashlib.sha256(repr((reference, tuple(tests.items()))).encode()).digest()
    head = _checked.get(key)
    if head is None:
        tree = _parse(reference, "exec", fields, "ground_truth")
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        if not functions:
            raise RowError(
                fields.path, fields.line, fields.prefix + "ground_truth", "source that defines a function", reference
            )
        for name, call in tests.items():
            _parse(call.strip(), "eval", fields, f"test_cases.{name}")
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        try:
            head = _checked[key] = f"def {functions[-1].name}({ast.unparse(functions[-1].args)})"
        except ValueError as error:  # an f-string that `ast.unparse` of Python 3.11 cannot write
            wanted = f"a function whose parameters can be written out ({error})"
            raise RowError(fields.path, fields.line, fields.prefix + "ground_truth", wanted, reference) from None
    return head


def _parse(source: str, mode: str, fields: _Fields, field: str) -> Any:
    name = fields.prefix + field
    try:
        tree = parse_source(source, mode)
    except PARSE_ERRORS as error:
        raise RowError(fields.path, fields.line, name, f"Python source that compiles ({error})", source) from None
    if len(source) >= MAX_DEPTH - 10 and _is_deeper(
        [tree], MAX_DEPTH, ast.iter_child_nodes
    ):  # each level takes at least one character
        raise RowError(fields.path, fields.line, name, f"Python source nested at most {MAX_DEPTH} deep", source)
    if len(source) >= MAX_BITS // 4 and any(isinstance(node, ast.Constant) and _is_huge(node.value) for node in ast.walk(tree)):
        raise RowError(fields.path, fields.line, name, f"integers of at most {MAX_BITS} bits", source)
    return tree


def _is_huge(value: object) -> bool:
    """True for a number that Python refuses to convert to decimal digits, which a text about the code would need."""
    return isinstance(value, int) and value.bit_length() > MAX_BITS


def _is_deeper(level: list[Any], most: int, inner: Callable[[Any], Iterable[Any]]) -> bool:
    """True for a tree with more than `most` levels."""
    while level and most:
        level, most = [child for node in level for child in inner(node)], most - 1
    return bool(level)


def _inner_values(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _signature(description: str, head: str) -> str:
    match = _SIGNATURE.search(description)
    return match.group(1).rstrip().rstrip(":") if match else head


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _refuse(error: RowError, on_error: OnError, skipped: list[RowError] | None) -> None:
    if on_error == "raise":
        raise error
    if skipped is not None:
        skipped.append(error)
