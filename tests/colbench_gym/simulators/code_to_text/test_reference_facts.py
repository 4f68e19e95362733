"""Facts read off references: exact wording, limits, and the real rows."""

from __future__ import annotations

import ast
import json
import re
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from colbench_gym.simulators.code_to_text.keywords import ROLE_WORDS
from colbench_gym.simulators.code_to_text.reference_facts import facts_from_reference
from colbench_gym.tasks.task import Fact

ROWS = Path(__file__).resolve().parents[4].parent / "shared" / "colbench" / "backend_test.jsonl"
QUOTED = re.compile(r"'[^'\n]*'(?!\w)|\"[^\"\n]*\"")
CODE = re.compile(r"[_=<>\[\](){}*+/%^|&~@#`]")


def _sentences(source: str, signature: str = "def f()") -> list[str]:
    return [fact.sentence for fact in facts_from_reference(source, signature)]


def _check(facts: tuple[Fact, ...]) -> None:
    for fact in facts:
        assert len(fact.sentence) <= 200
        assert not CODE.search(QUOTED.sub("", fact.sentence)), fact.sentence
        assert len(QUOTED.sub("q", fact.sentence).split()) <= 27
        assert fact.keywords == tuple(word.lower() for word in fact.keywords)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("if age >= 18:\n  return 20\n return 5", "When the age is at least 18, the answer is 20."),
        ("if age >= 18:\n  return 20\n return 5", "When the age is less than 18, the answer is 5."),
        ("return 'x' if 3 <= age < 5 else None", "When the age is at least 3 and less than 5, the answer is 'x'."),
        ("if a == 'b':\n  t = 1\n elif a in ('c', 'd'):\n  t = 2\n return t", "Otherwise, when a is one of 'c' or 'd', t is 2."),
        ("return sorted(rows, key=lambda r: r['price'], reverse=True)", "The answer is the rows sorted by the 'price' of each, from high to low."),
        ("return (a + b) * rate / 100", "The answer is the sum of a and b, times the rate, divided by 100."),
        ("return a / (b * rate)", "The answer is a divided by the product of b and the rate."),
        ("return round(hours * 7.5, 2)", "The answer is the hours times 7.5 rounded to 2 decimals."),
        ("return {'net': a, 'gross': a * 1.2}", "The result is a dictionary with the keys 'net' and 'gross'."),
        ("prices = {'tea': 2, 'milk': 1.5}\n return prices[name]", "The prices are a dictionary with 'tea' as 2 and 'milk' as 1.5."),
        ("for row in rows:\n  if row['n'] < 0:\n   continue\n  total += row['n']\n return total", "For each row, when the 'n' of the row is less than 0, skip it and go on with the next."),
        ("raise ValueError('too old')", "Raise an error of type ValueError that says 'too old'."),
        ("return any(x > 3 for x in rows)", "The answer is true when for at least one x in the rows x is more than 3, and false otherwise."),
        ("return not done", "The answer is true when the done is false, and false otherwise."),
        ("return f'{name}: {cost:.2f} euros'", "The answer is the text the name, then ': ', then the cost with 2 decimals, then ' euros'."),
        ("return a % 2 == 0", "The answer is true when a divides evenly by 2, and false otherwise."),
        ("return max(a, b)", "The answer is the larger of a and b."),
        ("return max(a, b, c, d)", "The answer is the largest of a, b, c and d."),
        ("return -a", "The answer is minus a."),
        ("return words[::-1]", "The answer is the words in reverse order."),
        ("return [w.lower() for w in words if w]", "The answer is w in lower case for each w in the words where w is not empty."),
        ("pass", "Nothing is returned."),
        ("return digits[-1::-2]", "The answer is the items of the digits going backwards from the last item in steps of 2."),
        ("return digits[5:1:-1]", "The answer is the items of the digits going backwards from position 5 down to but not including position 1."),
        ("return digits[1:10:3]", "The answer is every item of the digits from position 1 up to but not including 10 in steps of 3."),
        ("return digits[1::1]", "The answer is the digits from position 1 on."),
        ("match kind:\n  case 'air':\n   return 12\n  case _:\n   return 4", "When the kind is 'air', the answer is 12."),
        ("match kind:\n  case 'air':\n   return 12\n  case _:\n   return 4", "When the kind is not 'air', the answer is 4."),
        ("match kind:\n  case 1 | 2:\n   return 0\n  case n if n > 9:\n   return n\n  case None:\n   return 3", "Otherwise, when the kind is more than 9, the answer is the kind."),
        ("match kind:\n  case 1 | 2:\n   return 0\n  case n if n > 9:\n   return n\n  case None:\n   return 3", "When the kind is one of 1 or 2, the answer is 0."),
        ("match kind:\n  case [a, b]:\n   return 12", "For an input of one of several forms, the answer is 12."),
        ("return f'{x:.10f}'", "The answer is the text x with 10 decimals."),
        ("return f'{x:.1%}'", "The answer is the text x as a percentage with 1 decimal."),
        ("return f'{x:02d}h'", "The answer is the text x padded with zeros to 2 characters, then 'h'."),
        ("return f'{x:,.0f}'", "The answer is the text x with no decimals with commas between thousands."),
        ("return f'{x:%Y}'", "The answer is the text x."),
        ("return re.split('[,;]', text)", "The answer is the text split at each match of the pattern '[,;]'."),
        ("return age.split(',', 1)", "The answer is the age split at ',' at most 1 times."),
        ("match age:\n  case [a, b] if a > b:\n   return 1\n  case _:\n   return -1", "In all other cases, the answer is minus 1."),
        ("match age:\n  case n if n > 3:\n   return n", "When the age is more than 3, the answer is the age."),
        ("match age:\n  case 'go' | 'run':\n   return 1", "The values of age that matter are 'go' and 'run'."),
        ("return isinstance(a, int | str)", "The answer is true when a is of type whole number or text, and false otherwise."),
        ("return f'{a:.3}'", "The answer is the text a."),
        ("if has_items:\n  return 1\n return 2", "When the has items are not set, the answer is 2."),
        ("return statistics.mean(rows)", "The answer is the outcome of mean for the rows."),
        ("return isinstance(a, (int, float))", "The answer is true when a is of type whole number or decimal number, and false otherwise."),
    ],
)  # fmt: skip
def test_wording(body: str, sentence: str) -> None:
    assert sentence in _sentences(f"def f(age, done):\n {body}\n")


