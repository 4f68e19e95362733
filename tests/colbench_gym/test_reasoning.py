"""What of a model's text is thought, and what is speech."""

from __future__ import annotations

import re
import sys
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colbench_gym.reasoning import AROUND_SPEECH, HARMONY, NONE, PAIRS, Reasoning

FINAL = "<|start|>assistant<|channel|>final<|message|>"
THOUGHTS = [
    "<think>a</think>",
    "<think>\na\n</think>\n\n",
    "\n<think>a</think>",
    "a</think>",
    "</think>",
    "<think></think>",
    "<think/>",
    "<Think>a</THINK>",
    "< think >a< /think >",
    '<think lang="en">a</think>',
    "<think>a <think>b</think> c</think>",
    "<think>a [/THINK] </thinking> c</think>",
    "<think>a</think><think>b</think>",
    "<think>a</think>\n[THINK]b[/THINK]",
    "<think>```py\ndef f(): pass\n```</think>",
    "<think>```py\ndef f(): pass</think>",
    "I say 'x' and \"y\", don't I?</think>",
    "<think>'I WANT TO ANSWER:' is the marker</think>",
    "<think>I write </think> soon.</think>",
    "<think>OUTPUT: a</think>",
    "<|channel|>analysis<|message|>a<|end|>" + FINAL,
    "<|start|>assistant<|channel|>analysis<|message|>a<|end|>" + FINAL,
    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=x <|constrain|>json<|message|>{}<|call|>"
    + FINAL,
    "analysis<|message|>a<|end|>" + FINAL,
    "analysisI should ask.assistantfinal",
    "analysisshould I ask?assistantfinal",
    "assistantanalysis1. Ask.assistantcommentaryaassistantfinal",
    "<|channel|>analysis\n<|message|>a<|end|>\n<|start|>assistant\n<|channel|>final\n<|message|>",
    "<|channel|>analysis to=<a><|message|>a<|end|>" + FINAL,
    "<|channel|>\n\n=?<|message|>a<|end|>" + FINAL,
    "<think\n>a</think\n>",
    "<think id='1' n=2>a</think>",
    "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>",
    *(f"{opening}a{closing}" for opening, closing in PAIRS),
]
#: Texts without a thought.
SPEECH = [
    "Is there a fee?",
    "Should I strip what is between `<think>` and `</think>`?",
    'Should I strip what is between "<think>" and "</think>"?',
    "Say '<think>' first.",
    "The mark ‘</think>’ ends it.",
    'return re.sub(r"(<think>.*?</think>)", "", text)',
    'x = text.split("</think>")[-1]',
    "```python\ndef f(text):\n    # <think> is a mark, and </think> is one\n    return text\n```",
    "~~~\n<think>\n~~~",
    "1. list\n   ```\n   </think>\n   ```",
    "```html\n<p><think></p>",
    'def f(text):\n    """Remove what is between\n    <think> and </think>.\n    """\n    return text',
    "```\ntext.split('<|channel|>final<|message|>')\n```",
    "if a < think and b > c: pass",
    "I WANT TO ANSWER:\ndef f(text):\n    # don't keep <think> and </think>\n    return text.split('</think>')[0]  # it's </think>",
    "if a <\nthink>b: pass",
    "I think so. analysis follows; [think] is no mark.",
]
_WORDS = [
    *(mark for pair in PAIRS for mark in pair), *AROUND_SPEECH, *HARMONY, "<Think>", "< /think >", "<think/>", "assistant", "final", "analysis", "assistantfinal",
    "`", "```", "\n```\n", "~~~", "\n", " ", "'", '"', '"""', "“", "”", "a", "A", "Hello", "<", ">", "/", "think", "<thi", "nk>", "I WANT TO ANSWER:", ">", "é", "\u200b",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(_WORDS), max_size=14).map("".join) | st.text(max_size=40)
_FRAME = re.compile("|".join(re.escape(mark) for mark in (*AROUND_SPEECH, *HARMONY)))


@pytest.mark.parametrize("thought", THOUGHTS)
@pytest.mark.parametrize(
    "said", ["Is there a fee?", "I WANT TO ANSWER:\n```python\ndef f(x):\n    return '<think>'\n```", "```\n<think>\n```"]
)
def test_a_thought_is_not_said(thought, said):
    reply = Reasoning().split(thought + said)
    assert (reply.speech, reply.is_unfinished) == (said, False)
    assert reply.thought.strip() == thought.strip()


