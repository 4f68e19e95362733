"""Task sources by name: ``embedded:train``, a path to a file of rows, ``hub:OWNER/DATASET``, or a function ``package.module:function``.

``embedded:train/figures`` has only the tasks of one domain, ``embedded:train?preset=hard`` has tasks at another dial; see
`colbench_gym.tasks.embedded`. Any name may end in a slice: ``embedded:train[:500]``, ``rows.jsonl[100:200]``.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from colbench_gym.errors import TaskError
from colbench_gym.tasks.designs.embedded import embedded_designs
from colbench_gym.tasks.embedded import SPLITS, embedded_tasks
from colbench_gym.tasks.hub import file_of_rows, page_tasks
from colbench_gym.tasks.rows import OnError, RowError, page_from_row, read_tasks, task_from_row
from colbench_gym.tasks.task import Task
from colbench_gym.user_file import SUFFIXES
from sandboxes.lists import refuse_list
from sandboxes.named import load_named, nearest, where

Kind = Literal["program", "page"]
_EMBEDDED = {"program": embedded_tasks, "page": embedded_designs}
_ROWS = {"program": task_from_row, "page": page_from_row}
#: Name of a function that returns tasks.
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_SLICE = re.compile(r"^(.*)\[(-?\d*):(-?\d*)\]$")


def load_tasks(source: str | Sequence[Task], on_error: OnError = "raise", kind: Kind = "program") -> tuple[Task, ...]:
    """Load the tasks of a source.

    Args:
        source: A name (see the module), or a sequence of tasks, which is returned as a tuple.
        on_error: Handling of malformed rows: "raise" raises an error, "skip" skips them and lists them in a warning.
        kind: "program" for tasks of ColBench-Backend, "page" for those of ColBench-Frontend.

    Returns:
        At least one task; ids are unique.

    Raises:
        TaskError: If the source does not exist, cannot be reached, or has no tasks.
        ValueError: If the name has an unknown format.
    """
    if not isinstance(source, str):
        tasks = tuple(source)
        if not tasks:
            raise TaskError("Expected at least one task, got an empty sequence.")
        repeated = [task_id for task_id, count in Counter(task.id for task in tasks).items() if count > 1]
        if repeated:
            raise TaskError(
                f"Expected tasks with different ids, got {len(repeated)} ids more than once, such as {repeated[0]!r}."
            )
        return tasks
    refuse_list("tasks", source, "put the rows into one file, or name a function that returns all, 'package.module:function'")
    match = _SLICE.match(source)
    if match:
        name, start, stop = match.groups()
        tasks = _load(name, on_error, kind)[slice(int(start) if start else None, int(stop) if stop else None)]
        if not tasks:
            raise TaskError(f"The slice of {source!r} is empty; {name!r} holds {len(_load(name, on_error, kind))} tasks.")
        return tasks
    return _load(source, on_error, kind)


def _load(name: str, on_error: OnError, kind: Kind) -> tuple[Task, ...]:
    if name.startswith("embedded:"):
        return _EMBEDDED[kind](name.removeprefix("embedded:"))
    if name.startswith("hub:"):
        return page_tasks(name) if kind == "page" else _from_file(file_of_rows(name), on_error)
    if name.lower().endswith(SUFFIXES) or Path(name).exists():
        return _from_file(Path(name), on_error, kind)
    if FUNCTION.match(name):
        return load_tasks(_from_function(name, kind))
    raise ValueError(
        f"`tasks` must be 'embedded:' and one of {tuple(SPLITS)} (and '/DOMAIN' and '?DIAL'), a path that ends in .jsonl, "
        f"'hub:OWNER/DATASET', or 'package.module:function', got {name!r}.{nearest(name, [f'embedded:{split}' for split in SPLITS])}"
    )


def _from_function(name: str, kind: Kind) -> tuple[Task, ...]:
    """The tasks that a function returns: tasks, or rows as in ColBench's files, whose ids are then "package.module:function/NUMBER"."""
    function = load_named("tasks", name)
    if not callable(function):
        raise ValueError(f"`tasks` must name a function, got {name!r}, which is of type {type(function).__name__}.")
    try:
        returned = function()
        is_many = isinstance(returned, Iterable) and not isinstance(returned, str | Mapping)
        items: list[Any] = list(returned) if is_many else [returned]
    except TaskError:
        raise
    except Exception as error:  # a user-defined function may fail in any way
        raise TaskError(f"`tasks`: the function {name!r} fails ({where(error)}).") from error
    return tuple(_from_item(item, name, i, kind) for i, item in enumerate(items))


def _from_item(item: Any, name: str, index: int, kind: Kind) -> Task:
    if isinstance(item, Task):
        return item
    if not isinstance(item, Mapping):
        raise TaskError(
            f"`tasks`: the function {name!r} must return tasks (`colbench_gym.tasks.Task`) or rows (mappings with problem_description, "
            f"ground_truth and test_cases), got {type(item).__name__} as number {index}."
        )
    return replace(_ROWS[kind](item, Path(name), index + 1), id=f"{name}/{index}")


def _from_file(path: Path, on_error: OnError, kind: Kind = "program") -> tuple[Task, ...]:
    skipped: list[RowError] = []
    tasks = tuple(read_tasks(path, on_error, skipped, _ROWS[kind]))
    if skipped:
        listed = "\n".join(f"  line {error.line}, field {error.field!r}" for error in skipped)
        warnings.warn(f"{path}: {len(skipped)} malformed rows left out, {len(tasks)} kept:\n{listed}", stacklevel=3)
    return tasks
