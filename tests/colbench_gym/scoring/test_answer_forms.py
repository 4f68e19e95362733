"""Answers as people write them: every honest form passes, and forms that a person would call wrong fail with a reason."""

from __future__ import annotations

import ast
import re
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sandboxes
from colbench_gym.scoring.answer import extract_program, extract_program_released
from colbench_gym.scoring.faults import fault
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.task import HiddenTask, Task

from .answer_forms import CONTAINERS, FORMS
from .wrong_forms import WRONG

TASKS = load_tasks("embedded:train[:10]")
ADD_ONE = Task("t", "Add one.", "def f(x)", HiddenTask("def f(x):\n    return x + 1", ("f(1)", "f(2)")))
F = "def f(x):\n    return x + 1"


def _graded(answers):
    with sandboxes.make("embedded", workers=2) as sandbox:
        return UnitTests(sandbox).score_many(answers)


def test_every_honest_form_of_ten_tasks_passes():
    assert len(FORMS) >= 150
    answers = [(task, form(task.hidden.reference, task.function_name)) for form in FORMS.values() for task in TASKS]
    names = [name for name in FORMS for _ in TASKS]
    failed = {name: score.outcome for name, score in zip(names, _graded(answers), strict=True) if not score.success}
    assert failed == {}


def test_every_wrong_form_of_ten_tasks_fails_with_its_outcome_and_says_what_to_change():
    assert len(WRONG) >= 60
    answers = [(task, form(task.hidden.reference, task.function_name)) for form, _, _ in WRONG.values() for task in TASKS]
    rows = [(name, outcome, wanted) for name, (_, outcome, wanted) in WRONG.items() for _ in TASKS]
    for (name, outcome, wanted), (task, answer), score in zip(rows, answers, _graded(answers), strict=True):
        assert not score.success, name
        assert re.fullmatch(outcome, score.outcome), (name, score.outcome)
        sentence = fault(task, answer, extract_program(answer, task.function_name) if answer else "", score.calls)
        assert wanted.format(name=task.function_name) in sentence, (name, sentence)


#: The examples of the report that this rule answers, each with a task "add one".
FOUND_BY_USE = {
    "fence in a list item": f"1. Here:\n   ```python\n{indent(F, '   ')}\n   ```",
    "fence by a tab": f"Here:\n\t```python\n{indent(F, chr(9))}\n\t```",
    "fence in a quote": "> ```python\n> def f(x):\n>     return x + 1\n> ```",
    "three backticks in a docstring": "```python\ndef f(x):\n    '''Add.\n\n```\nf(1)\n```\n    '''\n    return x + 1\n```",
    "three backticks in a string": "```python\ndef f(x):\n    mark = '''\n```\n'''\n    return x + 1\n```",
    "the same in a fence of four": "````python\ndef f(x):\n    mark = '''\n```\n'''\n    return x + 1\n````",
    "indented as a whole": f"```python\n{indent(F, '    ')}\n```",
    "byte order mark": f"\ufeff{F}",
    "zero-width space": f"```python\n{F}\u200b\n```",
    "no-break space": f"```python\n{F.replace('    ', chr(0xA0) * 4)}\n```",
    "helper with a loop": "```python\nT = {}\nfor i in range(3):\n    T[i] = i + 1\n```\n\n```python\ndef f(x):\n    return T[x]\n```".replace("f(2)", ""),
    "helper with try: import": "```python\ntry:\n    import numpy as np\nexcept ImportError:\n    np = None\nA = 1\n```\n```python\ndef f(x):\n    return x + A\n```",
    "helper with a docstring": '```python\n"""Helpers."""\nA = 1\n```\n```python\ndef f(x):\n    return x + A\n```',
    "helper with a main guard": "```python\nA = 1\nif __name__ == '__main__':\n    print(A)\n```\n```python\ndef f(x):\n    return x + A\n```",
    "first version, corrected": f"```python\ndef f(x):\n    return x - 1\n```\nwait, that is wrong\n```python\n{F}\n```",
    "stub, whole": f"```python\ndef f(x):\n    ...\n```\n```python\n{F}\n```",
}  # fmt: skip


