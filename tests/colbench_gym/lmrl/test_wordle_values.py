"""Exact values of greedy information gain: brute force, one game for each secret, Monte Carlo, and the published figures."""

from __future__ import annotations

import math
import os
import random
import re
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from colbench_gym.lmrl.wordle.rules import reply_text, rules_of
from colbench_gym.lmrl.wordle.wordle import Wordle
from colbench_gym.lmrl.wordle.wordle_values import dialogue_advantages, exact_advantages, turns_of, values_of
from colbench_gym.lmrl.wordle.words import load_words

TEN = ["spare", "stare", "share", "trace", "crate", "known", "snare", "eerie", "three", "there"]
ORIGINAL_LIST = Path(os.environ.get("COLBENCH_LMRL", "absent")) / "llm_rl_scripts/wordle/vocab/wordle_official_400.txt"
needs_original = pytest.mark.skipif(
    not ORIGINAL_LIST.is_file(),
    reason="needs the original's list: set COLBENCH_LMRL to a checkout of https://github.com/abdulhaim/LMRL-Gym",
)


def _colors(guess, secret):
    """Reply of the original's rule."""
    return "".join("g" if g == s else "y" if g in secret else "b" for g, s in zip(guess, secret, strict=True))


def _greedy(words):
    """The first word with the highest expected gain of information, by its definition."""

    def gain(guess):
        left = Counter(_colors(guess, secret) for secret in words)
        return round(sum(math.log(len(words) / left[_colors(guess, secret)]) for secret in words) / len(words), 9)

    return max(words, key=gain)


def _brute_force(words, tries, guess=None):
    """Expected return of a guess (None for the policy's own): a secret is drawn among the words before each guess."""
    if tries == 0:
        return 0.0
    guess = guess or _greedy(words)
    total = 0.0
    for secret in words:
        colors = _colors(guess, secret)
        if colors != "ggggg":
            total += _brute_force([word for word in words if _colors(guess, word) == colors], tries - 1) - 1
    return total / len(words)


def _play(env, act):
    """Return, success and length of an episode that has begun."""
    while True:
        *_, terminated, _, info = env.step(act())
        if terminated:
            return info["metrics"]["return"], info["success"], info["metrics"]["turns"]


@pytest.mark.parametrize("tries", [1, 2, 3, 6])
def test_values_on_ten_words_are_those_of_brute_force(tries):
    rules = rules_of(TEN)
    values = values_of(rules, tries=tries)
    assert values.value(rules.all, tries) == pytest.approx(_brute_force(TEN, tries), abs=1e-12)
    for place, guess in enumerate(TEN):
        assert values.q_value(rules.all, tries, place) == pytest.approx(_brute_force(TEN, tries, guess), abs=1e-12)
    assert values.q_value(rules.all, tries, None) == pytest.approx(-1 + _brute_force(TEN, tries - 1), abs=1e-12)


def test_the_policy_is_the_one_of_the_definition():
    rules, rng = rules_of("431"), random.Random(0)
    for size in (1, 2, 3, 10, 40):
        known = tuple(sorted(rng.sample(rules.all, size)))
        assert rules.words[values_of(rules).guess(known)] == _greedy([rules.words[word] for word in known])


def test_the_value_of_the_start_is_the_mean_over_all_secrets_each_kept_for_its_episode():
    env, returns = Wordle(redraws=False), []
    for secret in env.rules.words:
        env.reset(seed=0, options={"secret": secret})
        returns.append(_play(env, env.expert_action)[0])
    assert sum(returns) == -826  # of 431 secrets: -1.9165
    assert env.values.value(env.rules.all, 6) == pytest.approx(-826 / 431, abs=1e-12)
    env.reset(seed=0)
    assert env.expert_action() == "t r a c e"


@pytest.mark.parametrize(("feedback", "total"), [("original", -415), ("standard", -415)])
def test_the_short_list(feedback, total):
    values = values_of(rules_of("236", feedback))
    assert values.value(values.rules.all, 6) == pytest.approx(total / 236, abs=1e-12)


@pytest.mark.parametrize("feedback", ["original", "standard"])
def test_advantages_are_those_of_monte_carlo(feedback):
    env, count = Wordle(feedback=feedback, invalid_reward=-3), 1500
    env.reset(seed=1)
    env.step("known")
    state, texts = env.get_state(), ["known", "s t e a l", "table", "zzzzz", env.expert_action()]
    exact = env.exact_advantages(texts)
    assert exact[-1] == pytest.approx(0, abs=1e-12) and exact[3] < exact[0] < exact[1] < 0
    value = env.values.value(env.known, 5)
    for text, advantage in zip(texts, exact, strict=True):
        returns = []
        for seed in range(count):
            env.set_state(state, reseed=seed)
            before = env.get_state()["return"]
            _, reward, is_over, _, _ = env.step(text)
            returns.append(reward if is_over else _play(env, env.expert_action)[0] - before)
        error = statistics.stdev(returns) / count**0.5
        assert abs(statistics.mean(returns) - value - advantage) < 4 * error


