"""The advantage of a turn against numbers done by hand."""

from __future__ import annotations

from sweetrl_agent.critics.credit import turn_advantages

RATIOS = [9.0, 1.0, 3.0, 9.0, -2.0, 9.0, 4.0, 5.0, 6.0]
TURNS = [0, 1, 1, 0, 2, 0, 3, 3, 3]  # means 2, -2 and 5


def test_a_turns_advantage_is_the_mean_of_its_tokens():
    assert turn_advantages(RATIOS, TURNS) == [2.0, -2.0, 5.0]
    assert turn_advantages([], []) == []
    assert turn_advantages([1.0, 2.0], [0, 0]) == []
