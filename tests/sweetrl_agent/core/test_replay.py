"""Replay: which transitions it keeps, what they hold, and that drawing depends on the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.replay import Replay
from sweetrl_agent.core.trainable import Trainable, linear_to_zero
from sweetrl_agent.trainers.checkpoint import Checkpoint

from .test_two_agents import EpisodeKey, Halves, two_policies
from .toys import chain_episode, dialogues, played


@pytest.fixture
def episodes():
    rng = np.random.default_rng(0)
    return [chain_episode(i, 3, 0.5, rng) for i in range(40)]


def test_the_latest_episodes_are_kept(episodes):
    replay = Replay(20)
    for episode in episodes:
        replay.add([episode])
    assert 20 <= len(replay) < 20 + max(len(episode.turns) for episode in episodes)
    assert replay.transitions[-1].episode.index == 39 and len({t.episode.index for t in replay.transitions}) < 20
    last = replay.transitions[-1]
    assert last.following is None and last.action.reward == 1.0 and last.observation == episodes[-1].messages[:-1]
    first = replay.transitions[0]
    assert first.turn == 1 and first.following == first.episode.messages[:3]


def test_drawing_depends_on_the_seed_alone(episodes):
    replay = Replay(50)
    replay.add(episodes)
    drawn = [[(t.episode.index, t.turn) for t in replay.sample(30, seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    none = Replay()
    none.add(episodes)
    with pytest.raises(
        ValueError, match="^The replay has no transition to draw: its algorithm's `Config` needs a field `replay` above 0.$"
    ):
        none.sample(1, 0)


def test_a_transition_of_several_agents_is_between_an_agents_own_states():
    replay = Replay(10)
    replay.add(played(two_policies(), dialogues(Halves, 1), [EpisodeKey("0")], "x"))
    assert [(t.turn, t.following) for t in replay.transitions] == [(1, None), (1, None)]
    assert replay.transitions[0].observation[0]["content"].startswith("your bit") and replay.transitions[1].hidden.startswith(
        "bits"
    )


def test_an_agents_reward_is_that_of_all_turns_until_its_own_next_one():
    replay = Replay(10)
    turns = [
        Turn("ask", reward=0.25, agent="a"),
        Turn("hand over", agent="a"),
        Turn("code", reward=1.0, agent="b"),
        Turn("mend", reward=2.0, agent="b"),
    ]
    said = [{"role": "assistant", "content": turn.text, "agent": turn.agent} for turn in turns]
    messages = [
        {"role": "user", "content": "?"},
        said[0],
        {"role": "user", "content": "!"},
        said[1],
        said[2],
        {"role": "user", "content": "no"},
        said[3],
    ]
    replay.add([Episode("0", 0, messages, turns, {"outcome": "ended"}, 3.25)])
    assert [(t.action.text, t.reward) for t in replay.transitions] == [
        ("ask", 0.25),
        ("hand over", 3.0),
        ("code", 1.0),
        ("mend", 2.0),
    ]


def test_a_batch_without_a_trainer_says_what_it_lacks():
    with pytest.raises(NotImplementedError, match="^This batch has episodes and values alone"):
        Batch([]).score([])


def test_trainables_follow_their_schedules_and_each_other(tmp_path):
    module, target = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    trained = Trainable("critic", module, torch.optim.SGD(module.parameters(), lr=0.5), linear_to_zero)
    trained.set_progress(0.75)
    assert trained.optimizer.param_groups[0]["lr"] == 0.125
    before, own = target.weight.item(), module.weight.item()
    follower = Trainable("target", target)
    follower.follow(module, 0.25)
    assert target.weight.item() == pytest.approx(0.75 * before + 0.25 * own)
    with pytest.raises(ValueError, match="^The trainable 'target' has no optimizer to take a step with.$"):
        follower.step()
    with pytest.raises(ValueError, match="^Each trainable needs a `name` of its own, got 'critic' twice.$"):
        Checkpoint(tmp_path / "x.pt", [trained, trained])
