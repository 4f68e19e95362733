"""MAPoRL: returns and bonus against slow loops, the sign of the bonus and the original; which tokens are paid for what; co-training on a game with a known optimum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sweetrl_agent.algorithms.maporl import MAPoRL, MAPoRLConfig, influence_return, persuasion_bonus
from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers.views import select, views_of
from tests.sweetrl_agent.core.toys import TabularPolicy, dialogues, played
from tests.sweetrl_agent.team_games import WORDS, Bits

from .originals import original_functions

#: Folder of chanwoo-park-official/MAPoRL (commit c204c2c), or of its bare git repository.
ORIGINAL, FILE = "MAPORL_ORIGINAL", "trl/trl/trainer/utils_multi_unified.py"
WEIGHTS = dict(alpha_with=0.3, alpha_against=0.7, beta_with=0.11, beta_against=0.23)


def _random_scores(rng, rounds, coders, is_binary=False):
    draw = (lambda: float(rng.integers(2))) if is_binary else (lambda: round(float(rng.random()), 3))
    return [{coder: draw() for coder in range(1, coders + 1)} for _ in range(rounds)]


# ---- returns and bonus --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("coders", "rounds"), [(2, 3), (3, 4), (1, 2)])
def test_a_return_is_that_of_a_slow_loop(coders, rounds):
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores, gamma = _random_scores(rng, rounds, coders), float(rng.random())
        for turn, coder in itertools.product(range(1, rounds + 1), range(1, coders + 1)):
            above, below = scores[turn - 1][coder], 1.0
            for later in range(turn + 1, rounds + 1):
                for other in range(1, coders + 1):
                    above += gamma ** (later - turn) * scores[later - 1][other] / coders
                below += gamma ** (later - turn)
            assert influence_return(scores, turn, coder, gamma) == pytest.approx(above / below)
        of_interviewer = sum(gamma**n * np.mean([*row.values()]) for n, row in enumerate(scores))
        assert influence_return(scores, 0, 0, gamma) == pytest.approx(of_interviewer / sum(gamma**n for n in range(rounds)))
    assert influence_return([{1: 0.4, 2: 0.4}] * 3, 2, 1, 0.3) == pytest.approx(0.4), "constant scores are a fixed point"
    assert influence_return(scores, 1, 1, 0.0) == scores[0][1] and influence_return([], 0, 0, 0.3) == 0.0


@pytest.mark.parametrize(
    ("own", "other", "paper", "released"),
    [
        # coder 1 in rounds 1, 2; coder 2 in rounds 1, 2; the bonus of coder 1's response in round 2
        ((0, 1), (1, 1), 0.3, 0.3),  # persuaded into right
        ((0, 1), (0, 0), 0.7, 0.7),  # finds it against the other
        ((1, 0), (0, 0), -0.3, -0.3),  # persuaded into wrong
        ((1, 0), (1, 1), -0.7, -0.7),  # gives up what both had right
        ((1, 1), (0, 1), 0.0, 0.0),  # the other's change is before this response
    ],
)
def test_the_bonus_for_ones_own_change_has_the_same_sign_in_both_rules(own, other, paper, released):
    scores = [{1: float(a), 2: float(b)} for a, b in zip(own, other, strict=True)]
    weights = [*WEIGHTS.values()]
    assert persuasion_bonus(scores, 2, 1, weights, "paper") == paper
    assert persuasion_bonus(scores, 2, 1, weights, "released") == released


@pytest.mark.parametrize(
    ("mine", "other", "paper"),
    [
        # coder 1 in round 2; coder 2 in rounds 2, 3; the bonus of coder 1's response in round 2
        (1, (0, 1), 0.11),  # led the other into right
        (0, (0, 1), 0.23),  # was wrong, and useful
        (0, (1, 0), -0.11),  # led the other into wrong
        (1, (1, 0), -0.23),  # was right, and did not hold the other
        (1, (1, 1), 0.0),
    ],
)
def test_the_bonus_for_the_others_change_has_the_intended_sign_as_in_the_paper_and_the_opposite_one_as_released(
    mine, other, paper
):
    now, then = ({1: float(mine), 2: float(of_other)} for of_other in other)
    weights = [*WEIGHTS.values()]
    assert persuasion_bonus([now, now, then], 2, 1, weights, "paper") == paper
    assert persuasion_bonus([now, now, then], 2, 1, weights, "released") == -paper
    assert persuasion_bonus([now, then], 1, 1, weights, "paper") == paper, "a response of round 1 persuades too"
    assert persuasion_bonus([now, then], 1, 1, weights, "released") == 0.0, "the released rule gives round 1 nothing"


def test_a_score_at_the_threshold_is_on_no_side():
    weights = [*WEIGHTS.values()]
    assert persuasion_bonus([{1: 0.5, 2: 1.0}, {1: 1.0, 2: 1.0}], 2, 1, weights) == 0.0
    split = [{1: 0.0, 2: 0.0, 3: 1.0}, {1: 1.0, 2: 0.0, 3: 1.0}]
    assert persuasion_bonus(split, 2, 1, weights) == 0.0, "the others' mean is at the threshold"
    assert persuasion_bonus([{1: 0.0, 2: 1.0}, {1: 0.9, 2: 1.0}], 2, 1, weights, threshold=0.95) == 0.0, (
        "0.9 is not right there"
    )


def _in_the_original(function, scores, alpha, **more):
    """What a rule of the original gives to every response of one debate, by (round, coder) counted from 1."""
    rounds, coders = len(scores), len(scores[0])
    table = {(t, a): torch.tensor([scores[t][a + 1]], dtype=torch.float64) for t in range(rounds) for a in range(coders)}
    return {
        (t + 1, a + 1): float(
            function(*more.values(), table, rounds, coders, [-1], t, a, incentive=True, device="cpu", alpha=alpha)[0]
        )
        for t in range(rounds)
        for a in range(coders)
    }


@pytest.mark.parametrize(("coders", "rounds"), [(2, 3), (3, 3), (1, 3), (2, 2)])
def test_returns_and_bonus_are_those_of_the_original(coders, rounds):
    score_rule, bonus_rule = original_functions(ORIGINAL, FILE, ("score_rule", "bonus_rule"), List=list)
    rng = np.random.default_rng(1)
    alpha = [WEIGHTS[name] for name in ("alpha_with", "alpha_against", "beta_against", "beta_with")]
    seen = set()
    for number in range(60):
        scores = _random_scores(rng, rounds, coders, is_binary=number % 2)
        returns = _in_the_original(score_rule, scores, alpha, horizon="discounted_sum", share="all", gamma=0.3)
        bonus = _in_the_original(bonus_rule, scores, alpha)
        for turn, coder in returns:
            assert influence_return(scores, turn, coder, 0.3) == pytest.approx(returns[turn, coder], abs=1e-6)
            released, paper = (
                persuasion_bonus(scores, turn, coder, [*WEIGHTS.values()], rule) for rule in ("released", "paper")
            )
            assert released == pytest.approx(bonus[turn, coder], abs=1e-6)
            of_own = persuasion_bonus(scores, turn, coder, [WEIGHTS["alpha_with"], WEIGHTS["alpha_against"], 0.0, 0.0])
            assert turn == 1 or paper - of_own == pytest.approx(of_own - bonus[turn, coder], abs=1e-6)
            seen.add(round(bonus[turn, coder], 3))
    assert len(seen) >= {(1, 3): 3, (2, 2): 5}.get((coders, rounds), 9), "all kinds of changes occurred"


def test_the_original_has_no_return_for_a_debate_that_ends_early_by_consensus():
    """Its response in the last round reached has no later score, and a stack of none is an error there; here it is the score itself."""
    (score_rule,) = original_functions(ORIGINAL, FILE, ("score_rule",), List=list)
    table = {(t, a): torch.tensor([0.25]) for t in range(3) for a in range(2)}
    with pytest.raises(RuntimeError, match="stack expects a non-empty TensorList"):
        score_rule("discounted_sum", "all", 0.3, table, 3, 2, [1], 1, 0, incentive=True, device="cpu", alpha=[0] * 4)
    assert influence_return([{1: 0.5, 2: 0.5}, {1: 0.25, 2: 0.5}], 2, 1, 0.3) == 0.25


# ---- credit ---------------------------------------------------------------------------------------------------------------------


def _episode(row, lengths, rng):
    names = ("interviewer", "interviewer", "coder1_1", "coder2_1", "coder1_2", "coder2_2")
    turns = [
        Turn(f"{name} {row}", [0] * n, rng.normal(-1.0, 0.5, n).tolist(), agent=name)
        for name, n in zip(names, lengths, strict=True)
    ]
    return Episode("a", row, [], turns, {"outcome": "ended"}, 1.0)


def _gae(rewards, values, lam):
    found, following, ahead = [], 0.0, 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        following = reward + ahead - value + lam * following
        ahead = value
        found.insert(0, following)
    return np.array(found)


@pytest.mark.parametrize("is_trained", [False, True])
def test_every_response_is_an_episode_of_its_own_and_the_interviewers_turns_are_one(is_trained):
    rng = np.random.default_rng(3)
    config = MAPoRLConfig(rounds=2, interviewer=is_trained, lam=0.9, beta=0.1, **WEIGHTS)
    lengths = [[2, 1, 3, 2, 1, 4], [1, 1, 2, 3, 2, 1], [1, 3, 1, 1, 2, 2]]
    episodes = [_episode(row, of_row, rng) for row, of_row in enumerate(lengths)]
    values, reference = ([rng.normal(size=sum(of_row)).tolist() for of_row in lengths] for _ in range(2))
    told = {}

    def verify(states):
        told.update({(episode.index, number): float(rng.random()) for episode, number in states})
        return [told[episode.index, number] for episode, number in states]

    credit = MAPoRL(config).credit(Batch(episodes, values, reference=lambda: reference, verify=verify))
    assert [*told] == [(row, number) for row in range(3) for number in (3, 4, 5, 6)]
    for agent, places in {
        "interviewer": (0, 1),
        "coder1_1": (2,),
        "coder2_1": (3,),
        "coder1_2": (4,),
        "coder2_2": (5,),
    }.items():
        slow, targets, found, targets_found = [], [], [], []
        for row, episode in enumerate(episodes):
            ends = np.cumsum([0, *lengths[row]])
            of_agent = [i for place in places for i in range(ends[place], ends[place + 1])]
            scores = [{1: told[row, 3], 2: told[row, 4]}, {1: told[row, 5], 2: told[row, 6]}]
            coder, turn = (int(agent[5]), int(agent[7])) if agent != "interviewer" else (0, 0)
            reward = influence_return(scores, turn, coder, 0.3)
            reward += persuasion_bonus(scores, turn, coder, [*WEIGHTS.values()]) if turn else 0.0
            sampled = [log_prob for turn in episode.turns for log_prob in turn.log_probs]
            paid = [-0.1 * (sampled[i] - reference[row][i]) for i in of_agent]
            paid[-1] += reward
            slow.append(_gae(paid, [values[row][i] for i in of_agent], 0.9))
            targets.append(slow[-1] + [values[row][i] for i in of_agent])
            found.append([credit.advantages[row][i] for i in of_agent])
            targets_found.append([credit.returns[row][i] for i in of_agent])
        if agent == "interviewer" and not is_trained:
            assert not np.concatenate(found).any() and agent not in credit.agents
            continue
        flat = np.concatenate(slow)
        assert np.concatenate(found) == pytest.approx((flat - flat.mean()) / flat.std()) and agent in credit.agents
        assert np.concatenate(targets_found) == pytest.approx(np.concatenate(targets))
    assert credit.metrics == {
        "round_1": pytest.approx(np.mean([told[row, n] for row in range(3) for n in (3, 4)])),
        "round_2": pytest.approx(np.mean([told[row, n] for row in range(3) for n in (5, 6)])),
    }


def test_policies_are_one_for_all_by_agent_or_by_agent_and_round():
    def folders(**settings):
        return MAPoRL(MAPoRLConfig(rounds=2, **settings)).policies

    assert folders() == {"interviewer": "", **{f"coder{a}_{t}": f"maporl/coder{a}_{t}" for t in (1, 2) for a in (1, 2)}}
    assert folders(policies="agent")["coder2_1"] == folders(policies="agent")["coder2_2"] == "maporl/coder2"
    one = MAPoRL(MAPoRLConfig(policies="one", interviewer=True))
    assert one.folders == ("maporl/interviewer", "maporl/coder") and len(one.policies) == 7
    solo = MAPoRL(MAPoRLConfig(trained_coders=1, policies="agent"))
    assert solo.folders == ("maporl/coder1",) and solo.policies["coder2_3"] == "" == solo.policies["interviewer"]
    assert MAPoRL().requires == {"snapshot", "verifier"} and "hidden" in MAPoRL(MAPoRLConfig(asymmetric=True)).requires


def test_with_turns_one_round_is_trained_at_a_time_from_the_last_to_the_first():
    algorithm = MAPoRL(MAPoRLConfig(turn_based=True, rounds=3, iterations=7, interviewer=True))
    rounds = [{agent.rpartition("_")[2] for agent in algorithm.in_training(iteration)} for iteration in range(7)]
    assert rounds == [{"3"}, {"3"}, {"2"}, {"2"}, {"1"}, {"1"}, {"interviewer"}]
    assert algorithm.in_training(0) == ["coder1_3", "coder2_3"]
    assert len(MAPoRL(MAPoRLConfig(rounds=3)).in_training(0)) == 6


def _table():
    first, then = [f"bit {b}" for b in (0, 1)], [f"bit {b}, heard {w}" for b in (0, 1) for w in WORDS]
    return TabularPolicy(WORDS, ["talk", *first, *then], rate=6.0)


def _batch(episodes, iteration):
    """What the trainer would give: a value of 1/2 everywhere, and the verifier's scores."""

    def verify(states):
        return [float(episode.turns[n - 1].text == episode.hidden_at(n)) for episode, n in states]

    return Batch(episodes, [[0.5] * 5 for _ in episodes], iteration=iteration, verify=verify)


