"""AT-GRPO: its groups by brute force, its loss against a slow loop, that a team learns what one side cannot, costs and resume."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.at_grpo import ATGRPO, ATGRPOConfig
from sweetrl_agent.algorithms.grpo import standardized
from sweetrl_agent.core.batch import ActionTokens, Batch, Credit
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers.learner import Update
from sweetrl_agent.trainers.learners import Learners
from sweetrl_agent.trainers.views import views_of
from tests.sweetrl_agent.core.test_two_agents import two_policies
from tests.sweetrl_agent.core.toys import TabularPolicy, dialogues, played
from tests.sweetrl_agent.team_games import Team
from tests.sweetrl_agent.trainers.test_team_training import Scored


class Guess(Scored):
    """As `Scored`, paid for a right guess."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        right = "equal" if self.bits[0] == self.bits[1] else "unlike"
        return observation, float(rest[0] and action == right), *rest


def _in_its_loop(env, policies, num_tasks, config):
    """The algorithm with its environment and policies, as its loop sets it up; and a function that plays an iteration's episodes."""
    algorithm, envs = ATGRPO(config), dialogues(env, num_tasks, num_envs=32)
    algorithm.run, algorithm._costs, algorithm.learners = SimpleNamespace(tasks=(), seed=0), Counter(), Learners({}, {}, False)
    algorithm.replay = []
    algorithm.sampler = SimpleNamespace(play=lambda tasks, keys, stage: played(policies, envs, keys, stage, keeps_states=True))
    keys = [EpisodeKey(str(i)) for i in range(num_tasks)]
    return algorithm, lambda iteration: played(policies, envs, keys, f"at_grpo {iteration}", keeps_states=True)


# ---- groups -----------------------------------------------------------------------------------------------------------------------


class Sum(Team):
    """Three agents say a digit each; the team earns their sum, and the second a quarter at once."""

    order = ("a", "b", "c")

    def seen(self):
        return "?"

    def step(self, action):
        observation, _, is_over, *rest = super().step(action)
        return observation, 0.25 if len(self.said) == 2 else 0.0 + is_over * sum(map(int, self.said)), is_over, *rest

    def reward(self):
        return 0.0


@pytest.mark.parametrize("local", [0.0, 2.0])
def test_groups_are_the_siblings_of_one_state_along_the_best(local):
    policy, config = TabularPolicy(("0", "1", "2"), ("?",)), ATGRPOConfig(k=3, agents=["a", "b", "c"], local=local)
    algorithm, play = _in_its_loop(Sum, policy, 5, config)
    branched, branch = [], algorithm.branch

    def noted(states, count, iteration, redraws=False):
        found = branch(states, count, iteration, redraws)
        branched.append((states, found))
        return found

    algorithm.branch = noted
    algorithm.verify = lambda states: [float(episode.turns[n - 1].text) / 10 for episode, n in states]
    episodes = play(0)
    credit = algorithm.credit(algorithm.batch(episodes, 0))
    assert [len(found[0]) for _, found in branched] == [2, 3, 3] and [len(states) for states, _ in branched] == [5, 5, 5]
    rows, best = iter(zip(credit.episodes, credit.advantages, strict=True)), episodes
    for turn, (states, found) in enumerate(branched, 1):
        assert [episode for episode, _ in states] == best and {number for _, number in states} == {turn}
        groups = [[*([before] if turn == 1 else []), *siblings] for (before, _), siblings in zip(states, found, strict=True)]
        best = []
        for group in groups:
            assert len({tuple(t.text for t in episode.turns[: turn - 1]) for episode in group}) == 1, (
                "siblings share what is before"
            )
            rewards = [
                sum(t.reward for t in episode.turns[turn - 1 :]) + local * int(episode.turns[turn - 1].text) / 10
                for episode in group
            ]
            best.append(group[int(np.argmax(rewards))])
            for episode, value in zip(group, standardized(rewards), strict=True):
                candidate, advantages = next(rows)
                assert candidate.turns == episode.turns[:turn] and advantages == [*[0.0] * (turn - 1), pytest.approx(value)]
                assert candidate.messages == episode.messages[: 2 * turn]
    assert next(rows, None) is None
    assert (
        credit.metrics["best_return"] == np.mean([episode.reward for episode in best]) > np.mean([e.reward for e in episodes])
    )
    assert 0 < credit.metrics["differing_groups"] <= 1
    assert algorithm._costs["environment_turns"] == 5 * (2 * 3 + 3 * 2 + 3 * 1) and algorithm._costs["episodes"] == 5 * 8


