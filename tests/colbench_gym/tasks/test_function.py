"""Which function of a reference is the task's: the one that the tests call, for the signature, the human and the grader."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import sandboxes
from colbench_gym.dialogue import Dialogue
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.simulators.code_to_text.reference_facts import facts_from_reference
from colbench_gym.simulators.facts.scripted_human import ScriptedHuman
from colbench_gym.tasks.embedded import embedded_tasks
from colbench_gym.tasks.function import definitions, head, used_names
from colbench_gym.tasks.rows import RowError, read_tasks, task_from_row

REAL = [parent / "shared" / "colbench" / "backend_test.jsonl" for parent in Path(__file__).resolve().parents]
REAL = next((path for path in REAL if path.is_file()), None)
F = "def f(x):\n    return x + 1\n"
G = "def g(x, y):\n    return x * y\n"


def task(reference, *calls, request="Please add one."):
    tests = {f"test{i}": call for i, call in enumerate(calls, 1)}
    return task_from_row(
        {"problem_description": request, "ground_truth": reference, "test_cases": tests}, Path("rows.jsonl"), 3
    )


@pytest.mark.parametrize(
    ("reference", "calls", "signature"),
    [
        (F + "\ndef main():\n    print(f(1))\n", ["f(3)"], "def f(x)"),
        ("def pair():\n    return abs, min\nup, down = pair()", ["up(3)"], "up = ..."),
        ("up, (down, n) = (lambda x: x + 1), [lambda y: y - 1, 3]", ["down(3)"], "def down(y)"),
        ("def add(g):\n    def both(x, y):\n        return g(x) + y\n    return both\n@add\n" + F, ["f(3, 4)"], "def f(x, y)"),
        ("def add(n):\n    def of(g):\n        def both(y):\n            return g(n) + y\n        return both\n    return of\n@add(2)\n" + F, ["f(4)"], "def f(y)"),
        ("def log(g):\n    def inner(*a, **k):\n        return g(*a, **k)\n    return inner\n@log\n" + F, ["f(3)"], "def f(x)"),
        ("def keep(g):\n    return g\n@keep\n" + F, ["f(3)"], "def f(x)"),
        (F + "\ndef test_f():\n    assert f(1) == 2\n", ["f(3)"], "def f(x)"),
        (F + "\nclass Helper:\n    pass\n", ["f(3)"], "def f(x)"),
        (F + "\n" + G, ["f(3)"], "def f(x)"),
        (F + "\n" + G, ["g(3, 4)"], "def g(x, y)"),
        (F + "\n" + G, ["sorted([f(3), f(1)])", "[f(x) for x in (1, 2)]", "(lambda g: g + f(1))(3)"], "def f(x)"),
        (F + "\n" + G, ["f(g(2, 3))", "f(g(1, 1))"], "def f(x)"),
        (F + "\n" + G, ["f(1)", "g(1, 2)", "f(2)"], "def f(x)"),
        (F + "\n" + G, ["g(1, 2)", "f(1)"], "def g(x, y)"),
        (F + "\n" + G, ["max([1, 2], key=f)", "list(map(f, [1]))"], "def f(x)"),
        ("import math\n" + F, ["math.floor(f(2.5))"], "def f(x)"),
        ("import functools\n" + G + "f = functools.partial(g, 2)\n", ["f(3)"], "def f(y)"),
        ("from functools import partial\n" + G + "f = partial(g, y=2)\n", ["f(3)"], "def f(x)"),
        (G + "f = g\n\ndef main():\n    pass\n", ["f(1, 2)"], "def f(x, y)"),
        ("f = lambda x, y=1: x + y\n\ndef main():\n    pass\n", ["f(1)"], "def f(x, y=1)"),
        ("from functools import lru_cache\n" + G + "f = lru_cache(None)(g)\n", ["f(1, 2)"], "def f(x, y)"),
        ("def make(n):\n    def inner(x):\n        return x + n\n    return inner\n\nf = make(2)\n", ["f(1)"], "def f(x)"),
        ("def make(n):\n    return lambda x, y: x + n\n\nf = make(2)\n", ["f(1, 2)"], "def f(x, y)"),
        ("import operator\nf = operator.itemgetter(1)\n", ["f([1, 2])"], "f = ..."),
        ("import functools\n@functools.cache\n" + F + "def h():\n    pass\n", ["f(1)"], "def f(x)"),
        ("async def f(x):\n    return x\n\ndef main():\n    pass\n", ["__import__('asyncio').run(f(1))"], "async def f(x)"),
        ("def f(a):\n    return a\n\n" + F, ["f(1)"], "def f(x)"),
        ("import sys\nif sys.version_info > (3,):\n    def f(x):\n        return x\nelse:\n    def f(a, b):\n        return a\n\ndef h():\n    pass\n", ["f(1)"], "def f(x)"),
        ("try:\n    from math import isqrt as f\nexcept ImportError:\n    def f(n):\n        return n\n\ndef h():\n    pass\n", ["f(1)"], "def f(n)"),
        ("class Stack:\n    def __init__(self, size=3):\n        self.items = []\n    def push(self, item):\n        return item\n    def _grow(self):\n        pass\n", ["Stack().push(1)"],
         "class Stack:\n    def __init__(self, size=3)\n    def push(self, item)"),
        ("class Point:\n    def __init__(self, x):\n        self.x = x\n\ndef f(p):\n    return p.x\n", ["f(Point(1))"], "def f(p)"),
    ],
)  # fmt: skip
def test_the_signature_is_that_of_what_the_tests_call(reference, calls, signature):
    found = task(reference, *calls)
    assert found.signature == signature and found.public().signature == signature
    assert (
        found.function_name
        == signature.removeprefix("async ")
        .replace("class ", "def ")
        .removeprefix("def ")
        .split("(")[0]
        .split(":")[0]
        .split(" =")[0]
    )


def test_the_request_chooses_among_several_that_the_tests_call():
    request = "Multiply.\nThe signature of the function is: def g(x, y)"
    found = task(F + G, "f(1)", "f(2)", "g(1, 2)", request=request)
    assert (found.signature, found.function_name) == ("def g(x, y)", "g")


def test_human_and_grader_agree_with_the_signature():
    reference = F + "\ndef main():\n    for name in ['a', 'b']:\n        print(name.upper())\n"
    found = task(reference, "f(3)", "f(-1)")
    reply = ScriptedHuman().reply(found, Dialogue().add("user", found.description).add("assistant", "What is the result?"), 0)
    assert reply == "The answer is x plus 1."
    with sandboxes.make("auto") as sandbox:
        score = UnitTests(sandbox).score(found, f"```python\ndef main():\n    pass\n```\nand\n```python\n{F}```")
    assert score.success == 1


def test_the_human_speaks_of_the_called_function_wherever_it_is_defined():
    for reference in (
        f"if True:\n    {F.replace(chr(10), chr(10) + '    ')}\n\n{G}",
        f"f = lambda x: x + 1\n\n{G}",
        f"{G}\ndef h(x):\n    return x + 1\n\nf = h\n\n{G}",
    ):
        found = task(reference, "f(1)")
        assert "The answer is x plus 1." in facts_from_reference(found.hidden.reference, found.signature)[0].sentence


@pytest.mark.parametrize(
    ("reference", "call", "text"),
    [
        (F + G, "h(1)", "field 'test_cases': expected calls of what the reference defines (f, g), got 'h(1)'."),
        (F, "len([1])", "field 'test_cases': expected calls of what the reference defines (f), got 'len([1])'."),
        (F, "(lambda f: f(1))(abs)", "field 'test_cases': expected calls of what the reference defines (f)"),
        ("x = 1", "f(1)", "field 'ground_truth': expected source that defines a function, got 'x = 1'."),
    ],
)  # fmt: skip
def test_tests_that_call_nothing_of_the_reference_are_refused(reference, call, text):
    with pytest.raises(RowError) as caught:
        task(reference, call)
    assert str(caught.value).startswith(f"rows.jsonl, line 3, {text}")


def test_a_request_for_another_function_is_refused():
    with pytest.raises(
        RowError,
        match=r"field 'problem_description': expected the signature of the function that the tests call \(f\), got 'def main\(\)'",
    ):
        task(F + "def main():\n    pass\n", "f(1)", request="Do it.\nThe signature of the function is: def main()")


@pytest.mark.parametrize("domain", ["train", "test", "unseen", "novel"])
def test_the_tests_of_embedded_tasks_call_the_function_of_their_signature(domain):
    for found in embedded_tasks(domain)[::37]:
        known = definitions(ast.parse(found.hidden.reference))
        used = used_names([ast.parse(call, mode="eval") for call in found.hidden.calls], known)
        assert head(used[0], known[used[0]]) == found.signature and used[0] == found.function_name


@pytest.mark.skipif(
    REAL is None, reason="needs the benchmark's rows in shared/colbench beside the project, which are no part of it"
)
def test_no_real_row_changes():
    rows = [json.loads(line) for line in REAL.read_text().splitlines()]
    stated = [row["problem_description"].partition("The signature of the function is:")[2].strip().rstrip(":") for row in rows]
    tasks = read_tasks(REAL)
    assert [found.signature for found in tasks] == stated
    assert all(found.function_name == found.signature[4:].partition("(")[0] for found in tasks)
