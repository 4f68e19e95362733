"""The markers of a message, in the letter case and the dress in which models write them."""

from __future__ import annotations

import pytest

from colbench_gym.scoring.message import parse_message, without_marker

CODE = "```python\ndef f(x):\n    return x + 1\n```"
HEADS = (
    "I WANT TO ANSWER:", "I want to answer:", "i want to answer:", "I Want To Answer:", "I WANT TO ANSWER", "I want to answer", "**I WANT TO ANSWER:**",
    "**I want to answer:**", "**I WANT TO ANSWER**:", "**I want to answer**", "***I WANT TO ANSWER:***", "*I want to answer:*", "_I want to answer:_", "__I WANT TO ANSWER__:",
    "# I WANT TO ANSWER", "## I want to answer:", "### **I WANT TO ANSWER:**", "## I WANT TO ANSWER: ##", "> I want to answer:", "> **I WANT TO ANSWER:**", "`I WANT TO ANSWER:`",
    "`I want to answer:`", "`I WANT TO ANSWER`:", "- I WANT TO ANSWER:", "* I want to answer:", "1. I want to answer:", "I WANT TO ANSWER :", "I WANT TO ANSWER\uff1a", "I want to answer \uff1a",
    "I WANT TO ANSWER\\:", "\\*\\*I WANT TO ANSWER:\\*\\*", "I_WANT_TO_ANSWER:", "I  WANT   TO ANSWER:", "I\u00a0WANT\u00a0TO\u00a0ANSWER:", "\ufeffI want to answer:", "I WA\u200bNT TO ANSWER:",
    "\u200eI want to answer\u200f:", "<b>I WANT TO ANSWER:</b>", "<strong>I want to answer:</strong>", "\u2705 I want to answer:", "\u2705 **I WANT TO ANSWER**", "[I WANT TO ANSWER]:", "(I want to answer:)",
    "\u201cI WANT TO ANSWER:\u201d", "~~I want to answer:~~", "  I want to answer:", "I WANT TO ANSWER -", "I WANT TO ANSWER \u2014", "I WANT TO ANSWER.", "I WANT TO ANSWER!", "I want to answer...",
    "<b>I want to answer</b>", "<B>I want to answer</B>", "Thank you. I want to answer:", "All is clear! **I want to answer:**", "Well, I WANT TO ANSWER:", "So I **WANT** TO ANSWER:",
)  # fmt: skip


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("gap", ["\n", "\n\n", "\r\n"])
def test_the_marker_in_any_dress_starts_the_answer(head, gap):
    message = parse_message(f"{head}{gap}{CODE}")
    assert message.answer is not None and message.answer.strip("\u200f \n") == CODE
    assert message.utterance == f"{head}{gap}{CODE}".strip() and message.thought == ""


@pytest.mark.parametrize(
    "head",
    [
        "I WANT TO ANSWER:", "I want to answer: ", "**I WANT TO ANSWER:** ", "I WANT TO ANSWER - ", "`I WANT TO ANSWER:` ", "“I WANT TO ANSWER:” ",
        "‘I WANT TO ANSWER:’ ", "«I WANT TO ANSWER:» ", "(I WANT TO ANSWER:) ", "(I WANT TO ANSWER:)", "[I WANT TO ANSWER:] ", "<b>I WANT TO ANSWER:</b> ",
    ],
)  # fmt: skip
def test_the_answer_may_stand_on_the_line_of_the_marker(head):
    assert parse_message(f"{head}f = lambda x: x").answer == "f = lambda x: x"
    assert parse_message(f"{head}{CODE}").answer == CODE


@pytest.mark.parametrize("head", ["I want to answer ", "Thank you. I want to answer: ", "I WANT TO ANSWER:"])
@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_block_may_start_on_the_line_of_the_marker(head, fence):
    assert parse_message(f"{head}{fence}\nx\n{fence}").answer == f"{fence}\nx\n{fence}"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('My words: "I WANT TO ANSWER:', ""),
        (f'My words are "I WANT TO ANSWER:"\n{CODE}', CODE),
        ("So I WANT TO ANSWER:'a' + 'b'", "'a' + 'b'"),
        ("FIXI WANT TO ANSWER:X = 1", "X = 1"),
        ("`I WANT TO ANSWER:```", ""),
    ],
)
def test_the_benchmarks_own_marker_counts_wherever_it_stands(text, answer):
    assert parse_message(text).answer == answer


