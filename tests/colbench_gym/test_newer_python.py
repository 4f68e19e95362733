"""Source in newer Python names the interpreter that it needs; a typing error does not."""

from __future__ import annotations

import ast
import json
import sys

import pytest

from colbench_gym.newer_python import needed
from colbench_gym.tasks.rows import RowError, read_tasks, row_from_task

NEWER = [
    ("type X = int\ndef f(x):\n    return x", "3.12"),
    ("type Pair[T] = tuple[T, T]\ndef f(x):\n    return x", "3.12"),
    ("def f[T](x: T) -> T:\n    return x", "3.12"),
    ("def f[T: (int, str), *Ts, **P](x):\n    return x", "3.12"),
    ("class A[T]:\n    pass\ndef f(x):\n    return x", "3.12"),
    ("class A[T: int,](list):\n    pass\ndef f(x):\n    return x", "3.12"),
    ('def f(x):\n    return f"{x["a"]}"', "3.12"),
    ("def f(x):\n    return f'{'\\n'.join(x)}' 'b'", "3.12"),
    ('def f(x):\n    return f"{f"{x!r:>{10}}"} {x=}"', "3.12"),
    ("def f(x):\n    return f'a{\n        x  # c }\n    }'", "3.12"),
    ('def f(x):\n    """type X = int."""\n    return rf"\\{x["a"]:{"<"}8}{{}}"', "3.12"),
    ("def f[T = int](x: T):\n    return x", "3.13"),
    ("def f(x):\n    try:\n        return 1\n    except ValueError, TypeError:\n        return 2", "3.14"),
    ("import json\ndef f(x):\n    try:\n        return 1\n    except json.JSONDecodeError, KeyError:\n        return 2", "3.14"),
    ('def f(x):\n    return t"{x}"', "3.14"),
]  # fmt: skip
WRONG = [
    "def f(:", "def f(x)\n    return x", "type X int", "def f[T(x): return x", "def f[](x): return x", "def f[1 + ](x): return x",
    'def f(x):\n    return f"{x', 'def f(x):\n    return f"{x y}"', 'def f(x):\n    return f"{x["a"}"', "def f(x):\n    return f'{}'", "def f(x):\n    return f'}'",
    "print 'a'", "def f(x):\n    type X = int\n    return x x", "x = 'abc", 'def f(x):\n    return f"{x["a"]}" +', "t 'x'",
    "def f(x):\n    try:\n        return 1\n    except ValueError, e:\n        return 2", "def f(x):\nreturn x", "def f[T = ](x): return x", "x = {1: 2",
    "def f(x):\n    return f'{x!}'", "\0", "(" * 300, "def a[" * 5000,
]  # fmt: skip


@pytest.mark.parametrize(("source", "version"), NEWER)
def test_the_needed_version_is_named(source, version):
    assert needed(source, current=(3, 11)).startswith(f"needs Python {version} or newer; this is 3.11")
    if tuple(map(int, version.split("."))) <= sys.version_info[:2]:
        ast.parse(source)


@pytest.mark.parametrize("source", WRONG)
def test_a_typing_error_names_no_version(source):
    assert needed(source, current=(3, 11)) == ""


def test_a_version_that_is_there_is_not_needed():
    assert needed("def f[T](x): return x x", current=(3, 12)) == needed("def f[T](x): return x", current=(3, 14)) == ""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python compiles the source")
def test_a_row_says_so(tmp_path, total_task):
    row = row_from_task(total_task())
    path = tmp_path / "rows.jsonl"
    this = sys.version.split()[0]
    for field, what, change in (
        ("ground_truth", "Python source", {"ground_truth": "type Prices = list[float]\n" + row["ground_truth"]}),
        ("test_cases.test1", "a Python expression, such as a call,", {"test_cases": {"test1": 'total([len(f"{"a"}")])'}}),
    ):
        path.write_text(json.dumps({**row, **change}))
        with pytest.raises(RowError) as caught:
            read_tasks(path)
        reason = f"line 1, field '{field}': expected {what} that compiles (needs Python 3.12 or newer; this is {this}), got "
        assert reason in str(caught.value)
