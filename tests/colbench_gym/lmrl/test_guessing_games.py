"""Twenty Questions and Guess My City: who wins, what is drawn, what is hidden, how the policies do."""

from __future__ import annotations

import random

import gymnasium as gym
import numpy as np
import pytest

from colbench_gym.lmrl.guessing.asking import Asker
from colbench_gym.lmrl.guessing.guess_city import GuessCity
from colbench_gym.lmrl.guessing.oracles import Oracle
from colbench_gym.lmrl.guessing.secret_table import load_table
from colbench_gym.lmrl.guessing.twenty_questions import TwentyQuestions


class Always(Oracle):
    """Says yes."""

    def answer(self, secret, question, seed):
        return True


def tagger(text):
    """Words; "small" is no noun, everything else is one unless it is a function word."""
    return [
        (word, "DT" if word in ("is", "it", "a", "the", "small", "of", "in") else "NN")
        for word in text.replace("?", " ?").split()
    ]


def _step(env, secret, question):
    env.reset(seed=0, options={"secret": secret})
    return env.step(question)[:4]


WON, NO, YES = ("Yes.\n", 0.0, True, False), ("No.\n", -1.0, False, False), ("Yes.\n", -1.0, False, False)


@pytest.mark.parametrize(
    ("secret", "question", "outcome"),
    [
        ("Dog", "Is it a dog?", WON),
        ("Dog", "is it a puppy", WON),
        ("Scissors", "Is it a pair of scissors?\n", WON),
        ("Dog", "Is it a cat?", NO),
        ("Dog", "Is it a cat or a dog?", YES),
        ("Dog", "Is it an animal?", YES),
        ("Car", "Is it bigger than a car?", NO),
        ("Paper", "Is it made of paper?", YES),
        ("Television", "Could it be a TV?", WON),
    ],
)
def test_a_guess_of_the_object_wins(secret, question, outcome):
    assert _step(TwentyQuestions(), secret, question) == outcome


@pytest.mark.parametrize(
    ("secret", "question", "outcome"),
    [
        ("Paris", "Is it Paris?", WON),
        ("Kyiv", "Are you from Kiev, Ukraine?", WON),
        ("Sao Paulo", "São Paulo!", WON),
        ("Paris", "Is it Paris or Rome?", YES),
        ("Paris", "Is it Rome?", NO),
        ("London", "Is it west of London?", NO),
        ("Paris", "Is it the capital of France?", YES),
        ("Paris", "Do people call it Paris, the capital of France?", WON),
    ],
)
def test_naming_the_city_wins(secret, question, outcome):
    assert _step(GuessCity(), secret, question) == outcome


def test_the_originals_rules():
    env = TwentyQuestions(Always(), faithful=True, tagger=tagger)
    assert _step(env, "Dog", "Is it a small dog?") == WON and _step(env, "Dog", "Is it a dog of sorts") == YES
    assert _step(env, "Dog", "Is it a cat?") == YES and _step(env, "Dog", "?!") == YES
    env = GuessCity(Always(), faithful=True, tagger=tagger)
    assert _step(env, "Tokyo", "Is it Tokyo?") == YES and _step(env, "Tokyo", "T?") == WON and _step(env, "Tokyo", "") == YES


def test_secrets_are_drawn_by_name_by_number_and_by_seed():
    for env, count, lost in ((TwentyQuestions(), 158, 0), (GuessCity(), 100, 0), (GuessCity(faithful=True), 99, 1)):
        secrets = load_table(env.table_name).secrets[lost:]
        env.reset(seed=count + 5, options={"deterministic": True})
        assert env.secret == secrets[5]
        env.reset(seed=3)
        assert env.secret == random.Random(3).choice(secrets)
        with pytest.raises(
            ValueError, match="The option 'deterministic' takes the secret from the seed; call `reset` with a seed"
        ):
            env.reset(options={"deterministic": True})
        with pytest.raises(ValueError, match="Expected the name of one of the"):
            env.reset(seed=0, options={"secret": "Atlantis"})


