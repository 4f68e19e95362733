"""VinePPO: its advantages against the original's, its loss against a slow loop, that a language model learns by it, and what it costs."""

from __future__ import annotations

import ast
import math
import os
import typing
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Text

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.registry import refuse_missing
from sweetrl_agent.algorithms.vineppo import VinePPO, VinePPOConfig, step_advantages, whitened
from sweetrl_agent.core.batch import ActionTokens, Batch
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.evaluation import comparison_job, main_job
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.run import Run

VARIABLE, ORIGINAL = "COLBENCH_VINEPPO", "src/treetune/episode_generators/math_episode_generator_with_mc_advantages.py"


class Letters(gym.Env):
    """The game of `make_game` in two turns, with snapshots: the share of the last turn's letters that are not ASCII, where the first turn has one."""

    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shares = []
        return "I need it.", {}

    def step(self, action):
        self.shares.append(float(np.mean([not letter.isascii() for letter in action or "."])))
        is_over = len(self.shares) == 2
        return "And then?", self.shares[1] if is_over and self.shares[0] else 0.0, is_over, False, {}

    def get_state(self):
        return list(self.shares)

    def set_state(self, state, reseed=None):
        self.shares = list(state)


gym.register("Letters-v0", entry_point=Letters, disable_env_checker=True)


def _original_advantages():
    """`_compute_step_advantages` of McGill-NLP/VinePPO (commit efe7228), read from its source; skips the test where that is absent."""
    path = Path(os.environ.get(VARIABLE, "")) / ORIGINAL
    if not os.environ.get(VARIABLE) or not path.is_file():
        pytest.skip(f"needs the original: set {VARIABLE} to a checkout of https://github.com/McGill-NLP/VinePPO")
    methods = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)]
    (method,) = [node for node in methods if node.name == "_compute_step_advantages"]
    names = vars(typing).copy()
    exec(compile(ast.Module([method], []), str(path), "exec"), names)
    return lambda rewards, values: names[method.name](None, {"step_rewards": rewards, "values": [*values, None]})


