"""Episodes of several agents: views, rows, hidden information, and what is refused."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from colbench_gym.errors import ColBenchError, TaskError
from colbench_gym.files import write_rows
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.rollouts.collection import pair_outcomes
from sweetrl_agent.trainers.views import merge, select, views_of

from .test_two_agents import Halves, two_policies
from .toys import dialogues, played


def test_an_agent_sees_its_own_half_alone():
    (episode,) = played(two_policies(), dialogues(Halves, 1), [EpisodeKey("0")], "x")
    scout, guesser = (episode.view(agent) for agent in episode.agents)
    assert [message["content"] for message in scout.messages][0].startswith("your bit is") and len(scout.messages) == 2
    assert guesser.prefix(1) == episode.prefix(2) == [{"role": "user", "content": guesser.messages[0]["content"]}]
    assert "your bit" not in json.dumps(guesser.messages) and len(episode.messages) == 4
    assert [episode.hidden_at(1), episode.hidden_at(2)] == [scout.hidden_at(1), guesser.hidden_at(1)] == episode.hidden
    assert Counter(turn.agent for turn in episode.turns) == {"scout": 1, "guesser": 1}
    assert Episode.from_row(json.loads(json.dumps(episode.to_row()))).messages == episode.messages
    assert [turn["agent"] for turn in episode.to_row()["turns"]] == ["scout", "guesser"]
    views = [views_of([episode], [agent]) for agent in ("guesser", "scout")]
    column = [[1.0, 2.0]]
    assert merge([(own, select(column, [episode], own, False)) for own in views], [episode], False) == column
    assert merge([(own, []) for own in views], [episode], False) == []
    guesser_alone = views[0], select(column, [episode], views[0], False)
    assert merge([guesser_alone], [episode], False) == [[0.0, 2.0]], "who has no numbers has 0"


def test_an_agent_without_a_policy_and_a_step_without_a_name_are_refused():
    policies = two_policies()
    with pytest.raises(
        ColBenchError, match="^The environment names the agent 'scout', and the policies are those of guesser, other.$"
    ):
        played({"guesser": policies["guesser"], "other": policies["scout"]}, dialogues(Halves, 1), [EpisodeKey("0")], "x")

    class Forgets(Halves):
        def step(self, action):
            return (*super().step(action)[:4], {})

    with pytest.raises(TypeError, match="must name who speaks next, after `reset` and after every step, got None"):
        played(policies, dialogues(Forgets, 1), [EpisodeKey("0")], "x")


def test_an_agent_that_the_environment_does_not_name_is_refused():
    class Misspelt(Halves):
        agents = ("scot", "guesser")

    with pytest.raises(TypeError, match="must be one of the environment's `agents`, 'scot', 'guesser'; got 'scout'"):
        played(two_policies(), dialogues(Misspelt, 1), [EpisodeKey("0")], "x")


def test_pairs_of_episodes_of_several_agents_are_refused(make_run):
    run = make_run()
    episodes = played(two_policies(), dialogues(Halves, 1), [EpisodeKey("0")], "x")
    write_rows(run.path("trajectories.jsonl"), [episode.to_row() for episode in episodes])
    with pytest.raises(
        TaskError, match="^Pairs and candidates are of one agent, and .* has scout, guesser: take an on-policy algorithm.$"
    ):
        pair_outcomes(run)