def test_parameters_say_what_they_hold() -> None:
    source = (
        "def total(orders, kind='gift', note=None):\n"
        "    if kind == 'gift':\n        return 0\n"
        "    return sum(order['price'] * order['count'] for order in orders)\n"
    )
    facts = {fact.sentence: fact for fact in facts_from_reference(source, "def total(orders, kind, note)")}
    assert facts["The orders input is a list whose dictionaries have 'price' and 'count'."].is_special
    assert facts["The note is not used at all."].is_special
    assert facts["Unless given, the kind is 'gift'."].is_special
    assert facts["The one value of kind that matters is 'gift'."].is_special
    assert not facts["Nothing is rounded."].is_special
    assert not facts["Upper and lower case are told apart."].is_special


@pytest.mark.parametrize(
    ("role", "bodies"),
    [
        ("Empty or missing input gets no special treatment.", [
            "return sum(s) / len(s) if s else 0", "if rows:\n  return 1\n return -1", "if len(rows) < 1:\n  return 'none'\n return 1", "return d.get(k, 0)",
            "return max(rows, default=0)", "return rows or [1]", "if rows == []:\n  return 0\n return 1", "if 0 == len(rows):\n  return 1\n return 2",
            "try:\n  return rows[0]\n except IndexError:\n  return 0", "match rows:\n  case []:\n   return 0\n return 1",
        ]),
        ("Nothing is rounded.", [
            "return f'{a * 2:.2f}'", "return '%.1f' % (a / 2)", "return '{:.3f}'.format(a * 2)", "return format(a * 2, '.2f')", "return [*map(round, rows)] + [a * 2]", "return '%d' % (a * 2)", "return f'{a * 2:.3}'",
        ]),
        ("Negative numbers get no special treatment.", [
            "return max(0, a - 1)", "return abs(a - b)", "return 1 if a * 2 > -5 else 0", "return a * 2 if 0 <= a else 1", "return sum(map(abs, rows)) * 2",
        ]),
        ("There is no upper or lower limit on the numbers.", [
            "if y > 100:\n  y = 100\n return y * 2", "return 100 if a * 2 > 100 else a * 2", "if a * 2 > 9:\n  return 9\n return a * 2", "return min(a * 2, 9)", "return max([0, a * 2])",
            "if not y <= 100:\n  y = 100\n return y * 2", "if a and y > 100:\n  y = 100\n return y * 2", "return np.minimum(a * 2, 9)",
        ]),
        ("Nothing is sorted, the order stays as it comes.", ["return list(set(rows))", "return [*reversed(rows)]", "return [x for x in rows[::-1]]", "return [rows[i] for i in range(9, -1, -1)]", "out = []\n for x in rows:\n  out = [x] + out\n return out"]),
        ("Upper and lower case are told apart.", ["return bool(re.search('x', 'abc', re.IGNORECASE)) == 'x'", "return word.title() == 'Tea'", "return sorted(rows, key=str.lower) == 'x'", "return re.search('(?i)x', a) == 'x'"]),
        ("Bad input is not checked for, and no errors are raised.", ["if a > 9:\n  return None\n return 1", "return 1 if isinstance(a, str) else 2", "return a / 2 if a else None", "if a < 0:\n  return 'It must be positive'\n return 1"]),
    ],
)  # fmt: skip
def test_a_case_that_the_code_handles_is_never_denied(role: str, bodies: list[str]) -> None:
    plain = ["return a * 2", "return [x for x in rows]", "return a == 'x'"]
    assert any(role in _sentences(f"def f(a, rows):\n {body}\n") for body in plain)
    for body in bodies:
        assert role not in _sentences(f"def f(a, rows):\n {body}\n"), body


