"""Topics that many families share, so that the same wish has the same wording everywhere.

Each builder returns a `Topic` with code for the slot of the topic's name (``{rounding}``, ``{cap}``, ...). `variable` is the
name of the value that the code changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.tasks.families.family import Option, Topic


def rounding(variable: str, kinds: Sequence[str] = ("cents", "down", "up")) -> Topic:
    """How the result is rounded; `kinds` picks from cents, tenths, whole, down and up. Special wishes in that order."""
    wishes = {
        "cents": Option("Round the result to two decimals.", {"rounding": f"{variable} = round({variable}, 2)"}),
        "tenths": Option("Round the result to one decimal.", {"rounding": f"{variable} = round({variable}, 1)"}),
        "whole": Option("Round the result to the nearest whole number.", {"rounding": f"{variable} = round({variable})"}),
        "down": Option("Round the result down to a whole number.", {"rounding": f"{variable} = int({variable} // 1)"}),
        "up": Option("Round the result up to a whole number.", {"rounding": f"{variable} = int(-(-{variable} // 1))"}),
    }
    return Topic(
        "rounding",
        ("How should the result be rounded?", "Do you want any rounding?"),
        (Option("No rounding, give the exact number.", {}), *(wishes[kind] for kind in kinds)),
    )


def empty(values: Sequence[str], test: str) -> Topic:
    """The result for empty input. The plain choice has no special handling.

    Args:
        values: Source of the values to return, from None, 0, -1, [] and {}; one special wish each.
        test: Condition that is true for empty input, e.g. ``not orders``.
    """
    names = {"None": "nothing at all", "0": "zero", "-1": "minus one", "[]": "an empty list", "{}": "an empty table"}
    wishes = (
        Option(f"For empty input return {names[value]}.", {"empty": f"if {test}:\n    return {value}"}) for value in values
    )
    return Topic(
        "empty",
        ("What should happen with empty input?", "What do you want back when there is nothing to process?"),
        (Option("Nothing special for empty input.", {}), *wishes),
    )


def cap(variable: str, limits: Sequence[int]) -> Topic:
    """An upper limit on the result; one special wish per limit."""
    wishes = (
        Option(
            f"The result is never more than {limit}: if it comes out higher, it is {limit}.",
            {"cap": f"{variable} = min({variable}, {limit})"},
        )
        for limit in limits
    )
    return Topic(
        "cap",
        ("Is there an upper limit?", "Should the result be capped?"),
        (Option("There is no upper limit.", {}), *wishes),
    )


def floor(variable: str, limits: Sequence[int]) -> Topic:
    """A lower limit on the result; one special wish per limit."""
    wishes = (
        Option(
            f"The result is never less than {limit}: if it comes out lower, it is {limit}.",
            {"floor": f"{variable} = max({variable}, {limit})"},
        )
        for limit in limits
    )
    return Topic(
        "floor",
        ("Is there a minimum?", "Should the result have a lower limit?"),
        (Option("There is no minimum.", {}), *wishes),
    )
