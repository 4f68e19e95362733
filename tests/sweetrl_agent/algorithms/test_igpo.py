"""IGPO: its likelihoods against plain passes, its rewards and their normalisation by hand, the limit of GRPO, and that it learns and resumes."""

from __future__ import annotations

import ast
import itertools
import math
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Text

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig, standardized
from sweetrl_agent.algorithms.igpo import (
    IGPO,
    IGPOConfig,
    discounted,
    reference_log_probs,
    standardized_rewards,
    turn_rewards,
)
from sweetrl_agent.algorithms.registry import refuse_missing
from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.critics.gain import Target
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.trainers import sampler
from sweetrl_agent.trainers.token_passes import action_log_probs
from tests.sweetrl_agent.core.toys import TabularPolicy, dialogues, played

GAME = {"igpo.tasks": 4, "igpo.group": 6, "igpo.learning_rate": 1e-2}
HIDDEN = "Round the total to two decimals."
#: Folder of the original, GuoqingWang1/IGPO.
ORIGINAL = "IGPO_ORIGINAL"


@pytest.fixture
def hides(monkeypatch):
    """Function: lets the game of `make_game` hide a reference."""

    def hide():
        play = sampler.play

        def hiding(*given, **named):
            for episodes in play(*given, **named):
                yield [replace(episode, hidden=HIDDEN) for episode in episodes]

        monkeypatch.setattr(sampler, "play", hiding)

    return hide


@pytest.mark.parametrize("history", [-1, 0])
def test_the_reference_is_scored_as_in_a_plain_pass_and_gains_telescope(begin, make_game, hides, history):
    run = make_game(3, history=history)
    hides()
    learner = begin(run, IGPO(IGPOConfig(learning_rate=0.0, micro_batch=5)))
    algorithm = learner.algorithm
    tasks = [task.id for task in run.tasks[:2]]
    episodes = [episode for (episode,) in sampler.play(learner.policy, None, episodes_of(tasks, 2), 0, "x")]
    log_probs = reference_log_probs(algorithm.batch(episodes, 0), algorithm.targets)
    target = algorithm.targets(HIDDEN)
    assert learner.tokenizer.decode([target.token_ids[i] for i in target.counted]) == HIDDEN
    assert (
        target.text == run.record.answer_prefix + HIDDEN
        and 0 < target.counted[0] < target.counted[-1] < len(target.token_ids) - 1
    )
    for episode, of_episode in zip(episodes, log_probs, strict=True):
        befores = [before for before, _ in of_episode]
        assert [after for _, after in of_episode] == [*befores[1:], 0.0], "the reference is the same in all turns"
        for turn, value in enumerate(befores, 1):
            (*_, encoded) = learner._encoded(episode.until(turn, Turn(target.text, target.token_ids)))
            plain = action_log_probs(learner.model, [encoded], learner.temperature)[-len(target.token_ids) :]
            assert value == pytest.approx(float(plain.detach()[target.counted].mean()), abs=1e-4)
        for gain, total in (
            ("prob", math.exp(befores[2]) - math.exp(befores[0])),
            ("log_prob", befores[2] - befores[0]),
        ):
            rewards = turn_rewards(of_episode, 0.25, gain)
            assert sum(rewards[:-1]) == pytest.approx(total) and rewards[-1] == 0.25 and len(rewards) == 3
    assert algorithm.spent["scored_tokens"] > 0


def test_gains_and_returns_are_standardized_on_their_own_or_together():
    rewards = [[1.0, 3.0, 1.0], [5.0, 0.0], [1.0]]
    gains, outcomes = np.array([1.0, 3.0, 5.0]), np.array([1.0, 0.0, 1.0])
    of_gains, of_outcomes = (gains - 3) / gains.std(), (outcomes - outcomes.mean()) / outcomes.std()
    separate = standardized_rewards(rewards, "separate", 0.5)
    assert [*separate[0][:2], separate[1][0]] == pytest.approx((0.5 * of_gains).tolist())
    assert [row[-1] for row in separate] == pytest.approx(of_outcomes.tolist())
    every = np.array([*gains, *outcomes])
    joint = standardized_rewards(rewards, "joint")
    assert [*joint[0][:2], joint[1][0], *(row[-1] for row in joint)] == pytest.approx(
        ((every - every.mean()) / every.std()).tolist()
    )
    weightless = [row[-1] for row in standardized_rewards([[0.3, 0.0], [0.1, 0.2, 1.0], [0.0]], "joint", 0.0)]
    assert weightless == standardized([0.0, 1.0, 0.0])  # gains that do not count leave the outcomes as in GRPO
    assert [len(row) for row in joint] == [3, 2, 1] and standardized_rewards([[0.0], [1.0]], "separate") == [[-1.0], [1.0]]


