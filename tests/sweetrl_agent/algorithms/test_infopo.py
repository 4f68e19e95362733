"""InfoPO: its gain against exact information, its rules against numbers by hand, the limit of GRPO, and that it learns and resumes."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Text

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig
from sweetrl_agent.algorithms.infopo import InfoPO, InfoPOConfig, information_gains, token_standardized, variance_gate
from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.critics.gain import with_reply
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.trainers import sampler
from sweetrl_agent.trainers.token_passes import action_log_probs
from tests.sweetrl_agent.core.toys import TabularPolicy, dialogues, played

PLACEHOLDER = "No information found."
REPLIES = ("a", "b", "c")
GAME = {"infopo.tasks": 4, "infopo.group": 6, "infopo.learning_rate": 1e-2, "infopo.placeholder": PLACEHOLDER}


def _scorer(policy):
    @torch.no_grad()
    def score(episodes, last_only):
        assert last_only
        return [
            [*[[]] * (len(e.turns) - 1), [float(policy.log_probs(e.prefix(len(e.turns)))[e.turns[-1].token_ids[0]])]]
            for e in episodes
        ]

    return score


def _asked(index, reply, token, task="task"):
    """An episode of a question, its reply, and a token said after it."""
    said = [("user", "?"), ("assistant", "ask"), ("user", reply), ("assistant", str(token))]
    turns = [Turn("ask", [0], [0.0]), Turn(str(token), [token], [0.0])]
    return Episode(task, index, [{"role": role, "content": text} for role, text in said], turns, {"outcome": "ended"}, 0.0)


@pytest.fixture
def policy():
    """A policy of three actions with random preferences after each reply and after the placeholder."""
    policy = TabularPolicy(("x", "y", "z"), (*REPLIES, PLACEHOLDER))
    policy.logits.data = torch.tensor(np.random.default_rng(0).normal(0, 1.5, (4, 3)), dtype=torch.float32)
    return policy


def _probabilities(policy):
    return torch.softmax(policy.logits.detach().double(), dim=1).numpy()


def test_the_placeholder_that_is_the_real_reply_has_no_gain_at_all(policy):
    policy.heard = tuple(PLACEHOLDER if heard == "a" else heard for heard in policy.heard)
    batch = Batch([_asked(i, PLACEHOLDER, i % 3) for i in range(6)], score=_scorer(policy))
    assert information_gains(batch, PLACEHOLDER) == {(i, 0): 0.0 for i in range(6)}


def test_a_human_who_says_the_same_to_all_is_paid_for_by_the_placeholder_alone(policy):
    rng = np.random.default_rng(1)
    tokens = rng.choice(3, 400, p=_probabilities(policy)[0])
    batch = Batch([_asked(i, "a", int(token)) for i, token in enumerate(tokens)], score=_scorer(policy))
    assert set(information_gains(batch).values()) == {0.0}
    assert np.mean(list(information_gains(batch, PLACEHOLDER).values())) > 0.1


def test_the_mean_gain_is_mutual_information_and_a_divergence_from_the_placeholder(policy):
    """E[I] = MI(a; o) + KL(E_o pi(.|o) || pi(.|placeholder)), over all replies and next actions with their probabilities."""
    shares, after = np.array([0.5, 0.3, 0.2]), _probabilities(policy)
    marginal = shares @ after[:3]
    information = sum(shares[o] * after[o] @ np.log(after[o] / marginal) for o in range(3))
    divergence = marginal @ np.log(marginal / after[3])
    assert information > 0.1 and divergence > 0.1
    pairs = list(itertools.product(range(3), range(3)))
    batch = Batch([_asked(i, REPLIES[o], a) for i, (o, a) in enumerate(pairs)], score=_scorer(policy))
    gains = information_gains(batch, PLACEHOLDER)
    mean = sum(shares[o] * after[o, a] * gains[i, 0] for i, (o, a) in enumerate(pairs))
    assert mean == pytest.approx(information + divergence, abs=1e-6)


def test_in_a_large_group_the_mean_gain_is_the_mutual_information(policy):
    shares, after, rng = np.array([0.5, 0.3, 0.2]), _probabilities(policy), np.random.default_rng(2)
    marginal = shares @ after[:3]
    information = sum(shares[o] * after[o] @ np.log(after[o] / marginal) for o in range(3))
    heard = rng.choice(3, 1000, p=shares)
    episodes = [_asked(i, REPLIES[o], int(rng.choice(3, p=after[o]))) for i, o in enumerate(heard)]
    gains = list(information_gains(Batch(episodes, score=_scorer(policy))).values())
    assert np.mean(gains) == pytest.approx(information, abs=4 * np.std(gains) / math.sqrt(len(gains)))


def test_a_turn_without_a_counterfactual_has_no_gain_and_the_last_turn_never(policy):
    alone = [_asked(0, "a", 1, "one"), _asked(0, "b", 1, "two"), _asked(1, "", 1, "two")]
    assert information_gains(Batch(alone, score=_scorer(policy))) == {}
    assert information_gains(Batch(alone, score=_scorer(policy)), PLACEHOLDER).keys() == {(0, 0), (1, 0)}


def test_the_rule_of_the_code_prefers_the_shorter_of_two_questions_with_the_same_gain():
    assert token_standardized([1.0, 1.0], [10, 100]) == pytest.approx([3.15, -0.315], abs=0.01)
    assert token_standardized([1.0, 0.0, 1.0], [10, 5, 100])[1] == 0.0 and token_standardized([0.0], [3]) == [0.0]
    gains = {(0, 0): 1.0, (1, 0): 1.0}
    episodes = [
        replace(_asked(i, "a", 0), turns=[Turn("ask", [0] * length), Turn("x", [0])]) for i, length in enumerate((10, 100))
    ]
    assert set(InfoPO()._bonuses(episodes, gains).values()) == {0.0}
    by_token = InfoPO(InfoPOConfig(per_token=True))._bonuses(episodes, gains)
    assert list(by_token.values()) == pytest.approx([0.15 * 3.15, -0.15 * 0.315], abs=2e-3)


@pytest.mark.parametrize(("solved", "of", "weight"), [(0, 5, 0.150), (1, 5, 0.087), (2, 5, 0.075), (4, 8, 0.077)])
def test_the_gate_is_open_where_outcomes_say_nothing(solved, of, weight):
    returns = [1.0] * solved + [0.0] * (of - solved)
    assert 0.3 * variance_gate(returns, 0.5) == pytest.approx(weight, abs=6e-4)
    assert variance_gate(returns, 1e-9) < 1e-100 or solved == 0


def test_fusion_adds_the_gated_gains_to_the_advantages_of_grpo(policy):
    episodes = [replace(_asked(i, REPLIES[i], i), reward=float(i == 0)) for i in range(3)]
    batch = Batch(episodes, score=_scorer(policy))
    gains = np.array([information_gains(batch)[i, 0] for i in range(3)])
    bonus = 0.3 * variance_gate([1.0, 0.0, 0.0], 0.5) * (gains - gains.mean()) / gains.std()
    (first,), (last,) = np.split(np.array(InfoPO().credit(batch).advantages).T, 2)
    outcome = np.array(GRPO().credit(batch).advantages)[:, 0]
    assert last.tolist() == outcome.tolist() and first == pytest.approx(outcome + bonus)


def _trained(run, algorithm):
    algorithm.train(run)
    (weights,) = run.path(algorithm.name).rglob("*.safetensors")
    return weights.read_bytes()


def test_without_weight_it_is_grpo_bit_for_bit(make_game):
    class Renamed(InfoPO):
        name = "grpo"

    given = {"iterations": 2, "tasks": 2, "group": 3, "learning_rate": 1e-2}
    files = [
        _trained(make_game(2, folder), algorithm)
        for folder, algorithm in (
            ("grpo", GRPO(GRPOConfig(**given))),
            ("infopo", Renamed(InfoPOConfig(**given, gain_weight=0.0, placeholder=PLACEHOLDER))),
            ("weighted", Renamed(InfoPOConfig(**given, placeholder=PLACEHOLDER))),
        )
    ]
    assert files[0] == files[1] != files[2]


@pytest.mark.parametrize("history", [-1, 1])
def test_edited_dialogues_are_scored_as_in_a_plain_pass(begin, make_game, history):
    run = make_game(3, history=history)
    learner = begin(run, InfoPO(InfoPOConfig(learning_rate=0.0, micro_batch=7)))
    tasks = [task.id for task in run.tasks[:2]]
    episodes = [episode for (episode,) in sampler.play(learner.policy, None, episodes_of(tasks, 2), 0, "x")]
    algorithm = learner.algorithm
    gains = information_gains(algorithm.batch(episodes, 0), PLACEHOLDER)
    assert gains.keys() == {(i, t) for i in range(4) for t in range(2)}
    naive = 0
    for (i, t), gain in gains.items():
        sums = []
        for reply in ("And then?", PLACEHOLDER):
            edited = with_reply(episodes[i], t + 1, reply)
            encoded = learner._encoded(edited)
            count = len(episodes[i].turns[t + 1].token_ids)
            sums.append(float(action_log_probs(learner.model, encoded[-1:], learner.temperature)[-count:].detach().sum()))
            naive += len(encoded[-1].token_ids)
        assert gain == pytest.approx((sums[0] - sums[1]) / count, abs=1e-4) and abs(gain) > 1e-6
    assert 0 < algorithm.spent["scored_tokens"] < naive


class Echo(gym.Env):
    """Asked well, it says one of eight digits; asked badly, "hm". Nothing is rewarded."""

    observation_space = action_space = Text(100)
    drawn = itertools.count()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.is_over = False
        return "?", {}

    def step(self, action):
        is_over, self.is_over = self.is_over, True
        return str(next(self.drawn) * 5 % 8) if action == "well" else "hm", 0.0, is_over, False, {}


def test_the_question_whose_reply_is_used_is_learnt():
    digits = tuple(map(str, range(8)))
    policy = TabularPolicy(("well", "badly", *digits), ("?", *digits, "hm"), rate=8.0)
    policy.logits.data[0, 2:] = policy.logits.data[1:, :2] = -20.0
    policy.logits.data[1:9, 2:] += 5 * torch.eye(8)
    policy.logits.data[0, 1] = 1.0
    algorithm, shares = InfoPO(InfoPOConfig(gain_weight=2.0)), []
    envs, keys = dialogues(Echo, 6, num_envs=48), [EpisodeKey(str(i % 6), i // 6) for i in range(48)]
    for iteration in range(10):
        episodes = played(policy, envs, keys, f"infopo {iteration}")
        shares.append(np.mean([episode.turns[0].text == "well" for episode in episodes]))
        policy.reinforce(episodes, algorithm.credit(Batch(episodes, score=_scorer(policy))).advantages)
    assert shares[0] < 0.5 and np.mean(shares[-3:]) > 0.9


def test_a_run_that_was_killed_ends_with_the_same_files(make_game, train_with_a_kill):
    game = {**GAME, "infopo.iterations": 3}
    whole, cut = (make_game(2, name, **game) for name in ("whole", "cut"))
    whole.config.algorithms["infopo"].train(whole)
    train_with_a_kill(cut.config.algorithms["infopo"], cut)
    files = [{path.name: path.read_bytes() for path in run.path("infopo").rglob("*.safetensors")} for run in (whole, cut)]
    assert files[0] == files[1] and len(files[0]) == 1
    rows = read_rows(whole.path("metrics.jsonl"))
    assert rows == read_rows(cut.path("metrics.jsonl"))
    scored = [row["scored_tokens"] for row in rows]
    assert 0 < scored[0] < scored[1] < scored[2]


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("gain_weight", "-0.1", "at least 0, got -0.1"), ("tau", "0", "above 0, got 0"), ("group", "1", "at least 2, got 1")],
)
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`infopo.{setting}` must be {error}."):
        comparison_job.parse([f"--infopo.{setting}", value])
