"""Records read what was said: with whatever setting `reasoning` thoughts were parted from it, nothing in it is a thought any more."""

from __future__ import annotations

from sweetrl_agent.envs.backend_explanation import _answer, _is_program
from sweetrl_agent.envs.registry import find_record

SAID = "I WANT TO ANSWER:\n<think>a program of a model that does not think</think>\ndef total(prices):\n    return 0"


def test_marks_in_what_was_said_are_text():
    answer = SAID.partition("\n")[2]
    assert find_record("ColBench-Backend-v0").answer(SAID) == answer
    assert find_record("ColBench-Frontend-v0").answer(f"<plan>no thought</plan>{SAID}") == answer
    assert _answer([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": SAID}]) == answer


def test_a_program_within_marks_is_one():
    assert _is_program("exception:NameError", "<think>\n```python\ndef total(prices):\n    return x\n```\n</think>", "total")