@pytest.mark.parametrize(
    ("body", "asked"), [("if rows:\n  return 7\n return 8", "empty"), ("if a > 9:\n  a = 9\n return a", "limit"), ("return f'{a:.2f}'", "decimals")]
)  # fmt: skip
def test_what_the_code_does_there_is_found_by_the_question(body: str, asked: str) -> None:
    facts = facts_from_reference(f"def f(a, rows):\n {body}\n", "def f(a, rows)")
    assert any(asked in fact.keywords for fact in facts if fact.is_special)
    assert "The rows input is true or false." not in [fact.sentence for fact in facts]


@pytest.mark.parametrize(
    ("role", "body"),
    [
        ("rounding", "d = datetime.strptime(a, '%Y-%m-%d')\n return (d - e).days * 2"), ("rounding", "if not isinstance(a, int):\n  raise ValueError('x')\n return a * 2"),
        ("case", "if a == 'Yes':\n  return min(upper, 5)\n return 1"), ("case", "t = 0\n for i in range(lower, upper):\n  t = t + i * 2\n return t"),
    ],
)  # fmt: skip
def test_dates_types_and_variables_are_no_rounding_and_no_case(role: str, body: str) -> None:
    facts = facts_from_reference(f"def f(a, rows):\n {body}\n", "def f(a, rows)")
    assert not any(ROLE_WORDS[role][0] in fact.keywords for fact in facts if fact.is_special)


@pytest.mark.parametrize(
    "body",
    ["match s:\n  case x:\n   return sorted(rows, key=lambda x: x[1])", "match s:\n  case n:\n   s = 5\n   return n * s"],
)
def test_a_name_that_a_case_gives_is_replaced_only_where_it_means_the_subject(body: str) -> None:
    told = " ".join(_sentences(f"def f(s, rows):\n {body}\n"))
    assert "item of s" not in told and "s times s" not in told


@pytest.mark.parametrize(
    ("case", "role"),
    [
        ("len(rows):\n  case 0", "Empty or missing"),
        ("a * 2:\n  case -1", "Negative numbers"),
        ("a:\n  case ''", "Empty or missing"),
    ],
)
def test_cases_of_a_match_are_handled_cases(case: str, role: str) -> None:
    assert not any(
        sentence.startswith(role) for sentence in _sentences(f"def f(a, rows):\n match {case}:\n   return 0\n return a * 2\n")
    )