def _debated(iterations=30, **settings):
    """Mean scores of rounds 1 and 2, before and after training tables by the credit."""
    algorithm = MAPoRL(MAPoRLConfig(rounds=2, beta=0.0, iterations=iterations, **settings))
    policies = {agent: _table() for agent in algorithm.policies}
    for agent in ("coder1_1", "coder2_1"):
        policies[agent].logits.data[1, 0] = (
            0.3  # which word means which bit is a convention; a nudge saves the steps that find one
        )
    envs, keys, means = dialogues(Bits, 48, num_envs=48), [EpisodeKey(str(i)) for i in range(48)], []
    for iteration in range(iterations):
        episodes = played(policies, envs, keys, f"debate {iteration}")
        credit = algorithm.credit(_batch(episodes, iteration))
        means.append([credit.metrics["round_1"], credit.metrics["round_2"]])
        for agent in credit.agents:
            views = views_of(episodes, [agent])
            policies[agent].reinforce([v.episode for v in views], select(credit.advantages, episodes, views, per_token=True))
    return np.mean(means[:5], axis=0), np.mean(means[-5:], axis=0)


def test_a_debate_gets_better_with_its_rounds_where_both_coders_are_trained_and_not_where_one_is():
    before, after = _debated()
    assert before == pytest.approx([0.5, 0.5], abs=0.1)
    assert after[0] == pytest.approx(0.5, abs=0.1), "nobody can know more in the first round"
    assert after[1] > 0.95
    _, solo = _debated(trained_coders=1)
    assert solo == pytest.approx([0.5, 0.5], abs=0.1)