def test_the_credit_of_a_turn_compares_the_episodes_that_differ_in_it():
    turns = [[Turn("x", reward=0.5), Turn("y", reward=r)] for r in (0.0, 1.0)]
    episodes = [Episode("a", 0, [], of_episode, {"outcome": "ended"}, 0.0) for of_episode in turns]
    assert ATGRPO().turn_credit(Batch(episodes), [2, 2]) == [-1.0, 1.0]
    verified = Batch(episodes, verify=lambda states: [2.0 * (episode is episodes[0]) for episode, turn in states])
    assert ATGRPO(ATGRPOConfig(local=1.0)).turn_credit(verified, [2, 2]) == [1.0, -1.0]


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_loss_is_grpos_on_the_tokens_of_the_last_turn_alone(beta):
    rng = np.random.default_rng(0)
    now, sampled, reference = rng.normal(-1.0, 0.3, (3, 7))
    dialogue, turn = [0, 0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 2, 2, 3]
    advantages, candidates = np.array([0.0, 2.0, 2.0, 2.0, 0.0, 0.0, -1.0]), [[1, 2, 3], [6]]
    total = 0.0
    for candidate in candidates:
        for i in candidate:
            ratio = math.exp(now[i] - sampled[i])
            gain = min(ratio * advantages[i], min(max(ratio, 0.8), 1.2) * advantages[i])
            gain -= beta * (math.exp(reference[i] - now[i]) - (reference[i] - now[i]) - 1)
            total += gain / len(candidate) / len(candidates)
    log_probs = torch.tensor(now, requires_grad=True)
    tokens = ActionTokens(log_probs, *map(torch.tensor, (sampled, reference, advantages, dialogue, turn)))
    loss = ATGRPO(ATGRPOConfig(beta=beta)).loss(tokens)
    loss.backward()
    assert loss.item() == pytest.approx(-total, rel=1e-6) and not log_probs.grad[[0, 4, 5]].any()


# ---- learning ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trained", "low", "high"), [(("scout", "guesser"), 0.95, 1.0), (("scout",), 0.2, 0.8)])
def test_two_agents_learn_what_one_of_them_cannot(trained, low, high):
    policies, returns = two_policies(), []
    algorithm, play = _in_its_loop(Guess, policies, 16, ATGRPOConfig(agents=["scout", "guesser"]))
    for iteration in range(20):
        episodes = play(iteration)
        returns.append(np.mean([episode.reward for episode in episodes]))
        credit = algorithm.credit(algorithm.batch(episodes, iteration))
        for agent in trained:
            own = [
                (view.episode, [row[place] for place in view.places])
                for episode, row in zip(credit.episodes, credit.advantages, strict=True)
                for view in views_of([episode], [agent])
            ]
            policies[agent].reinforce(*zip(*own, strict=True))
    assert low <= np.mean(returns[-5:]) <= high, returns


@pytest.fixture
def make_run(make_team_run):
    """Function: name, settings -> a run of the game of three roles on the tiny model."""

    def make_it(name, **settings):
        defaults = {"tasks": 2, "iterations": 3, "k": 3, "learning_rate": 1e-2, "agents": [*Team.order]}
        return make_team_run("at_grpo", name, "Team-v0", {**defaults, **settings})

    return make_it