def test_the_examples_found_by_use_pass():
    task = Task("t", "Add one.", "def f(x)", HiddenTask(F, ("f(0)", "f(1)", "f(2)")))
    failed = {
        name: s.outcome
        for name, s in zip(FOUND_BY_USE, _graded([(task, a) for a in FOUND_BY_USE.values()]), strict=True)
        if not s.success
    }
    assert failed == {}


def _longer_fence(code: str, sign: str) -> str:
    return sign * max(3, *(1 + len(run) for run in re.findall(rf"{sign}+", code + sign)))


@st.composite
def contained(draw):
    """A program with any text in a string, in containers within containers."""
    noise = draw(st.text(st.sampled_from("`~>-* \n#<'ab1.:\\"), max_size=40))
    program = f"def f(x):\n    text = {noise!r}\n    return x + 1, text"
    sign = draw(st.sampled_from("`~"))
    fence = _longer_fence(program, sign)
    text = f"{fence}{draw(st.sampled_from(['', 'python', 'py', ' Python title=1']))}\n{program}\n{fence}"
    for container in draw(st.lists(st.sampled_from(["quote", "bullet", "number", "details", "prose", "indented"]), max_size=3)):
        if container == "quote":
            text = "\n".join(f"> {line}" for line in text.split("\n"))
        elif container in ("bullet", "number"):
            head = {"bullet": "- ", "number": "3. "}[container]
            text = f"{head}Here:\n\n" + indent(text, " " * len(head))
        elif container == "details":
            text = f"<details>\n\n{text}\n\n</details>"
        elif container == "prose":
            text = f"Here it is:\n\n{text}\n\nTell me."
        else:
            text = indent(text, "  ")
    return program, text, draw(st.sampled_from(["\n", "\r\n", "\r"]))


@settings(derandomize=True, database=None, max_examples=300)
@given(contained())
def test_a_program_in_containers_within_containers_survives(case):
    program, text, end = case
    assert ast.dump(ast.parse(extract_program(text.replace("\n", end), "f"))) == ast.dump(ast.parse(program))


@settings(derandomize=True, database=None)
@given(st.text(st.sampled_from("\u00a0\u200b\u2028\x0c a`'\"\\"), max_size=20))
def test_a_program_that_parses_keeps_what_no_editor_shows_in_its_strings(text):
    program = f"def f(x):\n    return {text.encode('unicode_escape').decode()!r}, '''{text.replace(chr(92), '').replace(chr(39), '')}'''"
    ast.parse(program)
    for container in (CONTAINERS["bare"], CONTAINERS["backticks"] if "```" not in text else CONTAINERS["bare"]):
        assert extract_program(container(program), "f") == program


def test_invisible_characters_are_left_out_of_code_before_strings():
    answer = "```python\n\u00a0\u00a0def f(x):\n\u00a0\u00a0\u00a0\u00a0return 'a\u00a0b'\n```"
    assert extract_program(answer, "f") == "def f(x):\n  return 'a\u00a0b'"


@pytest.mark.parametrize("answer", [f"```python\n{F}\n```", F, f"x\n~~~\n{F}\n~~~\ny", f"- a\n  ```\n{indent(F, '  ')}\n  ```"])
def test_what_the_program_is_does_not_depend_on_its_name_where_there_is_one_block(answer):
    assert extract_program(answer, "f") == extract_program(answer, "g") == F


def test_exactly_one_version_is_graded():
    two = "```python\ndef f(x):\n    return 1\nprint(f(1))\n```\n```python\ndef f(x):\n    return 2\n```"
    assert extract_program(two, "f") == "def f(x):\n    return 2"
    tried = "```python\ntry:\n    def f(x): return 1\nexcept Exception:\n    pass\nA = f(1)\n```\n```python\ndef f(x):\n    return A\n```"
    assert extract_program(tried, "f") == "def f(x):\n    return A"


