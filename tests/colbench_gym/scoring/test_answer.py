"""The benchmark's markers and the program in an answer."""

from __future__ import annotations

import time
from textwrap import indent

import pytest

from colbench_gym.scoring.answer import (
    AgentMessage,
    _Parser,
    defines_function,
    extract_program,
    extract_program_released,
    parse_message,
)

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
    assert extract_program("\nX is not a MAX\n") == "X is not a MAX"
    assert extract_program("```\nI do not know.\n```") == "I do not know."


@pytest.mark.parametrize(
    "text", ["def f(:\n" * 2000, "(" * 20_000, "```" * 30_000, "- " * 9000, "x\n" * 9999 + "(", "def f(): 1\n(" * 400]
)
def test_hostile_text_takes_no_time(text):
    start = time.process_time()
    extract_program(text, "f")
    assert time.process_time() - start < 3


@pytest.mark.parametrize("program", ["X = 1\nY = X", "X = 1\nY = X  ", "XX", "nr = 1\nr", "  f(1)"])
def test_only_line_ends_are_cut_off_a_program(program):
    assert extract_program(f"```\n\n{program}\r\n\n```") == program
    assert extract_program(f"\r\n{program}\n").strip(" ") == program.strip(" ")


@pytest.mark.parametrize("language", [
    "bash", "sh", "shell", "zsh", "fish", "console", "terminal", "cmd", "powershell", "ps1", "output", "text", "txt", "plaintext", "stdout", "result",
    "json", "yaml", "toml", "html", "css", "diff",
])  # fmt: skip
def test_a_block_of_another_language_is_no_part_of_a_program(language):
    code = "def total(p):\n    return sum(p) * RATE"
    assert extract_program(f"```{language}\nRATE = 2\n```\n\n```python\n{code}\n```", "total") == code
    assert extract_program(f"```python\nRATE = 2\n```\n\n```python\n{code}\n```", "total") == f"RATE = 2\n\n{code}"


def test_only_line_ends_are_cut_off_code_in_prose_and_off_code_at_another_margin():
    assert extract_program("\nx = 1  \n") == "x = 1  "
    assert extract_program("So it is:\nX = 1\nY = X  \n") == "X = 1\nY = X  "
    assert extract_program("```\n X = 1\n f = lambda: X  \n```", "f") == "X = 1\nf = lambda: X  "


def test_a_first_line_that_lost_the_margin_of_the_others_is_moved_alone():
    assert extract_program("  def f(x):\n    return x\n\nx = 1") == "def f(x):\n    return x\n\nx = 1"
    assert extract_program("    def f(x):\n        return x\n\n    y = f(1)", "f") == "def f(x):\n    return x\n\ny = f(1)"
    assert extract_program("  I do not know\nthat.") == "  I do not know\nthat."


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


FENCE = "```"


def test_a_program_in_a_string_is_taken_where_the_whole_does_not_define_the_function():
    whole = f'x = """\n{FENCE}python\ndef f():\n    return 1\n{FENCE}\n"""'
    assert extract_program(whole, "f") == "def f():\n    return 1" and extract_program(whole, "x") == whole


def test_an_answer_that_shows_nothing_is_empty():
    assert extract_program("<!-- x -->") == "" and extract_program("<!-- x -->", "f") == "<!-- x -->"


def test_what_stands_in_a_fence_with_a_fence_in_it_is_used_by_a_later_block():
    first = f'{FENCE}python\nRATE = 2\n\ndef f():\n    """\n{FENCE}\nx\n{FENCE}\n    """\n    return RATE\n{FENCE}'
    later = f"{FENCE}python\ndef f():\n    return RATE * 2\n{FENCE}"
    assert extract_program(f"First:\n\n{first}\n\nNow:\n\n{later}\n", "f") == "RATE = 2\n\ndef f():\n    return RATE * 2"


def test_of_readings_that_define_the_function_alike_the_most_literal_is_taken():
    for text in ("Some\u200b words", "Zur\u00adück zu x"):
        assert extract_program(text, "f") == text


NOTE = f'note = """\n{FENCE}\n1\n{FENCE}\n"""'


@pytest.mark.parametrize("program", [NOTE, f"# A note\n{NOTE}", f"x = 1\nprint(x)\n{NOTE}\nf = make(note)"])
def test_a_whole_program_with_markup_in_its_strings_is_taken_as_a_whole(program):
    assert extract_program(program) == extract_program(program, "f") == extract_program(program, "g") == program


