"""Arguments of another type than the annotation says are refused in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from sandboxes.arguments import check_types, typed


def takes(
    number: float = 0.0,
    count: int | None = None,
    word: Literal["a", "b"] = "a",
    switch: bool = False,
    items: str | Sequence[str] = (),
    mapping: Mapping[str, int] | None = None,
    anything: Any = None,
    unannotated=None,
    **others: int,
) -> float:
    return number


@pytest.mark.parametrize(
    "given",
    [
        {"number": 1, "count": None}, {"number": 1.5, "count": 3}, {"number": float("inf")}, {"word": "c"}, {"switch": True}, {"items": "x"},
        {"items": ["x"]}, {"mapping": {"x": "y"}}, {"anything": object(), "unannotated": 3}, {"others": "text", "other": "text"},
    ],
)  # fmt: skip
def test_values_of_the_type_pass(given):
    check_types(takes, {name: value for name, value in given.items() if not name.startswith("other")})
    assert typed(takes)(**given) == given.get("number", 0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"number": "1"}, "`number` must be a number, got '1'."),
        ({"number": True}, "`number` must be a number, got True."),
        ({"number": float("nan")}, "`number` must be a number, got nan."),
        ({"count": 2.0}, "`count` must be an integer or None, got 2.0."),
        ({"count": False}, "`count` must be an integer or None, got False."),
        ({"word": 1}, "`word` must be text, got 1."),
        ({"switch": "yes"}, "`switch` must be true or false, got 'yes'."),
        ({"items": [1]}, "`items` must be text or a sequence of str, got list."),
        ({"mapping": [1]}, "`mapping` must be a mapping or None, got list."),
        ({"items": 10**300}, "got 1" + "0" * 199 + "."),
    ],
)
def test_others_are_refused(given, message):
    for call in (lambda: check_types(takes, given), lambda: typed(takes)(**given)):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value).endswith(message)
    assert inspect.signature(typed(takes)) == inspect.signature(takes)
