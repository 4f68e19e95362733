"""What counts as a question, and which words are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colbench_gym.simulators.understanding.questions import questions
from colbench_gym.simulators.understanding.stems import is_light, stem, stems


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("Is there a cap?", ["Is there a cap?"]),
        ("Thanks. Is there a cap? And a floor?", ["Is there a cap?", "And a floor?"]),
        ("Please specify the rounding.", ["Please specify the rounding."]),
        ("I round down. Is that right?", ["I round down. Is that right?"]),
        ("Could you tell me:\n1. the cap\n2. the floor", ["Could you tell me:", "1. the cap", "2. the floor"]),
        ("Let me know about:\n- the cap\n- the floor", ["Let me know about:", "- the cap", "- the floor"]),
        ("I will write it now.", []),
        ("```python\n# what now?\nx = y or z\n```", []),
        ("```python\nnever closed?", []),
        ("def f(x):\n    return x\nif x > 3:\n    y = 2", []),
        ("", []),
    ],
)
def test_questions(message: str, found: list[str]) -> None:
    assert questions(message) == found


@pytest.mark.parametrize(
    "forms",
    [
        ("round", "rounds", "rounded", "rounding"),
        ("cap", "caps", "capped", "capping"),
        ("category", "categories", "categorize", "categorized"),
        ("calculate", "calculates", "calculated", "calculating", "calculation"),
        ("price", "prices", "priced", "pricing"),
    ],
)
def test_forms_of_a_word_share_a_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


def test_stems_split_identifiers_and_drop_contractions() -> None:
    assert stems("What's unit_price?") == ["what", "unit", "pric"]
    assert stems("a floor of 2.5") == ["a", "floor", "of", "2.5"]
    assert is_light("what")
    assert not is_light("pric")


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    assert all(isinstance(question, str) and question for question in questions(text))
    assert all(stems(text))