def test_a_later_statement_changes_no_constant_of_an_earlier_block():
    answer = "```python\nRATE = 2\n```\n```python\ndef f(x):\n    return x * RATE\n```\nWith another rate:\n```python\nRATE = 3\nprint(f(1))\n```"
    assert extract_program(answer, "f") == "RATE = 2\n\ndef f(x):\n    return x * RATE"


def test_the_released_rule_is_as_released():
    answer = f"Here:\n~~~python\n{F}\n~~~"
    assert extract_program_released(answer) == answer and extract_program(answer, "f") == F
    with sandboxes.make("embedded") as sandbox:
        assert UnitTests(sandbox, "released").score(ADD_ONE, answer).success == 0
        assert UnitTests(sandbox).score(ADD_ONE, answer).success == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("STEP = 0", "STEP += 1\n\ndef f(x):\n    return x + STEP"),
        (
            "RATE = 1",
            "class Shop:\n    RATE = 5\n\n    def rate(self):\n        return RATE\n\ndef f(x):\n    return x + Shop().rate()",
        ),
        ("k = 1", "add = lambda x, k=k: x + k\n\ndef f(x):\n    return add(x)"),
        ("RATE = 1", "class Shop:\n    RATE = RATE\n\ndef f(x):\n    return x + Shop.RATE"),
        (
            "class Rules:\n    steps = []\n\n    def step(self, function):\n        self.steps.append(function)\n\nrules = Rules()\n```\n\n```python\n@rules.step\ndef add(x):\n    return x + 1",
            "def f(x):\n    for step in rules.steps:\n        x = step(x)\n    return x",
        ),
        ("steps = []\n```\n\n```python\n@steps.append\ndef add(x):\n    return x + 1", "def f(x):\n    return steps[0](x)"),
        (
            "from __future__ import annotations\nimport math",
            "class Node:\n    def next(self, other: Node): ...\n\ndef f(x):\n    return x + 1",
        ),
        ("STEP = 1", "from helpers import *\n\ndef f(x):\n    return x + STEP"),
        ("rates = [1]", "class Shop:\n    total = sum(rate for rate in rates)\n\ndef f(x):\n    return x + Shop.total"),
    ],
)
def test_a_definition_of_an_earlier_block_is_taken_where_python_reads_it(first, second):
    """An operator reads what it binds, a method does not see the names of its class, a default belongs to the place of the lambda."""
    (score,) = _graded([(ADD_ONE, f"First:\n\n```python\n{first}\n```\n\nThen:\n\n```python\n{second}\n```")])
    assert score.outcome == "passed"


@pytest.mark.parametrize(
    "head", ["TAX, FEE = 1, 0", "(TAX, FEE) = 1, 0", "[TAX, *FEE] = 1, 0", "TAX = {}\nTAX['a'] = 1", "TAX: dict[str, int] = {}", "import math as m\nm.tax = 1"]
)  # fmt: skip
@pytest.mark.parametrize(
    "text", ["{}", "Here is the function:\n{}", "{}\n\nTell me if it works.", "Here it is:\n\n{}\n\nTell me if it works."]
)
def test_a_program_without_a_fence_keeps_its_first_statement(head, text):
    program = f"{head}\n\ndef f(x):\n    return x + 1"
    assert extract_program(text.format(program), "f").strip() == program


@pytest.mark.parametrize(
    "above",
    [
        "f(3)", "print(f(2))", "assert f(2) == 2", "f(items)", "O(n)", "- input(x)\n- output(y)", "So, total = price * quantity", "total += price",
        "total[i] = total[i-1] + x", "LIMIT, total = 3, price * quantity",
    ],
)  # fmt: skip
def test_formulas_and_examples_above_a_function_end_no_program(above):
    (score,) = _graded([(ADD_ONE, f"{above}\n\n{F}\n")])
    assert score.outcome == "passed"


