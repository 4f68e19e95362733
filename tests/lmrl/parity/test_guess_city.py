"""Guess My City and its original: the cities, and observation, reward and end of every step, with one oracle and one tokenizer for both."""

from __future__ import annotations

import os

import pytest

from colbench_gym.lmrl.guessing.guess_city import GuessCity
from colbench_gym.lmrl.guessing.secret_table import load_table
from tests.lmrl.parity.test_twenty_questions import MIN_STEPS, Coin, mismatches, original_sides, tag


@pytest.fixture
def original(import_original, monkeypatch):
    """Its environment, and its cities, which it reads from a path below its own folder."""
    env, data = original_sides(import_original, "guess_city")
    monkeypatch.chdir(os.environ["COLBENCH_LMRL"])
    return env, data.get_default_word_list()


def _city(secret):
    return secret.original or f"{secret.name},{secret.group}".lower()


def _ask(secret, rng):
    name = rng.choice([secret.name, rng.choice(load_table("cities").secrets).name])
    letters = _city(secret)
    return rng.choice([
        f"Is it {name}?", name, letters, letters[0].upper() + "?", " ".join(letters[: rng.randrange(1, 5)]), " ".join(letters), "", "...",
        f"Is it {name}, {secret.group}?", "Is it in Asia?", "a", "s",
    ])  # fmt: skip


def test_the_cities_are_those_of_the_original_which_loses_the_first(original):
    assert [_city(secret) for secret in load_table("cities").secrets][1:] == original[1]


def test_every_step_is_that_of_the_original(original):
    env, words = original
    steps, wrong, won, sensible = 0, 0, 0, 0
    for seed in range(200):
        ours = GuessCity(Coin(seed, 0.4), faithful=True, tagger=tag)
        theirs = env.GuessCityPolicyEnvironment(Coin(seed, 0.4), words)
        options = {"deterministic": seed % 2 == 0}
        theirs.reset(seed, options)
        ours.reset(seed=seed, options=options)
        assert _city(ours.secret) == theirs.curr_word
        did, differ, is_won = mismatches(ours, theirs, env.Text, _ask, options, seed)
        steps, wrong, won = steps + did, wrong + differ, won + is_won
        sensible += is_won and len(ours.history[-2].text.split()) > 1 and ours.secret.name in ours.history[-2].text
    assert wrong == 0 and steps >= MIN_STEPS and 20 < won < 190
    assert sensible == 0  # a city's name never wins there