def test_an_advantage_is_the_discounted_sum_of_what_follows():
    assert discounted([1.0, 2.0, 4.0], 0.5) == [1.0 + 0.5 * (2.0 + 0.5 * 4.0), 4.0, 4.0]
    assert discounted([1.0, 2.0, 4.0], 0.0) == [1.0, 2.0, 4.0] and discounted([3.0], 1.0) == [3.0]


def test_without_weight_it_is_grpo_bit_for_bit(make_game, hides):
    class Renamed(IGPO):
        name = "grpo"

    given, files = {"iterations": 2, "tasks": 2, "group": 3, "learning_rate": 1e-2}, []
    for folder, algorithm in (
        ("grpo", GRPO(GRPOConfig(**given))),
        ("igpo", Renamed(IGPOConfig(**given, gain_weight=0.0))),
        ("weighted", Renamed(IGPOConfig(**given))),
    ):
        run = make_game(2, folder)
        hides()
        algorithm.train(run)
        (weights,) = run.path("grpo").rglob("*.safetensors")
        files.append(weights.read_bytes())
    assert files[0] == files[1] != files[2]


class Secret(gym.Env):
    """Asked well, it says its secret digit; asked badly, another one. Nothing is rewarded."""

    observation_space = action_space = Text(100)
    drawn = itertools.count()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hidden_information, self.is_over = str(next(self.drawn) * 5 % 8), False
        return "?", {}

    def step(self, action):
        is_over, self.is_over = self.is_over, True
        return (
            (self.hidden_information if action == "well" else str((int(self.hidden_information) + 3) % 8)),
            0.0,
            is_over,
            False,
            {},
        )


