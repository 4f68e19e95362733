"""Read and write ColBench's rows without loss.

A task row has `problem_description`, `ground_truth`, `hidden_information` and `test_cases` ({"test1": call, ...}).
A trajectory row has such a row under `task`, and `dialogue_history`, `answer` and `reward`. A null, as `datasets` writes for what a row lacks, is
read as absent. `colbench_gym.user_file` reads the files, `colbench_gym.tasks.function` says which function the tests call.

Files are untrusted. A row is malformed if it has another format, is too long (`MAX_ROW_BYTES`), or holds a text that is too long
(`MAX_TEXT_CHARS`, for pages `sandboxes.pages.page.MAX_CHARS`), too many calls (`MAX_CALLS`), too deeply nested Python (`MAX_DEPTH`) or
text that UTF-8 cannot encode. ColBench's own rows stay below a fortieth of the lengths and a tenth of the depth.
"""

from __future__ import annotations

import ast
import hashlib
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from colbench_gym.errors import TaskError
from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.tasks.function import definitions, head, used_names
from colbench_gym.tasks.task import HiddenTask, Task, name_in
from colbench_gym.user_file import Ordinal, parse_row, row_texts, stem
from sandboxes.pages.page import MAX_CHARS as MAX_PAGE_CHARS

OnError = Literal["raise", "skip"]
MAX_TEXT_CHARS, MAX_CALLS, MAX_DEPTH = 50_000, 1_000, 200
#: Maximal bits of an integer in the Python source of a row. Python converts at most 4,300 digits to decimal.
MAX_BITS = 14_284
_SIGNATURE = re.compile(r"The signature of the function is:?\s*(def\s.*)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_SHOWN = 80
_BOM = "\ufeff"
#: Cache of checked sources: hash -> heads of the functions that the tests use. A file may have many rows of a task, and is often read twice.
_checked: dict[bytes, dict[str, str]] = {}
_MOST_CHECKED = 10_000


class RowError(TaskError):
    """A malformed row: file, line and field."""

    def __init__(self, path: Path, line: int, field: str, expected: str, got: object) -> None:
        """Build the message from the expected and the actual value of `field`."""
        name = field if field.isprintable() else ascii(field)
        super().__init__(
            f"{path}, {_unit(line)} {line}, field '{_cut(name)}': expected {expected}, got {_cut(repr(got))}. "
            "Correct the row, or pass on_error='skip' to leave such rows out."
        )
        self.line, self.field = line, field
        self._arguments = (path, line, field, expected, got)

    def __reduce__(self) -> tuple[type[RowError], tuple[Any, ...]]:
        return type(self), self._arguments


def read_rows(
    path: str | Path, on_error: OnError = "raise", skipped: list[RowError] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number from 1, row) of a file in a format of `colbench_gym.user_file`; the number is that of the line, if rows are lines.

    Raises:
        TaskError: If the file does not exist, has another format, or is damaged.
        RowError: If a row is not a JSON object and `on_error` is "raise".
    """
    path = Path(path)
    for number, text in row_texts(path):
        row, problem = parse_row(text)
        may_be_deep = text.count(b"{") + text.count(b"[") >= MAX_DEPTH - 2
        if row is not None and may_be_deep and _is_deeper([row], MAX_DEPTH, _inner_values):
            row, problem = None, f"JSON nested at most {MAX_DEPTH} deep"
        if row is None:
            _refuse(RowError(path, number, f"(the {_unit(number)})", problem, text[:_MAX_SHOWN]), on_error, skipped)
        else:
            yield number, row


def read_tasks(
    path: str | Path,
    on_error: OnError = "raise",
    skipped: list[RowError] | None = None,
    from_row: Callable[[Mapping[str, Any], Path, int], Task] | None = None,
) -> list[Task]:
    """Read all tasks of a file with task rows or trajectory rows. All rows are checked before any program runs.

    Args:
        path: The file.
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


class _Absent(str):
    """The fields of a row that lacks one, as an error shows them."""

    def __repr__(self) -> str:
        return f"a row of {self}" if self else "a row without fields"


class _Fields:
    """The fields of a task row, or of the `task` of a trajectory row."""

    def __init__(self, row: Mapping[str, Any], path: Path, line: int) -> None:
        self.path, self.line, self.row, self.prefix = path, line, row, ""
        if row.get("task") is not None:
            if not isinstance(row["task"], dict):
                raise RowError(path, line, "task", "a task row", row["task"])
            self.row, self.prefix = row["task"], "task."

    def error(self, field: str, expected: str, got: object) -> RowError:
        """The error of a field."""
        return RowError(self.path, self.line, self.prefix + field, expected, got)

    def take(self, field: str, kind: type, expected: str, is_valid: Callable[[Any], bool] = bool) -> Any:
        value = self.row.get(field)
        if not isinstance(value, kind) or not is_valid(value):
            raise self.error(field, expected, value if field in self.row else _Absent(", ".join(map(repr, self.row))))
        return value

    def text(self, field: str, expected: str, is_valid: Callable[[str], bool], most: int = MAX_TEXT_CHARS) -> str:
        """A text of at most `most` characters that can be encoded as UTF-8."""
        value: str = self.take(field, str, expected, is_valid)
        self.check_text(field, value, most)
        return value

    def check_text(self, field: str, value: str, most: int = MAX_TEXT_CHARS) -> None:
        if len(value) > most:
            raise self.error(field, f"at most {most} characters", value[:_MAX_SHOWN])
        if not value.isascii() and _SURROGATE.search(value):
            raise self.error(field, "text without half surrogate pairs", value)


def page_from_row(row: Mapping[str, Any], path: Path, line: int) -> Task:
    """Build a page task from a row of ColBench-Frontend, or from the `task` of a trajectory row: a description and HTML.

    Raises:
        RowError: If a field is missing or not a text.
    """
    fields = _Fields(row, path, line)
    description = fields.text("problem_description", "a non-empty text", _has_text)
    html = fields.text("ground_truth", "the source of a page", lambda text: "<" in text, MAX_PAGE_CHARS)
    return Task(f"{stem(path)}/{line - 1}", description, "", HiddenTask(html, (), row=dict(fields.row)))


def task_from_row(row: Mapping[str, Any], path: Path, line: int) -> Task:
    """Build a task from a task row, or from the `task` of a trajectory row.

    Raises:
        RowError: If a field is missing or has another type than in ColBench.
    """
    fields = _Fields(row, path, line)
    inner = fields.row
    description = fields.text("problem_description", "a non-empty text", _has_text)
    reference = fields.text("ground_truth", "the source of a function", _has_text).removeprefix(_BOM)
    if inner.get("hidden_information") is not None:
        fields.text("hidden_information", "a text", lambda text: True)
    tests = fields.take("test_cases", dict, "a table of test name to call", _has_values)
    tests = {name: call for name, call in tests.items() if call is not None}
    if len(tests) > MAX_CALLS:
        raise fields.error("test_cases", f"at most {MAX_CALLS} calls", f"{len(tests)} calls")
    for name, call in tests.items():
        if not isinstance(call, str):
            raise fields.error(f"test_cases.{name}", "a call of the function", call)
        fields.check_text(f"test_cases.{name}", call)
    signature = _signature(description, _checked_heads(reference, tests, fields), fields)
    return Task(
        id=f"{stem(path)}/{line - 1}",
        description=description,
        signature=signature,
        hidden=HiddenTask(reference, tuple(tests.values()), row=dict(inner)),
    )


def answer_from_row(row: Mapping[str, Any], path: Path, line: int) -> str | None:
    """The answer of a trajectory row; None if it has none. The answer of a task row is its own reference.

    Raises:
        RowError: If the answer is neither a text nor null.
    """
    is_null = (
        "task" in row and row["task"] is None and row.get("answer") is None
    )  # the columns of other rows, as `datasets` fills them
    if is_null or ("task" not in row and "answer" not in row):
        return str(_Fields(row, path, line).take("ground_truth", str, "the source of a function", _has_text)).removeprefix(_BOM)
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


def _has_values(table: Mapping[str, Any]) -> bool:
    """Whether a table has a value; `datasets` fills the keys that other rows have with null."""
    return any(value is not None for value in table.values())


def _checked_heads(reference: str, tests: Mapping[str, str], fields: _Fields) -> dict[str, str]:
    """Check the source of a reference and its tests.

    Returns:
        The head of each name of the reference that the tests use, that of the task's function first. Cached, as many rows may share a task.
    """
    key = hashlib.sha256(repr((reference, tuple(tests.items()))).encode()).digest()
    heads = _checked.get(key)
    if heads is None:
        known = definitions(_parse(reference, "exec", fields, "ground_truth"))
        if not known:
            raise fields.error("ground_truth", "source that defines a function", reference)
        used = used_names([_parse(call.strip(), "eval", fields, f"test_cases.{name}") for name, call in tests.items()], known)
        if not used:
            wanted = f"calls of what the reference defines ({_cut(', '.join(known))})"
            raise fields.error("test_cases", wanted, next(iter(tests.values())))
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        try:
            heads = _checked[key] = {name: head(name, known[name]) for name in used}
        except ValueError as error:  # an f-string that `ast.unparse` of Python 3.11 cannot write
            wanted = f"a function whose parameters can be written out ({error})"
            raise fields.error("ground_truth", wanted, reference) from None
    return heads


def _parse(source: str, mode: str, fields: _Fields, field: str) -> Any:
    try:
        tree = parse_source(source, mode)
    except PARSE_ERRORS as error:
        why = f"{error}; this is Python {platform.python_version()}"
        what = "Python source" if mode == "exec" else "a Python expression, such as a call,"
        raise fields.error(field, f"{what} that compiles ({why})", source) from None
    if len(source) >= MAX_DEPTH - 10 and _is_deeper(
        [tree], MAX_DEPTH, ast.iter_child_nodes
    ):  # each level takes at least one character
        raise fields.error(field, f"Python source nested at most {MAX_DEPTH} deep", source)
    numbers = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, int))
    if len(source) >= MAX_BITS // 4 and any(number.bit_length() > MAX_BITS for number in numbers):
        raise fields.error(field, f"integers of at most {MAX_BITS} bits", source)
    return tree


def _is_deeper(level: list[Any], most: int, inner: Callable[[Any], Iterable[Any]]) -> bool:
    """True for a tree with more than `most` levels."""
    while level and most:
        level, most = [child for node in level for child in inner(node)], most - 1
    return bool(level)


def _inner_values(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _signature(description: str, heads: Mapping[str, str], fields: _Fields) -> str:
    """The signature of the task's function: as the request states it for a name that the tests use, else from the reference.

    Raises:
        RowError: If the request states the signature of another function, and does not mention the one that the tests call.
    """
    name, match = next(iter(heads)), _SIGNATURE.search(description)
    stated = match.group(1).rstrip().rstrip(":") if match else ""
    if name_in(stated) in heads:
        return stated
    if stated and not re.search(rf"\b{re.escape(name)}\b", description):
        raise fields.error("problem_description", f"the signature of the function that the tests call ({name})", stated)
    return heads[name]


def _unit(number: int) -> str:
    return "row" if isinstance(number, Ordinal) else "line"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _refuse(error: RowError, on_error: OnError, skipped: list[RowError] | None) -> None:
    if on_error == "raise":
        raise error
    if skipped is not None:
        skipped.append(error)