def test_the_last_question_ends_the_game_and_may_win_it():
    env = TwentyQuestions(max_turns=2)
    env.reset(seed=0, options={"secret": "Dog"})
    assert env.step("Is it alive?")[:4] == YES
    *outcome, info = env.step("Is it a cat?")
    assert outcome == ["No.\n", -1.0, False, True]
    assert info["metrics"] == {"outcome": "cut", "success": 0, "return": -2.0, "turns": 2}
    env.reset(seed=0, options={"secret": "Dog"})
    env.step("Is it alive?")
    *outcome, info = env.step("Is it a dog?")
    assert outcome == ["Yes.\n", 0.0, True, False] and info["success"] and info["metrics"]["return"] == -1.0


def test_what_is_hidden_says_the_secret_and_what_is_true_of_it():
    env = gym.make("LMRL-TwentyQuestions-v0").unwrapped
    observation, info = env.reset(seed=0, options={"secret": "Dog"})
    text = env.hidden_information
    assert (
        text.startswith("The object is a dog. It is alive; it is an animal;") and "it barks" in text and "can fly" not in text
    )
    assert observation == "Questions:\n" and info == {}
    env = gym.make("LMRL-GuessCity-v0").unwrapped
    env.reset(seed=0, options={"secret": "Lima"})
    assert env.hidden_information.startswith("The city is Lima, in Peru. It ") and "it speaks Spanish" in env.hidden_information


def test_a_state_is_the_turn_and_the_answers_in_any_order():
    env, keys = TwentyQuestions(), []
    for questions in (("Is it alive?", "Is it big?"), ("Is it big?", "Is it alive?"), ("Is it big?", "Is it small?")):
        env.reset(seed=0, options={"secret": "Dog"})
        for question in questions:
            env.step(question)
        keys.append(env.state_key)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(("game", "bound"), [(TwentyQuestions, -7.2), (GuessCity, -6.6)])
def test_the_expert_finds_every_secret(game, bound):
    env, returns = game(), []
    for secret in load_table(game.table_name).secrets:
        env.reset(seed=0, options={"secret": secret.name})
        total, is_over = 0.0, False
        while not is_over:
            _, reward, is_over, is_cut, _ = env.step(env.expert_action())
            assert not is_cut, secret.name
            total += reward
        returns.append(total)
    assert np.mean(returns) > bound
    assert np.mean(returns) <= -np.log2(len(returns)) + 1  # no yes/no strategy does better than one bit a question


def test_the_expert_sees_the_answers_alone():
    env, said = TwentyQuestions(), []
    for secret in ("Dog", "Cat"):
        env.reset(seed=0, options={"secret": secret})
        said.append(env.expert_action())
    assert said[0] == said[1]


def test_candidates_are_those_that_contradict_the_fewest_answers():
    asker, table = Asker("objects", range(158)), load_table("objects")
    left = asker.candidates([("Is it an animal?", True), ("Does it bark?", True)])
    assert [table.secrets[i].name for i in left] == ["Dog"]
    left = asker.candidates([("Is it an animal?", True), ("Is it an animal?", False), ("Does it bark?", True)])
    assert [table.secrets[i].name for i in left] == ["Dog"]
    assert 10 not in asker.candidates([("Is it a cat?", False)])


@pytest.mark.parametrize(("game", "success", "mean"), [(TwentyQuestions, (0.15, 0.55), -17.2), (GuessCity, (0.3, 0.7), -18.7)])
def test_the_behaviour_policy_is_near_the_papers_statistics(game, success, mean):
    env, wins, returns = game(), [], []
    for seed in range(60):
        env.reset(seed=seed)
        act, is_over = env.behaviour(random.Random(seed)), False
        while not is_over:
            *_, terminated, truncated, info = env.step(act())
            is_over = terminated or truncated
        wins.append(info["success"])
        returns.append(info["metrics"]["return"])
    assert success[0] < np.mean(wins) < success[1] and abs(np.mean(returns) - mean) < 1.2


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`tagger` is only used by the original's rule; pass `faithful=True` with it"):
        TwentyQuestions(tagger=tagger)
