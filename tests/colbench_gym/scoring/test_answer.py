"""The benchmark's markers and the program in an answer."""

from __future__ import annotations

import time

import pytest

from colbench_gym.scoring.answer import AgentMessage, _Parser, extract_program, extract_program_released, parse_message

CODE = "def total(p):\n\n    return sum(p)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What about tax?", AgentMessage("", "What about tax?", None)),
        (" I think.\nOUTPUT: What about tax? ", AgentMessage("I think.", "What about tax?", None)),
        ("OUTPUT:a OUTPUT:b", AgentMessage("", "a OUTPUT:b", None)),
        ("I WANT TO ANSWER: x", AgentMessage("", "I WANT TO ANSWER: x", "x")),
        ("Well. I WANT TO ANSWER:\nx\n", AgentMessage("", "Well. I WANT TO ANSWER:\nx", "x")),
        ("thought OUTPUT: I WANT TO ANSWER: x", AgentMessage("thought", "I WANT TO ANSWER: x", "x")),
        ("do I WANT TO ANSWER: no. OUTPUT: hm?", AgentMessage("do I WANT TO ANSWER: no.", "hm?", None)),
        (
            "I WANT TO ANSWER: a I WANT TO ANSWER: b",
            AgentMessage("", "I WANT TO ANSWER: a I WANT TO ANSWER: b", "a I WANT TO ANSWER: b"),
        ),
        ("I WANT TO ANSWER:", AgentMessage("", "I WANT TO ANSWER:", "")),
        ("", AgentMessage("", "", None)),
    ],
)
def test_markers(text, expected):
    assert parse_message(text) == expected


@pytest.mark.parametrize("tag", ["python", "Python", "py", "python3", "", " python", 'python title="a"', "python\r"])
def test_a_fence_with_any_tag(tag):
    assert extract_program(f"Here:\n```{tag}\n{CODE}\n```\nEnjoy!") == CODE


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        f"{CODE}\nThis function adds up the prices.",
        f"Here is the function:\n\n{CODE}\n\nIt adds up:\n- the prices\n- no tax",
        f"I WANT TO ANSWER: {CODE}",
        f"from what you said I take it that\n{CODE}",
        f"```\n{CODE}",
        f"```python\n{CODE}",
        f"{CODE}\n```",
    ],
)
def test_prose_and_lost_fences_are_left_out(text):
    assert extract_program(text).strip() == CODE


def test_the_last_block_that_defines_the_function_is_taken_with_what_it_uses():
    helper, use = "import math\nRATE = 2\ndef helper(x): return x", "print(total([1]))"
    code = "def total(p):\n    return helper(sum(p) * RATE)"
    blocks = "\n".join(f"```python\n{block}\n```" for block in (use, CODE, helper, code, "class Later: pass", use))
    assert extract_program(blocks, "total") == f"RATE = 2\ndef helper(x): return x\n\n{code}"
    assert extract_program(blocks) == use
    assert extract_program(blocks, "missing") == "class Later: pass"
    assert extract_program("```\ntotal = lambda p: 1\n```\n```\nx\n```", "total") == "total = lambda p: 1"


def test_what_is_no_code_comes_back_as_it_is():
    assert extract_program("I do not know.") == "I do not know."
    assert extract_program("") == ""


@pytest.mark.parametrize(
    "text", ["def f(:\n" * 2000, "(" * 20_000, "```" * 30_000, "- " * 9000, "x\n" * 9999 + "(", "def f(): 1\n(" * 400]
)
def test_hostile_text_takes_no_time(text):
    start = time.process_time()
    extract_program(text, "f")
    assert time.process_time() - start < 3


@pytest.mark.parametrize("program", ["X = 1\nY = X", "XX", "nr = 1\nr", "  f(1)"])
def test_only_line_ends_are_cut_off_a_program(program):
    assert extract_program(f"```\n\n{program}\r\n\n```") == program
    assert extract_program(f"\r\n{program}\n").strip(" ") == program.strip(" ")


def test_a_parser_reads_fifty_parts_of_one_answer():
    parser = _Parser()
    assert all(parser.parse("x = 1") is not None for _ in range(50))
    assert parser.has_finished and parser.parse("x = 1") is None


def test_a_parser_reads_no_part_over_its_bound_and_forty_thousand_characters_in_all():
    parser, part = _Parser(), "x = 1\n" + "#" * 19_994
    assert len(part) == 20_000
    assert parser.parse(part + "#") is None and not parser.has_finished
    assert parser.parse(part) is not None and not parser.has_finished and parser.parse(part) is not None
    assert parser.has_finished and parser.parse("x = 1") is None


def test_a_parser_says_how_many_lines_are_good():
    parser = _Parser()
    assert parser.parse("a = 1\nb = 2\nc c\nd = 4") is None and parser.good_lines == 2
    assert parser.parse("a = 1\nb = 2\nc = 3") is not None and parser.good_lines == 2
    assert parser.parse("a = 1\0\nb\n") is None and parser.good_lines in (0, 2)


def test_the_released_grader_cuts_as_released():
    assert extract_program_released(f"x\n```python\n{CODE}\n```\ny") == CODE
    assert extract_program_released(f"```\n{CODE}\n```\n```\nz\n```") == CODE
    assert extract_program_released(f"```Python\n{CODE}\n```").startswith("Python\n")
    assert extract_program_released(f"{CODE}\nprose") == f"{CODE}\nprose"
