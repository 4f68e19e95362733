"""Groups: episodes of a task are compared with each other and with no others, and all turns of an episode get its number."""

from __future__ import annotations

import pytest

from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.trainers.groups import in_groups


def _episode(task, reward, turns):
    return Episode(task, 0, [], [Turn("x")] * turns, {"outcome": "wrong"}, reward)


def test_a_group_is_a_task_in_whatever_order_its_episodes_come():
    groups = []

    def above_the_worst(returns):
        groups.append(list(returns))
        return [value - min(returns) for value in returns]

    episodes = [
        _episode("a", 3.0, 2),
        _episode("b", 5.0, 1),
        _episode("a", 1.0, 3),
        _episode("b", 9.0, 0),
        _episode("a", 2.0, 1),
    ]
    assert in_groups(episodes, above_the_worst) == [[2.0, 2.0], [0.0], [0.0, 0.0, 0.0], [], [1.0]]
    assert groups == [[3.0, 1.0, 2.0], [5.0, 9.0]]


def test_two_episodes_of_a_task_are_enough():
    episodes = [_episode("a", 1.0, 1), _episode("a", 2.0, 1)]
    assert in_groups(episodes, lambda returns: [value - min(returns) for value in returns]) == [[0.0], [1.0]]
    beside_another = in_groups([*episodes, _episode("b", 5.0, 1)], lambda returns: [value - min(returns) for value in returns])
    assert beside_another == [[0.0], [1.0], [0.0]]
    with pytest.raises(ValueError):
        in_groups([_episode("a", 1.0, 1), _episode("b", 2.0, 1)], list)


def test_where_void_episodes_leave_one_of_each_task_nothing_is_compared():
    left = [
        Episode("a", 1, [], [Turn("x")], {"outcome": "ended"}, 1.0),
        Episode("b", 0, [], [Turn("x")], {"outcome": "ended"}, 2.0),
    ]
    assert (
        in_groups(left, lambda returns: [0.0 for _ in returns])
        == [[0.0], [0.0]]
        == in_groups(left[1:], lambda _: [0.0]) + [[0.0]]
    )


def test_no_episodes_have_no_advantages():
    assert in_groups([], lambda returns: []) == []
