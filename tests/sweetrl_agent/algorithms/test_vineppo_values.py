"""VinePPO's values: against the exact ones of a maze, privileged and marginal ones, equal states, and an optimum that they lead to."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Text

from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.lmrl.maze.layouts import MOVES, layout_of
from colbench_gym.lmrl.maze.maze import AT_GOAL, MOVED, make, read_position
from colbench_gym.tasks.embedded import embedded_tasks
from sweetrl_agent.algorithms.vineppo import VinePPO, VinePPOConfig
from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.trainers.learners import Learners
from tests.sweetrl_agent.core.test_branches import SIZE, Walk
from tests.sweetrl_agent.core.toys import TabularPolicy, dialogues, played

TURNS = 12


class Bit(gym.Env):
    """A hidden bit: the agent says a word, and then guesses the bit, for a reward of 1."""

    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bit, self.is_first = seed % 2, True
        return "which?", {}

    @property
    def hidden_information(self):
        return str(self.bit)

    def step(self, action):
        is_over, self.is_first = not self.is_first, False
        return "well?", float(is_over and action == str(self.bit)), is_over, False, {}

    def get_state(self):
        return self.bit, self.is_first

    def set_state(self, state, reseed=None):
        self.bit, self.is_first = state

    def redraw_hidden(self, seed):
        self.bit = int(np.random.default_rng(seed).integers(2))


def _begun(config, policy, make_env, num_tasks, stage="vineppo", group=1):
    """The algorithm as its loop sets it up, and a batch of episodes."""
    algorithm, envs, keys = VinePPO(config), dialogues(make_env, num_tasks, num_envs=16), [
        EpisodeKey(str(i), j) for i in range(num_tasks) for j in range(group)
    ]  # fmt: skip
    algorithm.run, algorithm._costs, algorithm.learners, algorithm.replay = (
        SimpleNamespace(tasks=(), seed=0),
        Counter(),
        Learners({}, {}, False),
        [],
    )
    algorithm.sampler = SimpleNamespace(play=lambda tasks, keys, stage: played(policy, envs, keys, stage))
    keeps = {"keeps_states": True, "keeps_keys": "anchor" in algorithm.requires}
    return algorithm, algorithm.batch(played(policy, envs, keys, stage, **keeps), 0)


@pytest.fixture
def make_embedded():
    """Function: settings -> the algorithm with an episode of an embedded task, by a policy that asks about its wishes and then hands in its program."""
    made = []

    def make_it(**settings):
        task, algorithm = embedded_tasks("train")[0], VinePPO(VinePPOConfig(**settings))
        questions = [fact.phrases[0] for fact in task.hidden.facts if fact.is_special]
        texts = [*questions, f"I WANT TO ANSWER:\n```python\n{task.hidden.reference}\n```"]
        envs = ColBenchVectorEnv(4, tasks=[task], autoreset_mode="disabled", sandbox="embedded")
        policy = SimpleNamespace(
            generate=lambda rows, seeds: [Utterance(texts[len(row) // 2], [0], [0.0], (0, 0)) for row in rows]
        )
        made.append(envs)
        algorithm.run, algorithm._costs, algorithm.learners, algorithm.replay = (
            SimpleNamespace(tasks=(), seed=0),
            Counter(),
            Learners({}, {}, False),
            [],
        )
        algorithm.sampler = SimpleNamespace(play=lambda tasks, keys, stage: played(policy, envs, keys, stage))
        return algorithm, algorithm.batch(played(policy, envs, [EpisodeKey(task.id)], "vineppo", keeps_states=True), 0)

    yield make_it
    for envs in made:
        envs.close()


@pytest.fixture(scope="module")
def walker():
    """A policy in the maze that knows the way with probability 0.7, with the exact mean and variance of its return, by cell and turns left."""
    layout, env = layout_of("double_t"), make(max_turns=TURNS)
    env.reset(seed=0)
    texts = {}
    for cell in layout.cells:
        env.position = cell
        texts[cell] = env._describe()
    policy = TabularPolicy(MOVES, texts.values())
    share = {cell: {move: 0.1 + 0.6 * (move == layout.best_command(cell)) for move in MOVES} for cell in layout.starts}
    with torch.no_grad():
        for cell, chances in share.items():
            policy.logits[policy.heard.index(texts[cell])] = torch.log(torch.tensor([*chances.values()]))
    mean, square = {(cell, 0): 0.0 for cell in layout.cells}, {(cell, 0): 0.0 for cell in layout.cells}
    for left in range(1, TURNS + 1):
        mean[layout.goal, left] = square[layout.goal, left] = 0.0
        for cell, chances in share.items():
            outcomes = [(chance, layout.after(cell, move)) for move, chance in chances.items()]
            rewards = [AT_GOAL if after == layout.goal else MOVED for _, after in outcomes]
            rows = [
                (p, r, mean[after, left - 1], square[after, left - 1]) for (p, after), r in zip(outcomes, rewards, strict=True)
            ]
            mean[cell, left] = sum(p * (r + m) for p, r, m, _ in rows)
            square[cell, left] = sum(p * (r * r + 2 * r * m + s) for p, r, m, s in rows)
    return policy, mean, {key: square[key] - mean[key] ** 2 for key in mean}


def test_values_are_the_exact_ones_of_the_maze_within_four_standard_errors(walker):
    policy, mean, variance = walker
    k = 25
    algorithm, batch = _begun(VinePPOConfig(k=k), policy, lambda: make(max_turns=TURNS), 5)
    values, costs = algorithm.values(batch)
    errors = []
    for episode, of_episode in zip(batch.episodes, values, strict=True):
        for turn, value in enumerate(of_episode):
            state = read_position(episode.messages[2 * turn]["content"]), TURNS - turn
            errors.append(
                (value - mean[state]) / math.sqrt(variance[state] / k) if variance[state] > 1e-9 else value - mean[state]
            )
    assert len(errors) > 30 and np.abs(errors).max() < 4 and 0.7 < np.std(errors) < 1.3
    assert costs["states"] == len(errors) >= costs["states_continued"]
    assert costs["continuation_turns"] == algorithm._costs["environment_turns"] == costs["continuation_tokens"]


def test_equal_states_are_continued_once(walker):
    policy, *_ = walker
    counts = {}
    for merge in ("dialogue", "state"):
        algorithm, batch = _begun(VinePPOConfig(k=1, merge=merge), policy, lambda: make(max_turns=TURNS), 4, group=3)
        (values, costs), states = algorithm.values(batch), [len(episode.turns) for episode in batch.episodes]
        counts[merge] = costs["states_continued"], costs["states"]
        assert costs["states"] == sum(states) and algorithm._costs["episodes"] == costs["states_continued"]
        for same in range(0, 12, 3):  # the first state of a task
            assert len({row[0] for row in values[same : same + 3]}) == 1
    assert counts["state"][0] <= len(layout_of("double_t").cells) < counts["dialogue"][0] < counts["dialogue"][1]


@pytest.mark.parametrize(
    ("settings", "valued"), [({"every": 3}, {0, 3, 6}), ({"most_states": 2}, {0, 1}), ({"every": 2, "most_states": 4}, {0, 2})]
)
def test_only_some_states_get_a_value(walker, settings, valued):
    policy, *_ = walker
    algorithm, batch = _begun(VinePPOConfig(k=1, **settings), policy, lambda: make(max_turns=8), 4)
    for episode, of_episode in zip(batch.episodes, algorithm.values(batch)[0], strict=True):
        assert [i for i, value in enumerate(of_episode) if value is not None] == sorted(
            i for i in valued if i < len(episode.turns)
        )
    credit = algorithm.credit(batch)
    assert [len(row) for row in credit.advantages] == [len(episode.turns) for episode in batch.episodes]


def test_a_value_is_privileged_unless_what_is_hidden_is_drawn_anew():
    policy = TabularPolicy(("1", "2"), ("which?", "well?"))
    with torch.no_grad():
        policy.logits[:, 0] = 50.0
    algorithm, batch = _begun(VinePPOConfig(k=100), policy, Bit, 4)
    assert algorithm.values(batch)[0] == [[float(i % 2)] * 2 for i in range(4)]  # V(h, c) of a policy that guesses 1
    assert algorithm.values(batch)[1]["states_continued"] == 8
    algorithm, batch = _begun(VinePPOConfig(k=100, redraws=True), policy, Bit, 4)
    values, costs = algorithm.values(batch)
    assert len({tuple(row) for row in values}) == 1 and costs["states_continued"] == 2  # the dialogues are the same
    assert values[0] == pytest.approx([0.5, 0.5], abs=4 * 0.5 / math.sqrt(100)) and values[0][0] != values[0][1]


def test_on_embedded_tasks_continuations_have_other_wishes_that_agree_with_the_dialogue(make_embedded):
    algorithm, batch = make_embedded(k=2, redraws=True)
    (episode,) = batch.episodes
    (first,) = algorithm.branch([(episode, 1)], 16, 0, redraws=True)
    assert len({branch.hidden_at(1) for branch in first}) > 4
    (last,) = algorithm.branch([(episode, 3)], 4, 0, redraws=True)  # the wishes are known
    assert {branch.hidden for branch in last} == {episode.hidden} and all(b.messages[:5] == episode.messages[:5] for b in last)
    assert {branch.hidden for branch in algorithm.branch([(episode, 1)], 4, 0)[0]} == {episode.hidden}
    values, costs = algorithm.values(batch)
    assert len(values[0]) == len(episode.turns) == costs["states_continued"] and values[0][-1] == 1.0


def test_void_continuations_do_not_count():
    turns = [Turn("a", [0], [0.0], 1.0), Turn("b", [0], [0.0], 2.0)]
    messages = [{"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant")]
    episode = Episode("0", 0, messages, turns, {"outcome": "ended"}, 3.0)
    void = replace(episode, metrics={"outcome": "void"}, turns=turns[:1])
    algorithm = VinePPO(VinePPOConfig(k=2, whiten=False))

    def credit(*branches):
        return algorithm.credit(Batch([episode], branch=lambda states, count, redraws: list(branches))).advantages

    assert credit([episode, void], [void, void]) == [[0.0, 0.0]]  # V = 3; no value before the last turn: what follows, 2
    assert algorithm.values(Batch([episode], branch=lambda *_: [[episode, void], [void, void]]))[0] == [[3.0, None]]


def _value_of_walk(chances):
    """V(1) of a walker that goes up with these probabilities at 1, 2, ..., and then astray with probability 0.2."""
    rises = [0.8 * chance + 0.2 * (1 - chance) for chance in chances]
    moves = np.array(
        [[rise * (after == i + 1) + (1 - rise) * (after == i - 1) for after in range(3)] for i, rise in enumerate(rises)]
    )
    return np.linalg.solve(np.eye(3) - moves, [0.0, 0.0, rises[-1]])[0]


def test_it_finds_the_optimum_of_a_walk():
    policy, best = TabularPolicy(("up", "down"), map(str, range(SIZE + 1)), rate=4.0), _value_of_walk([1.0] * 3)
    assert best == pytest.approx(0.753, abs=1e-3) and _value_of_walk([0.5] * 3) == pytest.approx(0.25)
    for iteration in range(10):
        algorithm, batch = _begun(VinePPOConfig(k=2), policy, Walk, 16, stage=f"vineppo {iteration}")
        policy.reinforce(batch.episodes, algorithm.credit(batch).advantages)
    assert _value_of_walk(torch.softmax(policy.logits.detach(), dim=1)[1:SIZE, 0].tolist()) > 0.95 * best