def test_a_whole_program_that_is_indented_is_moved_to_the_margin():
    assert extract_program(indent(NOTE, "  ")) == NOTE


def test_a_whole_program_keeps_all_that_it_does():
    assert extract_program("print(1)\ndef f(x): ...", "f") == "print(1)\ndef f(x): ..."


def test_a_block_keeps_all_that_it_does():
    for program in ("print(1)\ndef f(x):\n    return x", "def f(x):\n    return x\nDone"):
        assert extract_program(f"So:\n{FENCE}\n{program}\n{FENCE}", "f") == program


def test_the_code_of_a_block_with_prose_is_taken_if_it_is_all_the_code():
    for text in ("Here:\nclass A: pass", "class A: pass\nThat is it."):
        assert extract_program(f"{FENCE}\n{text}\n{FENCE}", "f") == "class A: pass"
    for broken in ("def f(x:\n    return x", "if x\n\treturn x", "def f(x:"):
        program = f"{broken}\ndef g(x):\n    return x"
        assert extract_program(f"{FENCE}\n{program}\n{FENCE}", "g") == program


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (f"{FENCE}\nThe rate:\nRATE = 2\n{FENCE}", "The rate:\nRATE = 2"),
        (f"{FENCE}\nRATE = 2\n{FENCE}\nDone.", "RATE = 2"),
        ("The rate:\n\n    RATE = 2\n\nDone, it is.", None),
        ("The rate:\nRATE = 2\nDone, it is.", None),
        ("I call `f(1)` then.", "f(1)"),
        (">>> x = 1", None),
        (f"{FENCE}\nRATE = 2\n{FENCE}\n\n{FENCE}\n# The function\ndef f(x:\n    return x\n{FENCE}", "# The function\ndef f(x:\n    return x"),
        ("X\ndef f(x:\n    return X  ", None),
        ("def helper(:\n\n    f = lambda x: x", None),
        ("def helper(:\n\tx = 1\n\n\tf = lambda x: x", None),
    ],
)  # fmt: skip
def test_without_the_function_the_block_that_comes_closest_is_taken_else_the_text(text, program):
    for answer in (text, f"\n{text}\n"):
        assert extract_program(answer, "f") == (text if program is None else program)


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (f"{FENCE}Python def f(x): return x + 1{FENCE}", "def f(x): return x + 1"),
        (f"{FENCE}\nPython\ndef f(x): return x\n{FENCE}", "def f(x): return x"),
        ("Use `def f(x): return x`.", "def f(x): return x"),
        ("  >>> A = 1\n  >>> def f(x):\n  ...     return A\n  ...\n  >>> f(1)\n  1", "A = 1\ndef f(x):\n    return A\n\nf(1)"),
        ("    f = make()\n\nDone, it is.", "f = make()"),
        (f"{FENCE}bash\ncat <<EOF >f.py\ndef f(x): return x\nEOF\n{FENCE}", "def f(x): return x\n"),
        (f"{FENCE}\nprint(1)\nA = 1 << 2\ndef f(x): return A\n{FENCE}", "print(1)\nA = 1 << 2\ndef f(x): return A"),
        (f"{FENCE}text\nRATE = 2\n{FENCE}\n{FENCE}\nf = make(RATE)\n{FENCE}", "f = make(RATE)"),
        (f"{FENCE}text\nRATE = 2\n{FENCE}\n\nThen:\n\n    def f(x):\n        return RATE", "def f(x):\n    return RATE"),
        (f"A = 1\n\n{FENCE}\nB = 2\n{FENCE}\n\nand:\n\n{FENCE}\ndef f(x): return A * B\n{FENCE}\n\nDone, it is.", "A = 1\n\nB = 2\n\ndef f(x): return A * B"),
        (f"Here:\n    {FENCE}text\n    RATE = 2\n    {FENCE}\nand\n    {FENCE}\n    def f(x): return RATE\n    {FENCE}", "def f(x): return RATE"),
        ("So I WANT TO ANSWER: f = lambda x: x", "f = lambda x: x"),
        ("Here:\ndef f(x): return x\nDone", "def f(x): return x\n"),
        ("Here:\n\nA = '''\n<!-- a\n-->\n'''\n\ndef f(x):\n    return A", "A = '''\n<!-- a\n-->\n'''\n\ndef f(x):\n    return A"),
        ("Here:\n\ndef f(x): return x\n\n<!--\ndef f(x): return 0\n-->", "def f(x): return x"),
        ("Here:\ndef f(x): return x" + "\nIt is what you, I think, asked for." * 60, "def f(x): return x"),
    ],
)  # fmt: skip
def test_the_function_is_found(text, program):
    assert extract_program(text, "f") == program