def test_a_marker_at_a_start_has_at_most_a_hundred_signs_before_it():
    assert parse_message("*" * 100 + "I want to answer: x").answer == "x"
    assert parse_message("*" * 101 + "I want to answer: x").answer is None


@pytest.mark.parametrize(
    "text",
    [
        "I WANT TO ANSWER: x",
        "**I want to answer:** x",
        "\n **I want to answer:**\nx",
        "\u200bI want to answer\nx",
        "*" * 383 + "I WANT TO ANSWER: x",
    ],
)
def test_a_text_that_begins_with_the_marker_is_read_behind_it(text):
    assert without_marker(text) == "x"


@pytest.mark.parametrize(
    "text",
    [" x", "The answer is 4", "\u200bx", "So I WANT TO ANSWER: x", "x\nI WANT TO ANSWER: y", "*" * 384 + "I WANT TO ANSWER: x"],
)
def test_a_text_that_begins_otherwise_stays_as_it_is(text):
    assert without_marker(text) == text


def test_the_marker_may_begin_any_line():
    assert parse_message(f"Thanks.\nAll is clear\nI want to answer\n{CODE}").answer == CODE


def test_an_answer_keeps_the_indentation_of_its_first_line():
    assert parse_message("I WANT TO ANSWER:\n\n    def f(x):\n        return x\n").answer == "    def f(x):\n        return x"


@pytest.mark.parametrize(
    "text",
    [
        "Tell me when I want to answer questions, please.", "I want to answer questions: which ones?", "I want to answer your request well. Is there a fee?", "I want to answer?",
        "Before I want to answer: is there a fee?", "Some questions before I want to answer:\n- Is there a fee?", "Do you know what I want to answer", "I wanted to answer: no.",
        "AI want to answer: no", "I want to answered: x", "Later I begin with 'I WANT TO ANSWER:'. Is there a fee?", 'I say "I WANT TO ANSWER:" at the end. Fine?', "I begin with 'I WANT TO ANSWER:'.",
        "I WANT TO ANSWER YOU. Is there a fee?", "I will say that I want to answer, later.", "I want\nto answer: x",
    ],
)  # fmt: skip
def test_a_sentence_with_the_words_is_no_answer(text):
    assert parse_message(text).answer is None


