"""Void episodes in training on own episodes: few are left out, many end the command before it trains on a biased rest."""

from __future__ import annotations

from collections import Counter

import pytest

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.trainers.measured import refuse_void


def episodes(valid, void):
    made = [Episode(str(i), 0, [], [], {"outcome": "ended"}, 1.0, "") for i in range(valid)]
    return made + [
        Episode(str(i), 1, [], [], {"outcome": "void"}, 0.0, "", void_reason="the server is down") for i in range(void)
    ]


def test_few_void_episodes_are_left_out():
    counts = Counter()
    for _ in range(5):
        assert len(refuse_void(episodes(19, 1), counts, 0.05)) == 19
    assert counts == {False: 95, True: 5}


def test_many_end_the_command_and_say_why():
    counts = Counter()
    assert len(refuse_void(episodes(30, 9), counts, 0.05)) == 30, "too few to tell"
    with pytest.raises(ColBenchError, match=r"^18 of 78 episodes are void.*allows 5%\. The last: the server is down\. Fix it"):
        refuse_void(episodes(30, 9), counts, 0.05)
    assert len(refuse_void(episodes(30, 9), Counter(), 0.5)) == 30


def test_an_iteration_without_a_valid_episode_teaches_nothing():
    with pytest.raises(ColBenchError, match="3 of 3 episodes are void"):
        refuse_void(episodes(0, 3), Counter(), 0.5)
    assert refuse_void(episodes(0, 3), Counter(), 1.0) == []