def test_every_block_of_turn_based_training_has_an_iteration():
    for given, least in (({}, 3), ({"interviewer": True}, 4)):
        assert MAPoRLConfig(turn_based=True, iterations=least, **given)
        with pytest.raises(
            ValueError, match=f"`iterations` must be at least {least}, with `turn_based`, one for each block, got {least - 1}"
        ):
            MAPoRLConfig(turn_based=True, iterations=least - 1, **given)
    with pytest.raises(ValueError, match="`iterations` must be at least 31, above `verifier_iterations`, got 30"):
        MAPoRLConfig(verifier_iterations=30)
    late = MAPoRL(MAPoRLConfig(turn_based=True, rounds=3, iterations=7, verifier_iterations=4))
    assert [late.in_training(iteration)[0] for iteration in (4, 5, 6)] == ["coder1_3", "coder1_2", "coder1_1"]


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("policies", "x", "must be one of"), ("bonus_rule", "x", "must be one of"), ("coders", "0", "must be at least 1, got 0"),
     ("rounds", "0", "must be at least 1"), ("gamma", "1.5", "must be at most 1"), ("trained_coders", "3", "must be at most `maporl.coders`, 2, got 3")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`maporl.{setting}` {error}"):
        comparison_job.parse([f"--maporl.{setting}", value])