def test_long_expressions_are_spread_over_sentences() -> None:
    terms = " + ".join(f"{number / 10} * first_long_name_{number} * other_name_{number}" for number in range(1, 9))
    facts = facts_from_reference(f"def f():\n    return {terms}\n", "def f()")
    _check(facts)
    everything = " ".join(fact.sentence for fact in facts)
    assert all(
        f"{number / 10} times the first long name {number} times the other name {number}" in everything
        for number in range(1, 9)
    )


def test_long_conditions_get_a_name_and_a_sentence() -> None:
    test = " and ".join(f"value_number_{number} > {number}" for number in range(9))
    sentences = _sentences(f"def f():\n    if {test}:\n        return 'yes'\n    return 'no'\n")
    assert sentences[0] == "When condition A holds, the answer is 'yes'."
    assert sentences[1].startswith("Condition A needs that the value number 0 is more than 0")
    assert sentences[2].startswith("Condition A also needs that ")


def test_deep_branches_become_cases() -> None:
    source = "def f(a, b, c):\n if a > 1:\n  if b > 2:\n   if c > 3:\n    return 'deep'\n return 0\n"
    assert _sentences(source)[:2] == [
        "Case 1 is: when a is more than 1 and b is more than 2.",
        "In case 1, when c is more than 3, the answer is 'deep'.",
    ]


def test_long_texts_come_in_pieces() -> None:
    text = " ".join(f"word{number}" for number in range(60))
    sentences = _sentences(f"def f():\n    return {text!r}\n")
    pieces = [piece for sentence in sentences for piece in re.findall(r"'([^']*)'", sentence)]
    assert "".join(pieces) == text


@pytest.mark.parametrize("source", ["def f(:", "\0", "x = (", "\x1b[0m", "def f():\nreturn 1"])
def test_unparseable_source_has_no_facts(source: str) -> None:
    assert facts_from_reference(source, "def f()") == ()


@pytest.mark.parametrize(
    "source",
    [
        "", "x = 1", "import os", "class A:\n def m(self): return self.x\n", "x = " + "1+" * 900 + "1", "x = " + "not " * 900 + "x",
        "def f(x):\n return " + " and ".join(f"x > {n}" for n in range(500)), "async def f(x):\n async for y in x: await y",
        "def f(*a, **k):\n match a:\n  case [1]: return 1\n", "def f():\n return " + "x if y else " * 900 + "z",
        "def f():\n return f'{x!r:>{y}} {{}} {z:.2f}'", "def f():\n" + "".join(" " * n + "if x:\n" for n in range(1, 80)) + " " * 80 + "pass",
        "def f():\n try: x\n except (A, B): return 1\n finally: y\n", "def f():\n while True: break\n", "def f(): (yield)", "def f(): x[1:2, ...] = *a, b",
    ],
)  # fmt: skip
def test_odd_source_never_raises(source: str) -> None:
    _check(facts_from_reference(source, "def f(x)"))


def test_the_function_of_the_signature_comes_first() -> None:
    source = "def helper(x):\n return x + 1\ndef f(x):\n return helper(x) * 2\n"
    sentences = _sentences(source, "def f(x)")
    assert sentences[0] == "The answer is the outcome of helper for x times 2."
    assert "In the helper helper, the answer is x plus 1." in sentences


def test_functions_of_the_standard_library_never_raise() -> None:
    for name in ("argparse.py", "textwrap.py", "statistics.py", "difflib.py", "calendar.py", "heapq.py"):
        for node in ast.walk(ast.parse((Path(sysconfig.get_paths()["stdlib"]) / name).read_text())):
            if isinstance(node, ast.FunctionDef):
                _check(facts_from_reference(ast.unparse(node), f"def {node.name}()"))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    if not ROWS.exists():
        pytest.skip(f"needs the real ColBench rows at {ROWS}; get backend_test.jsonl from princeton-pli/hal-harness")
    return [json.loads(line) for line in ROWS.read_text().splitlines()]


def test_real_rows_have_useful_facts(rows: list[dict[str, Any]]) -> None:
    num_useful = 0
    for row in rows:
        facts = facts_from_reference(row["ground_truth"], row["problem_description"].rsplit("def ", 1)[-1])
        _check(facts)
        num_useful += any(fact.is_special for fact in facts)
    assert num_useful >= 0.98 * len(rows)