@pytest.mark.parametrize("settings", [{}, {"policies": "one", "beta": 0.01}])
def test_a_run_that_was_killed_ends_with_the_same_files(make_run, train_with_a_kill_in_credit, settings):
    whole, cut = (make_run(name, **settings) for name in ("whole", "cut"))
    whole.config.algorithms["at_grpo"].train(whole)
    train_with_a_kill_in_credit(cut.config.algorithms["at_grpo"], cut)
    files = [
        {path.relative_to(run.path(".")): path.read_bytes() for path in run.path("at_grpo").rglob("*.*")}
        for run in (whole, cut)
    ]
    assert files[0] == files[1]
    assert sorted(path.name for path in whole.path("at_grpo").iterdir()) == (["team"] if settings else sorted(Team.order))
    rows = read_rows(whole.path("metrics.jsonl"))
    assert any(value > 0 for row in rows for name, value in row.items() if name.endswith("grad_norm"))
    assert rows == read_rows(cut.path("metrics.jsonl"))
    assert [row["episodes"] for row in rows] == [2 * 9 * n for n in (1, 2, 3)] and rows[-1][
        "environment_turns"
    ] == 3 * 2 * 3 * 6


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("k", "1", "must be at least 2, got 1"), ("policies", "x", "must be one of"), ("local", "-1", "must be at least 0")],
)
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`at_grpo.{setting}` {error}"):
        comparison_job.parse([f"--at_grpo.{setting}", value])


def test_local_rewards_require_a_verifier():
    assert ATGRPO().requires == {"snapshot"} and ATGRPO(ATGRPOConfig(local=0.5)).requires == {"snapshot", "verifier"}
    with pytest.raises(ValueError, match="`agents` must name at least one agent, got none"):
        ATGRPOConfig(agents=[])
    for names in (["a", "a"], ["a", "../b"], ["a", ""]):
        with pytest.raises(ValueError, match="`agents` must be different names that folders can have"):
            ATGRPOConfig(agents=names)
    with pytest.raises(ColBenchError, match="compares candidates for a turn, and a recorded dialogue has one"):
        ATGRPO().turn_credit(Batch([Episode("a", 0, [], [Turn("x")], {"outcome": "ended"}, 1.0)]), [1])
    assert ATGRPO(ATGRPOConfig(agents=["a", "b"], policies="one")).folders == ("at_grpo/team",)


class Counted:
    """A learner that notes the dialogues and advantages of its updates."""

    def values(self, episodes):
        return []

    def update(self, episodes, credit, *rest):
        self.rows = [
            (episode.turns[-1].text, list(of_turns)) for episode, of_turns in zip(episodes, credit.advantages, strict=True)
        ]
        return Update()


@pytest.mark.parametrize("shared", [False, True])
def test_a_policys_mean_is_over_the_candidates_of_its_own_agents(shared):
    agents = ("a", "a", "b", "c")
    whole = [Turn(f"{agent}{i}", [1], [-1.0], agent=agent) for i, agent in enumerate(agents)]
    candidates = [Episode("t", 0, [], whole[:length], {}, 0.0) for length in (1, 1, 2, 3, 4, 4)]
    advantages = [
        [0.0] * (len(episode.turns) - 1) + [value] for episode, value in zip(candidates, (1, -1, 0, 2, 0, 0.0), strict=True)
    ]
    policies = {agent: "x/all" if shared else f"x/{agent}" for agent in "abc"}
    learners = Learners({folder: Counted() for folder in dict.fromkeys(policies.values())}, policies, False)
    learners.update(Batch([]), Credit(advantages, episodes=candidates), ())
    rows = {folder: learner.rows for folder, learner in learners.items()}
    a = [("a0", [1]), ("a0", [-1]), ("a1", [0.0, 0])]
    b, c = [("b2", [2])], [("c3", [0.0]), ("c3", [0.0])]
    assert rows == ({"x/all": [*a, *b, *c]} if shared else {"x/a": a, "x/b": b, "x/c": c})