def test_a_debate_that_was_cut_short_is_credited_for_what_was_said():
    """A coder that said nothing has no score, a round in which nobody did counts for nothing, and sides without anyone are none."""
    weights = [*WEIGHTS.values()]
    late = [{1: 1.0}, {}, {1: 0.5, 2: 0.0}]
    assert influence_return(late, 1, 1, 0.5) == pytest.approx((1.0 + 0.25 * 0.25) / 1.25)
    assert influence_return(late, 0, 0, 0.5) == pytest.approx((1.0 + 0.25 * 0.25) / 1.25)
    assert [persuasion_bonus(late, turn, coder, weights) for turn, coder in ((1, 1), (3, 1), (3, 2))] == [0.0] * 3
    assert persuasion_bonus([{1: 0.0}, {1: 1.0, 2: 1.0}], 2, 1, weights) == 0.0, "nobody was there to be followed"
    assert persuasion_bonus([{1: 0.0}, {1: 1.0}], 2, 1, weights) == WEIGHTS["alpha_against"], "a coder alone"


def test_of_a_coder_with_two_turns_the_last_is_scored_and_paid():
    names = ("coder1_1", "coder2_1", "coder1_1", "coder1_3")
    turns = [Turn(str(i), [0], [-1.0], agent=name) for i, name in enumerate(names)]
    episode = Episode("a", 0, [], turns, {"outcome": "ended"}, 1.0)
    asked = []

    def verify(states):
        asked.extend(number for _, number in states)
        return [1.0, 0.0, 0.5]

    config = MAPoRLConfig(coders=2, rounds=3, beta=0.0)
    credit = MAPoRL(config).credit(Batch([episode], [[0.0] * 4], verify=verify))
    assert asked == [3, 2, 4] and credit.metrics == {"round_1": 0.5, "round_3": 0.5}
    first, second = (1.0 + 0.3**2 * 0.5) / (1 + 0.3**2), (0.0 + 0.3**2 * 0.5) / (1 + 0.3**2)
    assert credit.returns[0] == pytest.approx([0.95 * first, second, first, 0.5]), "lambda is 0.95"