@pytest.mark.parametrize("gain", ["prob", "log_prob"])
def test_the_question_that_tells_the_secret_is_learnt(gain):
    digits = tuple(map(str, range(8)))
    policy = TabularPolicy(("well", "badly", *digits), ("?", *digits), rate=2.0)
    policy.logits.data[1:, :2] = -20.0
    policy.logits.data[0, 1], policy.logits.data[0, 2:] = 1.0, -20.0
    policy.logits.data[1:, 2:] += 5 * torch.eye(8)
    algorithm, shares = IGPO(IGPOConfig(gain=gain)), []
    algorithm.targets = lambda reference: Target(reference, [2 + int(reference)], [0])

    @torch.no_grad()
    def score(episodes, last_only):
        return [[[], [float(policy.log_probs(e.prefix(len(e.turns)))[e.turns[-1].token_ids[0]])]] for e in episodes]

    envs, keys = dialogues(Secret, 6, num_envs=48), [EpisodeKey(str(i % 6), i // 6) for i in range(48)]
    for iteration in range(10):
        episodes = played(policy, envs, keys, f"igpo {iteration}")
        shares.append(np.mean([episode.turns[0].text == "well" for episode in episodes]))
        policy.reinforce(episodes, algorithm.credit(Batch(episodes, score=score)).advantages)
    assert shares[0] < 0.5 and np.mean(shares[-3:]) > 0.9


def test_a_reply_that_says_what_is_known_has_no_gain():
    policy = TabularPolicy(("x", "y"), ("?",))
    policy.logits.data[0, 1] = 1.0
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(("?", "ask", "?", "answer"))]
    episodes = [
        Episode("a", i, messages, [Turn("ask", [0]), Turn("answer", [1])], {"outcome": "ended"}, 1.0, "y") for i in range(2)
    ]

    def score(edited, last_only):
        return [[[], [float(policy.log_probs(e.prefix(len(e.turns))).detach()[1])]] for e in edited]

    (((before, after), (again, _)), _) = reference_log_probs(
        Batch(episodes, score=score), lambda reference: Target(reference, [1], [0])
    )
    assert after == before == again and before == pytest.approx(math.log(1 / (1 + math.exp(-1))), abs=1e-6)


def test_a_change_of_what_is_hidden_is_no_gain():
    """The likelihood of a reference depends on it alone: no reply tells anything."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": str(i)} for i in range(6)]
    turns = [Turn(str(i), [i]) for i in (1, 3, 5)]
    episode = Episode("a", 0, messages, turns, {"outcome": "ended"}, 1.0, ["x", "yy", "yy"])
    asked = []

    def score(edited, last_only):
        asked.extend((len(e.turns), e.turns[-1].text) for e in edited)
        return [[[], [-float(len(e.turns[-1].text))]] for e in edited]

    (row,) = reference_log_probs(Batch([episode], score=score), lambda reference: Target(reference, [1], [0]))
    assert row == [(-1.0, -1.0), (-2.0, -2.0), (-2.0, 0.0)] and turn_rewards(row, 0.5, "log_prob") == [0.0, 0.0, 0.5]
    assert asked == [(1, "x"), (2, "x"), (2, "yy"), (3, "yy")], "each state and reference is scored once"


def test_a_run_that_was_killed_ends_with_the_same_files(make_game, hides, train_with_a_kill):
    game = {**GAME, "igpo.iterations": 3}
    whole, cut = (make_game(2, name, **game) for name in ("whole", "cut"))
    hides()
    whole.config.algorithms["igpo"].train(whole)
    train_with_a_kill(cut.config.algorithms["igpo"], cut)
    files = [{path.name: path.read_bytes() for path in run.path("igpo").rglob("*.safetensors")} for run in (whole, cut)]
    assert files[0] == files[1] and len(files[0]) == 1
    rows = read_rows(whole.path("metrics.jsonl"))
    assert rows == read_rows(cut.path("metrics.jsonl")) and rows[-1]["scored_tokens"] > rows[0]["scored_tokens"] > 0


def test_on_embedded_tasks_the_tokens_can_be_those_in_which_programs_differ(make_run, begin):
    run = make_run(sft_dialogues=0, model="sweetrl_agent/models/initial")
    reference = run.train[0].hidden.reference
    every, differing = (
        begin(run, IGPO(IGPOConfig(tokens=tokens))).algorithm.targets(reference).counted for tokens in ("all", "differing")
    )
    assert {*differing} < {*every} and len(differing) > 1


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("gamma", "1.5", "`igpo.gamma` must be at most 1, got 1.5."), ("gain", "x", "`igpo.gain` must be one of"),
     ("normalisation", "x", "`igpo.normalisation` must be one of"), ("tokens", "x", "`igpo.tokens` must be one of"),
     ("gain_weight", "-1.0", "`igpo.gain_weight` must be at least 0, got -1.0.")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=error):
        comparison_job.parse([f"--igpo.{setting}", value])


def test_it_requires_hidden_information():
    assert IGPO().requires == {"hidden"} and not GRPO().requires
    differing = IGPO(IGPOConfig(tokens="differing"))
    assert differing.requires == {"hidden", "alternatives"}
    with pytest.raises(
        ValueError, match=r"^`igpo.tokens` of 'igpo' requires an environment with alternatives to what is hidden"
    ):
        refuse_missing([differing], {"hidden"}, "Mine-v0")


@pytest.fixture(scope="module")
def original_returns():
    """Function of the original's earlier advantage: rewards and mask, both [episode][token], -> returns of the tokens of one group."""
    folder = os.environ.get(ORIGINAL)
    if not folder:
        pytest.skip(f"{ORIGINAL} does not name a folder with verl/trainer/ppo/core_algos.py of GuoqingWang1/IGPO")
    tree = ast.parse(Path(folder, "verl", "trainer", "ppo", "core_algos.py").read_text())
    name = "compute_grpo_outcome_advantage"
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    space = {"torch": torch, "np": np, "defaultdict": defaultdict}
    exec(compile(tree, "core_algos", "exec"), space)
    return lambda rewards, mask: space[name](torch.tensor(rewards), torch.tensor(mask), ["a"] * len(rewards))[1]


def test_returns_are_those_of_the_original_where_turns_follow_each_other(original_returns, capsys):
    rewards = np.random.default_rng(0).normal(size=(4, 5))
    tokens = np.zeros((4, 15))
    tokens[:, 2::3] = rewards  # five turns of three tokens, rewarded at the last
    returns = original_returns(tokens, np.ones((4, 15)))
    for of_tokens, of_turns in zip(returns, rewards, strict=True):
        assert of_tokens[::3].tolist() == pytest.approx(discounted(of_turns.tolist(), 1.0))
    mask = np.ones((4, 15))
    mask[:, 6:9] = 0.0  # a reply of the user in the place of the third turn
    cut = original_returns(tokens, mask)
    assert cut[:, 3].tolist() == pytest.approx(rewards[:, 1].tolist()), "no return passes a masked token there"
    capsys.readouterr()