def test_advantages_from_the_messages_alone_are_those_of_the_environment():
    env, rng = Wordle(invalid_reward=-10), random.Random(0)
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        messages, is_over = [{"role": "system", "content": "Play Wordle."}, {"role": "user", "content": observation}], False
        act = env.behaviour(rng)
        while not is_over:
            texts = [env.expert_action(), act(), act(), "nonsense"]
            assert exact_advantages(messages, texts, invalid_reward=-10) == env.exact_advantages(texts)
            text = rng.choice(texts)
            observation, _, is_over, _, _ = env.step(text)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": observation}]
        assert len(turns_of(messages)) == env.turn


def test_the_trainers_form_takes_the_arguments_of_the_environment():
    arguments = {
        "words": TEN,
        "feedback": "standard",
        "invalid_reward": -2.5,
        "redraws": True,
        "max_turns": 3,
        "faithful": False,
    }
    env = Wordle(**arguments)
    env.reset(seed=0)
    reply, texts = env.step("eerie")[0], ["spare", "SPARE", "there", "zzzzz"]
    messages = [{"role": "assistant", "content": "eerie"}, {"role": "user", "content": reply}]
    found = dialogue_advantages(messages, env.hidden_information, texts, arguments)
    assert found == env.exact_advantages(texts) and found[0] == found[1] > found[3]
    faithful = dialogue_advantages([], "", ["spare", "SPARE", "zzzzz"], {"words": TEN, "faithful": True})
    assert faithful[0] > faithful[1] == faithful[2]


def test_dialogues_that_cannot_be_are_refused():
    def advantages(*turns):
        messages = [
            {"role": role, "content": text} for turn in turns for role, text in zip(("assistant", "user"), turn, strict=True)
        ]
        return exact_advantages(messages, ["spare"])

    with pytest.raises(ValueError, match=re.escape("Expected fewer than 6 turns, got 6; there is no try left.")):
        advantages(*[("known", "b b b b b\n")] * 6)
    error = "Expected replies with which a word of the list agrees, got [('known', 'g g g g y')]; check `words` and `feedback`."
    with pytest.raises(ValueError, match=re.escape(error)):
        advantages(("known", "g g g g y"))


def _mixture(words, episodes):
    """Returns, successes and lengths of the behaviour policy, shape (episodes, 3)."""
    env, rng = Wordle(words), random.Random(0)
    act, rows = env.behaviour(rng), []
    for seed in range(episodes):
        env.reset(seed=seed)
        rows.append(_play(env, act))
    return np.array(rows, dtype=float)


def test_the_behaviour_policy_on_our_list():
    rows = _mixture("431", 3000)
    assert rows.mean(axis=0) == pytest.approx(
        [-4.085, 0.700, 4.785], abs=0.12
    )  # 4 standard errors of the return; measured on 100,000


@needs_original
def test_published_figures_random_mixture():
    rows = _mixture(str(ORIGINAL_LIST), 10_000)
    assert rows[:, 0].mean() == pytest.approx(
        -4.11, abs=0.05
    )  # 3 standard errors of 0.016; -4.11 +- 0.02 is measured on 100,000
    assert rows[:, 0].std() == pytest.approx(1.59, abs=0.03)
    assert rows[:, 1:].mean(axis=0) == pytest.approx([0.70, 4.81], abs=0.05)


@needs_original
def test_published_figures_greedy_information_gain():
    words = load_words(str(ORIGINAL_LIST))
    values = values_of(rules_of(words))
    assert len(words) == 431 and words[values.guess(values.rules.all)] == "slate"
    assert values.value(values.rules.all, 6) == pytest.approx(-837 / 431, abs=1e-12) and round(-837 / 431, 4) == -1.942
    # the paper's upper bound is not one: another first word is better
    assert exact_advantages([], ["slate", "trace"], words=words) == pytest.approx([0, (837 - 823) / 431], abs=1e-12)
    env = Wordle(words)
    env.reset(seed=0)
    assert reply_text(env.rules.replies(values.guess(env.known))[env.known[0]]) == "b g b y y"  # slate against elect