@pytest.mark.parametrize(
    ("text", "thought", "utterance"),
    [
        ("I ask.\nOUTPUT: A fee?", "I ask.", "A fee?"),
        ("I ask. OUTPUT: A fee?", "I ask.", "A fee?"),
        ("I ask.\n**OUTPUT:** A fee?", "I ask.\n**", "** A fee?"),
        ("I ask.\nOUT\u200bPUT: A fee?", "I ask.", "A fee?"),
        ("```python\ndraft\n```\nOUTPUT: A fee?", "```python\ndraft\n```", "A fee?"),
        ("def draft(): pass\nOUTPUT: A fee?", "def draft(): pass", "A fee?"),
        ("```\rOUTPUT: 3\r```\rOUTPUT: A fee?", "```\rOUTPUT: 3\r```", "A fee?"),
        ("```\r\nOUTPUT: 3\r\n```\r\nOUTPUT: A fee?", "```\r\nOUTPUT: 3\r\n```", "A fee?"),
        ("Not `a` but `b OUTPUT: c`. OUTPUT: A fee?", "Not `a` but `b OUTPUT: c`.", "A fee?"),
        ("I take `a`. OUTPUT: A fee?", "I take `a`.", "A fee?"),
        ("`a OUTPUT: b` is said. OUTPUT: A fee?", "`a OUTPUT: b` is said.", "A fee?"),
        ("I ask.\nThen: OUTPUT: A fee?", "I ask.\nThen:", "A fee?"),
        ("Is it `a?\nThen: OUTPUT: A fee?", "Is it `a?\nThen:", "A fee?"),
        ('I take """a""".\nThen: OUTPUT: A fee?', 'I take """a""".\nThen:', "A fee?"),
        ("\n```\nx\n```\nOUTPUT: A fee?", "```\nx\n```", "A fee?"),
        ("`OUTPUT:` is the marker.\nOUTPUT: A fee?", "`OUTPUT:` is the marker.", "A fee?"),
        (f"Soon: I WANT TO ANSWER:\n{CODE}\nNo, better:\nOUTPUT: I WANT TO ANSWER:\nx", f"Soon: I WANT TO ANSWER:\n{CODE}\nNo, better:", "I WANT TO ANSWER:\nx"),
        ("Do I WANT TO ANSWER: no.\nOUTPUT: A fee?", "Do I WANT TO ANSWER: no.", "A fee?"),
        ("def draft(): pass\nDo I WANT TO ANSWER: no.\nOUTPUT: A fee?", "def draft(): pass\nDo I WANT TO ANSWER: no.", "A fee?"),
        ("I ask.\nOUTPUT: Is it so?\n```\nx\n```", "I ask.", "Is it so?\n```\nx\n```"),
        ("(`OUTPUT: x`) is odd. OUTPUT: A fee?", "(`OUTPUT: x`) is odd.", "A fee?"),
        ("'OUTPUT:' is the marker. OUTPUT: A fee?", "'OUTPUT:' is the marker.", "A fee?"),
        ('OUTPUT:"Yes" or "no"', "", '"Yes" or "no"'),
        (f"def draft(): pass\n{'*' * 99}OUTPUT: A fee?", f"def draft(): pass\n{'*' * 99}", "A fee?"),
    ],
)  # fmt: skip
def test_a_thought_ends_with_its_marker(text, thought, utterance):
    message = parse_message(text)
    assert (message.thought, message.utterance) == (thought, utterance)


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    '''Add one.\n\n    OUTPUT: a number\n    '''\n    return x + 1",
        "def f(x):\n  '''Add one.\n\n  OUTPUT: a number\n  '''\n  return x + 1",
        "def f(x):\n    '''Add one.\nOUTPUT: a number\n    '''\n    return x + 1",
        "def f(x):\n    print('OUTPUT:', x)\n    return x + 1",
        "def f(x):\n    # OUTPUT: a number\n    return x + 1",
        "f = lambda x: print('OUTPUT:') or x + 1",
        '"""Add one.\nOUTPUT: a number\n"""\ndef f(x):\n    return x + 1',
        "def f(x):\n    return x + 1\nX OUTPUT: a number",
        "def f(x):\n    return x + 1\n  OUTPUT: a number",
        "def f(x):\n    return x + 1\n" + "*" * 100 + "OUTPUT: a number",
        'MARK = "OUTPUT:"\n\ndef f(x):\n    return MARK',
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        "I WANT TO ANSWER:\n{}",
        "I WANT TO ANSWER:\n```python\n{}\n```",
        "I want to answer:\n~~~\n{}\n~~~\nOUTPUT: 3",
        "{}",
        "```\n{}\n```",
    ],
)
def test_the_marker_of_thoughts_in_code_ends_no_thought(program, form):
    text = form.format(program)
    message = parse_message(text)
    assert message.thought == "" and message.utterance == text
    assert message.answer is None or program in message.answer


@pytest.mark.parametrize(
    "part",
    [
        "OUTPUT:",
        "OUTPUT: `",
        "I WANT TO ANSWER:",
        "I want to answer",
        "I WANT TO ANSWER*",
        "'I WANT TO ANSWER:'x ",
        "```\nOUTPUT:\n",
        "def f\nOUTPUT: ",
    ],
)
def test_long_texts_of_markers_are_read_to_their_end(part):
    parse_message(part * (400_000 // len(part)))


def test_what_code_prints_is_no_end_of_a_thought():
    text = "```python\ndef f(x):\n    return x + 1\n```\n\n**OUTPUT:**\n\n```\n3\n```\n"
    assert parse_message(text).thought == "" and parse_message(text).utterance == text.strip()
    for thought in (
        "I try:\n```python\nx = 1\n```\nOUTPUT:\nWhat is the fee?",
        "I think.\nOUTPUT:\n```\n3\n```",
        "A draft:\n```\nx\n```\nOUTPUT:\n```\nShould the list be sorted?\n```",
        "A draft:\n```\nx\n```\nOUTPUT:\n```\nPlease tell me the tax rate.\n```",
        "A draft:\n```\nx\n```\nand more.\nOUTPUT:\n```\n3\n```",
        "```\nx = 1\n```\nOUTPUT:\n```\nx = 2\n```",
    ):
        assert parse_message(thought).thought


@pytest.mark.parametrize("rest", [" " * 30_000 + "x", "\n" + "`" * 30_000 + "\n" + "x\n" * 30_000, "\n" * 30_000 + "x"])
def test_the_end_of_a_thought_takes_time_that_is_linear_in_the_text(rest):
    assert parse_message(f"```\nx\n```\nOUTPUT:{rest}").thought