@pytest.mark.parametrize(
    "block",
    [
        "First, total = price * quantity.\n\n{}",
        "total += x for each x\n\n{}",
        "{}\n\nmatch the input:",
        "{}\n\nrow[0] = the name, row[1] = the age",
    ],
)
def test_a_fence_with_a_line_of_prose_yields_its_function(block):
    (score,) = _graded([(ADD_ONE, f"```python\n{block.format(F)}\n```")])
    assert score.outcome == "passed"


def test_variables_of_a_comprehension_in_a_class_are_not_the_modules():
    blocks = ("n = int(input())", "x = undefined", f"class C:\n    T = [n * n for n in range(3)]\n    g = lambda x: x\n\n{F}")
    (score,) = _graded([(ADD_ONE, "\n\n".join(f"```python\n{block}\n```" for block in blocks))])
    assert score.outcome == "passed"


@pytest.mark.parametrize("text", ["a" + " " * 30_000 + "x", "a, " * 10_000 + "x", "a[" * 10_000, "(" * 20_000 + "a"])
def test_a_line_that_may_begin_a_program_takes_time_that_is_linear_in_its_length(text):
    assert extract_program(f"Here:\n{text}\n\nGood?", "f")


def test_a_star_import_of_a_module_that_is_there_stays():
    answer = "```python\nfrom math import *\ndef f(x):\n    return floor(x) + 1\n```\n```python\nresult = f(4)\n```"
    assert "from math import *" in extract_program(answer, "f")


@pytest.mark.parametrize("statement", ["n += 1", "TABLE['a'] = 1", "Shop.rate = 1", "match n:\n    case _:\n        n = 1"])
def test_a_program_goes_on_behind_a_line_of_prose(statement):
    answer = f"First:\nn, TABLE = 0, {{}}\nclass Shop: pass\nThen, as you said:\n{statement}\n\ndef f(x):\n    return x + n, TABLE, Shop"
    assert statement.split("\n")[0] in extract_program(answer, "f")


@pytest.mark.parametrize(
    ("first", "second", "calls"),
    [
        ("def back(x):\n    return x - 1", F, ("f(1)", "back(f(1))", "[back(x) for x in (1, 2)]")),
        ("import datetime", "def f(day):\n    return day.weekday() + 1", ("f(datetime.date(2024, 1, 1))",)),
        ("class Point:\n    def __init__(self, x):\n        self.x = x", "def f(p):\n    return p.x", ("f(Point(1))",)),
    ],
)
@pytest.mark.parametrize("in_order", [True, False])
def test_what_only_the_hidden_calls_use_is_part_of_the_program(first, second, calls, in_order):
    task = Task("t", "Do it.", "def f(x)", HiddenTask(f"{first}\n{second}", calls))
    blocks = (first, second) if in_order else (second, first)
    (score,) = _graded([(task, "\n\nand\n\n".join(f"```python\n{block}\n```" for block in blocks))])
    assert score.outcome == "passed"


LONG = 19_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x y" + "\n" * LONG + "z w", "has no Python code"),
        ("1" + " " * LONG + "x", "has no Python code"),
        ("def a\n" * 1500 + "\n" * (LONG // 2) + "x (", "does not parse"),
        ("function" + " " * LONG + "x y", "has no Python code"),
        ("int a(" * (LONG // 6), "has no Python code"),
        ("def a b\n" * 1000 + "\n" * (LONG // 2) + "end", "written in Ruby"),
        ("x(" + ")" * LONG + " y", "has no Python code"),
    ],
)
def test_the_fault_of_a_long_text_takes_no_longer_than_its_length(text, says):
    """Two of these took more than a minute, by patterns that tried every blank line again."""
    assert says in fault(ADD_ONE, text, text, ())