def _random_rows(count, seed=0):
    """Rewards, and values before some first turns."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        turns = int(rng.integers(1, 12))
        known = int(rng.integers(1, turns + 1))
        yield rng.normal(size=turns).tolist(), [*rng.normal(size=known).tolist(), *[None] * (turns - known)]


# ---- advantages -------------------------------------------------------------------------------------------------------------------


def test_advantages_are_those_of_the_original():
    original = _original_advantages()
    for rewards, values in _random_rows(2_000):
        assert step_advantages(rewards, values) == original(rewards, values)


@pytest.mark.parametrize("shares", [False, True])
def test_advantages_telescope_to_the_return_minus_the_first_value(shares):
    rng = np.random.default_rng(1)
    for rewards, values in _random_rows(300):
        some = [value if i == 0 or rng.random() < 0.5 else None for i, value in enumerate(values)]
        assert sum(step_advantages(rewards, some, shares)) == pytest.approx(sum(rewards) - values[0])


def test_a_turn_without_a_value_has_no_advantage_or_its_share_of_the_step():
    rewards, values = [0.0, 1.0, 0.0, 0.0, 2.0], [0.5, None, None, 3.0, None]
    assert step_advantages(rewards, values) == [3.5, 0.0, 0.0, -1.0, 0.0]
    assert step_advantages(rewards, values, shares=True) == pytest.approx([3.5 / 3] * 3 + [-0.5] * 2)
    full = [0.5, 1.0, 2.0, 3.0, 4.0]
    assert step_advantages(rewards, full, shares=True) == step_advantages(rewards, full) == [0.5, 2.0, 1.0, 1.0, -2.0]


def test_advantages_are_whitened_over_tokens():
    lengths, advantages = [[1, 4], [2]], [[1.0, -2.0], [3.0]]
    batch = [Episode("", 0, [], [Turn("", [0] * n, [0.0] * n) for n in of], {"outcome": "ended"}, 0.0) for of in lengths]
    (first, second), (third,) = whitened(advantages, batch)
    tokens = np.array([first, *[second] * 4, *[third] * 2])
    assert tokens.mean() == pytest.approx(0) and tokens.std() == pytest.approx(1) and second < first < third
    assert whitened([[2.0, 2.0], [2.0]], batch) == [[0.0, 0.0], [0.0]] and whitened([], []) == []


# ---- learning -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_run(tmp_path, tiny_model_folder):
    """Function: name, settings -> a run of the game of letters on the tiny model."""

    def make_it(name, **settings):
        given = {
            "algorithms": ["vineppo"], "output": tmp_path / name, "env": f"{__name__}:Letters-v0", "tasks": "seeds:0-7", "test_tasks": "seeds:10-11",
            "model": tiny_model_folder, "dtype": "float32", "sft_dialogues": 0, "system_prompt": "", "max_new_tokens": 4, "threads": 1,
            "generation_batch": 16, "vineppo.tasks": 8, "vineppo.group": 2, "vineppo.k": 1, "vineppo.learning_rate": 2e-2, **settings,
        }  # fmt: skip
        return Run(comparison_job.parse([], given)[1])

    return make_it


def test_a_language_model_finds_the_optimum_of_two_turns_and_trains_on_no_continuation(make_run, monkeypatch):
    run, trained, update = make_run("run", **{"vineppo.iterations": 14}), [], Learner.update
    monkeypatch.setattr(
        Learner, "update", lambda self, episodes, *rest: (trained.append(list(episodes)), update(self, episodes, *rest))[1]
    )
    run.config.algorithms["vineppo"].train(run)
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "vineppo"]
    returns = [row["return"] for row in rows]
    assert len(rows) == 14 and np.mean(returns[:3]) < 0.2 and np.mean(returns[-3:]) > 0.7, returns
    assert all(len(episodes) == 16 and len({(e.task_id, e.index) for e in episodes}) == 16 for episodes in trained)
    played_turns = sum(len(episode.turns) for episodes in trained for episode in episodes)
    last = rows[-1]
    assert last["environment_turns"] == played_turns + sum(row["continuation_turns"] for row in rows)
    assert last["generated_tokens"] == sum(len(t.token_ids) for part in trained for e in part for t in e.turns) + sum(
        row["continuation_tokens"] for row in rows
    )
    assert last["episodes"] == 14 * 16 + sum(row["states_continued"] for row in rows)
    assert all(
        row["states"] == 32 and 9 <= row["states_continued"] <= 24 for row in rows
    )  # the first state of each of 8 tasks is one


def test_a_run_that_was_killed_ends_with_the_same_files(make_run, train_with_a_kill):
    settings = {"vineppo.iterations": 4, "vineppo.beta": 1e-3, "vineppo.tasks": 2, "num_tasks": 5}
    whole, cut = (make_run(name, **settings) for name in ("whole", "cut"))
    whole.config.algorithms["vineppo"].train(whole)
    saved = train_with_a_kill(cut.config.algorithms["vineppo"], cut)
    assert len(saved["metrics"]) == 2
    files = [
        {path.relative_to(run.path(".")): path.read_bytes() for path in run.path("vineppo").rglob("*.*")}
        for run in (whole, cut)
    ]
    assert files[0] == files[1] and len(files[0]) > 2
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_loss_and_its_gradients_are_those_of_a_slow_loop(beta):
    rng = np.random.default_rng(2)
    now, sampled, reference = rng.normal(-1.0, 0.2, (3, 9))
    reference[0] = now[0] + 4.0  # its divergence is above the bound, so it has no gradient
    advantages, dialogue, clip = rng.normal(size=9), np.repeat(range(3), [4, 2, 3]), 0.1
    total, slopes = 0.0, np.zeros(9)
    for i in range(9):
        ratio = math.exp(now[i] - sampled[i])
        first, second = ratio * advantages[i], min(max(ratio, 1 - clip), 1 + clip) * advantages[i]
        divergence = math.exp(reference[i] - now[i]) - (reference[i] - now[i]) - 1
        total += -min(first, second) / 9 + beta * min(divergence, 10.0) / 3  # summed over a dialogue, averaged over three
        slopes[i] -= ratio * advantages[i] / 9 if first <= second else 0.0
        slopes[i] += beta * (1 - math.exp(reference[i] - now[i])) / 3 if divergence < 10.0 else 0.0
    log_probs = torch.tensor(now, requires_grad=True)
    tokens = ActionTokens(log_probs, *map(torch.tensor, (sampled, reference, advantages, dialogue)))
    loss = VinePPO(VinePPOConfig(beta=beta, clip=clip)).loss(tokens)
    loss.backward()
    assert loss.item() == pytest.approx(total) and log_probs.grad.numpy() == pytest.approx(slopes)


def test_a_pass_whose_mean_ratio_is_too_large_is_skipped():
    log_probs = torch.tensor([3.0, 3.0], requires_grad=True)
    tokens = ActionTokens(log_probs, torch.zeros(2), torch.zeros(2), -torch.ones(2), torch.tensor([0, 0]))
    loss = VinePPO(VinePPOConfig(most_ratio=20.0)).loss(tokens)
    loss.backward()
    assert loss.item() == 0.0 and log_probs.grad.tolist() == [0.0, 0.0]
    assert VinePPO(VinePPOConfig(most_ratio=21.0)).loss(tokens).item() == pytest.approx(math.exp(3))


def test_an_unknown_value_gives_a_turn_no_credit(monkeypatch):
    episode = Episode("a", 0, [], [Turn("x", reward=0.25), Turn("y", reward=1.0)], {"outcome": "ended"}, 1.25)
    for known, credit in (
        ({(0, 1): 0.5, (0, 2): 0.75}, 0.5),
        ({(0, 1): 0.5, (0, 2): None}, 0.0),
        ({(0, 1): None, (0, 2): 0.5}, 0.0),
    ):
        monkeypatch.setattr(VinePPO, "values_of", lambda self, batch, places, known=known: (known, {}))
        assert VinePPO().turn_credit(Batch([episode]), [1]) == [credit]
    monkeypatch.setattr(VinePPO, "values_of", lambda self, batch, places: ({(0, 2): 0.5}, {}))
    assert VinePPO().turn_credit(Batch([episode]), [2]) == [0.5]  # V is 0 after the last turn


# ---- settings ---------------------------------------------------------------------------------------------------------------------------


def test_what_it_requires_depends_on_its_settings():
    assert (
        VinePPO().requires == {"snapshot"} and not VinePPO().uses_reference and VinePPO(VinePPOConfig(beta=1e-4)).uses_reference
    )
    marginal = VinePPO(VinePPOConfig(merge="state", redraws=True))
    assert marginal.requires == {"snapshot", "anchor", "redraw"}
    with pytest.raises(
        ValueError,
        match=r"^`vineppo.redraws` of 'vineppo' requires an environment with new draws of what is hidden \(a method `redraw_hidden`\), which there does not have\.$",
    ):
        refuse_missing([marginal], {"snapshot", "anchor"}, "there")


@pytest.mark.parametrize(
    ("given", "has_it"),
    [
        (["--env", "LMRL-Wordle-v0"], True),
        (["--env", "LMRL-Maze-v0"], False),
        ([], True),
        (["--env", "ColBench-Frontend-v0"], False),
    ],
)
def test_what_is_hidden_can_be_drawn_anew_on_wordle_and_the_embedded_tasks(given, has_it):
    config = main_job.parse([*given, "--algorithm", "vineppo"])
    assert ("redraw" in config.record.capabilities(config)) == has_it and "snapshot" in config.record.capabilities(config)


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("k", "0", "at least 1, got 0"), ("every", "0", "at least 1, got 0"), ("most_ratio", "0", "above 0, got 0"),
     ("most_states", "-1", "at least 0, got -1"), ("merge", "none", "")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`vineppo.{setting}` must be {error}"):
        comparison_job.parse([f"--vineppo.{setting}", value])
