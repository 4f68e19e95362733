"""Tasks from a function, `module:function`, of tasks or of rows, with slices."""

from __future__ import annotations

import re

import pytest

from colbench_gym.errors import TaskError
from colbench_gym.tasks import HiddenTask, Task, load_tasks

HERE = __name__
ROW = {
    "problem_description": "Add. The signature of the function is: def add(a, b)",
    "ground_truth": "def add(a, b):\n    return a + b",
    "test_cases": {"test1": "add(1, 2)"},
}


def rows():
    return (ROW for _ in range(4))


def tasks():
    return [
        Task(f"mine/{i}", "Add.", "def add(a, b)", hidden=HiddenTask("def add(a, b):\n    return a + b", ("add(1, 2)",)))
        for i in (1, 2)
    ]


def pages():
    return [{"problem_description": "A page.", "ground_truth": "<h1>Hello</h1>"}]


def twice():
    return [*tasks(), *tasks()]


def nothing():
    return []


def numbers():
    return [ROW, 3]


def half_a_row():
    return [ROW, {"problem_description": "Add."}]


def fails():
    raise KeyError("gone")


NO_FUNCTION = 3


def test_rows_become_tasks_with_ids_of_their_places():
    found = load_tasks(f"{HERE}:rows")
    assert [task.id for task in found] == [f"{HERE}:rows/{i}" for i in range(4)]
    assert found[0].signature == "def add(a, b)" and found[0].hidden.calls == ("add(1, 2)",)
    assert [task.id for task in load_tasks(f"{HERE}:rows[1:3]")] == [f"{HERE}:rows/1", f"{HERE}:rows/2"]


def test_tasks_stay_as_they_are():
    assert load_tasks(f"{HERE}:tasks[:1]") == tuple(tasks()[:1])
    (page,) = load_tasks(f"{HERE}:pages", kind="page")
    assert page.hidden.reference == "<h1>Hello</h1>" and page.id == f"{HERE}:pages/0"


@pytest.mark.parametrize(
    ("name", "kind", "error"),
    [
        ("rowz", ValueError, f"`tasks`: the module {HERE!r} has no 'rowz'. Did you mean 'rows'?"),
        ("NO_FUNCTION", ValueError, f"`tasks` must name a function, got '{HERE}:NO_FUNCTION', which is of type int."),
        ("fails", TaskError, f"`tasks`: the function '{HERE}:fails' fails ("),
        ("numbers", TaskError, "ground_truth and test_cases), got int as number 1."),
        ("half_a_row", TaskError, f"{HERE}:half_a_row, line 2, field 'ground_truth': expected "),
        ("twice", TaskError, "Expected tasks with different ids, got 2 ids more than once, such as 'mine/1'."),
        ("nothing", TaskError, "Expected at least one task, got an empty sequence."),
        ("rows[9:]", TaskError, f"The slice of '{HERE}:rows[9:]' is empty; '{HERE}:rows' holds 4 tasks."),
    ],
)
def test_each_wrong_function_has_a_sentence(name, kind, error):
    with pytest.raises(kind, match=re.escape(error)):
        load_tasks(f"{HERE}:{name}")


def test_a_name_near_a_split_is_named():
    with pytest.raises(ValueError, match=r"got 'embeded-train'\. Did you mean 'embedded:train'\?$"):
        load_tasks("embeded-train")
    with pytest.raises(ValueError, match=r"got 'tain'\. Did you mean 'train'\?$"):
        load_tasks("embedded:tain")
    with pytest.raises(ValueError, match=r"got 'hrd'\. Did you mean 'hard'\?$"):
        load_tasks("embedded:train?preset=hrd")