@pytest.mark.parametrize("text", SPEECH)
def test_marks_in_code_and_quotes_are_text(text):
    assert Reasoning().split(text).speech == text
    assert Reasoning().split(f"<think>a</think>\n\n{text}").speech == text
    assert Reasoning().speech(f" {text}\n") == f" {text}\n"


@pytest.mark.parametrize(
    "text",
    [
        "<think>a",
        "<think>",
        "<think>a </thinking>",
        "[THINK]a",
        "<|channel|>analysis<|message|>a",
        "<|channel|>analysis",
        "analysisI should ask.",
    ],
)
def test_a_thought_that_does_not_end_says_nothing(text):
    reply = Reasoning().split(text)
    assert (reply.speech, reply.thought, reply.is_unfinished) == ("", text, True)


def test_a_code_block_that_never_ends_does_not_keep_a_thought_open():
    assert Reasoning().split("```py\ndef f(): pass</think>Is there a fee?").speech == "Is there a fee?"
    text = "```py\n# from <think> to </think>\nx = 1"
    assert Reasoning().split(text).speech == text


def test_what_was_said_before_a_thought_stays():
    assert Reasoning().split("Well. <think>hm</think>Is there a fee? <think>a").speech == "Well. Is there a fee?"


def test_a_prompt_may_open_the_thought():
    reasoning = Reasoning()
    assert [reasoning.opened_by(prompt) for prompt in ("<|assistant|><think>\n", "[/INST][THINK]", "<think>\n\n</think>\n\n", "")] == [
        "</think>", "[/THINK]", "", "",
    ]  # fmt: skip
    assert reasoning.split("a <think> b</think>Hi", "</think>").speech == "Hi"
    assert reasoning.split("It's `</think>`Hi", "</think>").speech == "`Hi"  # within a thought, a mark is a mark
    assert reasoning.split("I wonder.", "</think>").is_unfinished
    opened = reasoning.opened_by("<|start|>assistant<|channel|>analysis<|message|>")
    assert reasoning.split(f"a<|end|>{FINAL}Hi", opened).speech == "Hi" and reasoning.split("a", opened).speech == ""


def test_a_model_has_its_own_marks():
    reasoning = Reasoning("<plan> </plan>")
    assert reasoning.split("<plan>a</plan> <think>Hi").speech == "<think>Hi"
    assert reasoning.opened_by("x<plan>") == "</plan>" and reasoning.is_mark("<plan>") and not reasoning.is_mark("<think>")
    assert Reasoning(NONE).split(" <think>Hi ").speech == "<think>Hi" and not Reasoning(NONE).opened_by("<think>")
    for setting in ("<plan>", "a b c", "a a", "", 3):
        with pytest.raises(ValueError, match="`reasoning` must be 'auto', 'none', or an opening and a closing mark"):
            Reasoning(setting)


@given(TEXTS, st.sampled_from(["", *(closing for _, closing in PAIRS)]))
@example("<thi<think>x</think>nk>y", "")
@example("<think>x</think>```\nb\n```\n<think>\n```", "")
@example("assistantfinalanalysisanalysisA", "")
def test_speech_holds_no_thought_and_nothing_is_lost(text, opened):
    reply = Reasoning().split(text, opened)
    again = Reasoning().split(reply.speech)
    assert (again.speech, again.thought) == (reply.speech, "")
    assert _letters(reply.speech) + _letters(reply.thought) == _letters(text)


def _letters(text):
    """The letters of a text, but not those of marks that frame a message."""
    return Counter(c for c in _FRAME.sub("\n", text) if not c.isspace())


@pytest.mark.parametrize(
    "part",
    ["<think>", "</think>", "<think>a</think>b", "<thi", "'", "“", '"""</think>', "```a\n", "````x\n</think>", "```\n```\n", "```\na\n```\n</think>\n", "<|channel|>x",
     "<|message|>", "<|channel|>", "    a # ", "\n    a", "<think a=b ", "<", "< ", ' a="b"', "<|END_RESPONSE|> ", "analysisA", " ", "'<|channel|>a<|message|>'", "` `` "],
)  # fmt: skip
def test_the_number_of_steps_is_linear(part):
    def lines(count):
        steps, text = 0, part * count + "x"

        def trace(frame, event, arg):
            nonlocal steps
            steps += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            Reasoning().split(text)
        finally:
            sys.settrace(before)
        return steps

    assert lines(400) <= 2.2 * lines(200) + 100
