"""Continuations of episodes keep the past, draw another future, and are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .test_branches import vine  # noqa: F401


def test_continuations_keep_the_past_and_are_drawn_anew(vine):  # noqa: F811
    episode = max(vine.episodes, key=lambda one: len(one.turns))
    (branches,) = vine.batch(vine.episodes, 0).branch([(episode, 2)], 30)
    assert vine._costs["episodes"] == 30 and vine._costs["environment_turns"] == sum(
        len(branch.turns) - 1 for branch in branches
    )
    assert all(branch.messages[:3] == episode.messages[:3] and branch.turns[0] == episode.turns[0] for branch in branches)
    assert all(
        branch.hidden_at(1) == episode.hidden_at(1) and branch.hidden_at(2) == episode.hidden_at(2) for branch in branches
    )
    assert len({str(branch.messages) for branch in branches}) > 3
    batch = vine.batch(vine.episodes, 0)
    assert batch.branch([(episode, 2)], 30)[0] == branches != batch.branch([(episode, 2)], 30)[0], "a second call draws others"
    assert vine.batch(vine.episodes, 1).branch([(episode, 2)], 30)[0] != branches
    with pytest.raises(ValueError, match='must have "snapshot" in `requires`'):
        batch.branch([(replace(episode, states=[]), 1)], 1)