def test_code_in_prose_goes_on_until_its_first_error():
    assert extract_program("So:\nX = 1\nY = X\ndef g(:") == "X = 1\nY = X"
    assert extract_program("So:\ndef g(:\n  x\nX = 1\n") == "X = 1"
    assert extract_program("Sure\nX = 1\nThat is it.") == "X = 1"


@pytest.mark.parametrize("language", ["markdown", "md"])
def test_markdown_in_a_block_is_read_as_markdown(language):
    code = "def f(x):\n    return x"
    for inner in (f"note = '''\n{FENCE}python\n{code}\n{FENCE}\n'''", f"<PRE>{code}</PRE>"):
        assert extract_program(f"{FENCE}`{language}\n{inner}\n{FENCE}`", "f") == code


def test_markdown_in_markdown_is_read_two_blocks_deep():
    good, hidden = "def f(x):\n    return x", "def f(x):\n    return 0"
    once = f"{FENCE}`md\n{FENCE}python\n{good}\n{FENCE}\n<!--\n{hidden}\n-->\n{FENCE}`"
    twice = f"{FENCE}``md\n{once}\n{FENCE}``"
    assert extract_program(once, "f") == extract_program(twice, "f") == good
    assert extract_program(f"{FENCE}```md\n{twice}\n{FENCE}```", "f") == hidden


def test_a_version_in_a_fence_in_a_docstring_is_no_version():
    example = f"{FENCE}\nx\n{FENCE}\nFor example:\n{FENCE}python\ndef f():\n    return 0\n{FENCE}"
    program = f'def f():\n    """\n{example}\n    """\n    return 1'
    assert extract_program(f"{FENCE}python\n{program}\n{FENCE}", "f") == program
    assert extract_program(f"{FENCE}`python\n{program}\n{FENCE}`", "f") == program


@pytest.mark.parametrize(("first", "last", "is_read"), [(0, 12, True), (0, 13, False), (6, 6, True), (6, 7, False)])
def test_twelve_later_ends_of_fences_are_tried_in_an_answer(first, last, is_read):
    programs = [
        f"def f():\n    '''\n{FENCE * bool(count)}" + f"\n{FENCE}" * (count - 1) + f"\n    '''\n    return {place}, X  "
        for place, count in enumerate((first, last))
    ]
    answer = "\n\nThen:\n\n".join(f"{FENCE}python\n{program}\n{FENCE}" for program in programs)
    assert (extract_program(answer, "f") == programs[1]) is is_read


def test_text_with_a_fence_in_it_is_used_by_no_later_block():
    output = f'{FENCE}text\nRATE = 2\n\ndef f():\n    """\n{FENCE}\nx\n{FENCE}\n    """\n    return RATE\n{FENCE}'
    later = f"{FENCE}python\ndef f():\n    return RATE * 2\n{FENCE}"
    assert extract_program(f"First:\n\n{output}\n\nNow:\n\n{later}\n", "f") == "def f():\n    return RATE * 2"


def test_thoughts_are_left_out_unless_the_whole_is_a_program():
    thought = f"<think>\n{FENCE}\n{CODE}\n{FENCE}\n</think>\nDone."
    assert extract_program(thought, "total") == "Done." and extract_program(thought, "total", "none") == CODE
    program = f"# <think>It adds up.</think>\n{CODE}"
    assert extract_program(program, "total") == program


def test_an_answer_defines_the_function_if_its_program_does():
    assert defines_function(f"{FENCE}\nx = 1\n{FENCE}\n{FENCE}\n{CODE}\n{FENCE}", "total")
    assert not defines_function(CODE, "f") and not defines_function("I do not know.", "f")
    thought = f"<think>\n{FENCE}\n{CODE}\n{FENCE}\n</think>\nDone."
    assert not defines_function(thought, "total") and defines_function(thought, "total", "none")


def test_a_bare_program_that_begins_with_an_import_keeps_the_fences_in_its_strings():
    program = f'import math\n\nDOC = """\n{FENCE}\nx = 1\n{FENCE}\n"""\n\ndef f():\n    return DOC + str(math.pi)'
    assert extract_program(program, "f") == program
