"""A space of text that really holds text."""

from __future__ import annotations

import re

import pytest
from gymnasium.vector.utils import batch_space

from colbench_gym.spaces import UnicodeText


def test_it_holds_any_string_that_is_not_too_long():
    space = UnicodeText(5)
    assert all(text in space for text in ("", "abc\n", "ü日本👩‍"))
    assert all(x not in space for x in ("abcdef", b"a", 1, None, ["a"]))


def test_samples_are_short_seeded_and_hold_no_marker():
    one, two = UnicodeText(seed=1), UnicodeText(seed=1)
    samples = [one.sample() for _ in range(200)]
    assert samples == [two.sample() for _ in range(200)]
    assert all(sample in one and 1 <= len(sample) <= 40 and ":" not in sample for sample in samples)
    assert len(UnicodeText(3).sample()) <= 3


def test_equality_is_by_length():
    assert UnicodeText(5) == UnicodeText(5, seed=3) != UnicodeText(6)
    assert repr(UnicodeText(5)) == "UnicodeText(5)" and not UnicodeText(5).is_np_flattenable
    assert len(batch_space(UnicodeText(5), 3)) == 3


def test_wrong_arguments_are_refused():
    text = "`max_length` and `sample_length` must be positive, got 0 and 40."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        UnicodeText(0)
    with pytest.raises(ValueError, match=r"^UnicodeText has no masks; call `sample\(\)` without arguments\.$"):
        UnicodeText().sample(mask=1)
