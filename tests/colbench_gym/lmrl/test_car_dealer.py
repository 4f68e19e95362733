"""Car Dealer: its arguments and options, rewards against the paper's formulas, ends, sellers, and that the original's faults are repaired."""

from __future__ import annotations

import random
from statistics import mean

import gymnasium as gym
import pytest

from colbench_gym.lmrl.car_dealer.bargain import best_car, limit_of
from colbench_gym.lmrl.car_dealer.buyers import CarBuyer, Reply
from colbench_gym.lmrl.car_dealer.car_dealer import CarDealer
from colbench_gym.lmrl.car_dealer.decision import Decision, read_exactly, read_loosely, reward_of
from colbench_gym.lmrl.car_dealer.profile import BRANDS, FEATURES, PERSONALITIES, Profile
from colbench_gym.lmrl.car_dealer.sellers import STYLES, offer, take_notes
from colbench_gym.lmrl.car_dealer.talk import understand

BUYER = {"personality": "polite", "brand": "Audi", "type": "electric", "features": ["sunroof"], "budget": 30_000}


class Recites(CarBuyer):
    """Says the given replies in turn."""

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def answer(self, profile, history, seed, must_decide=False):
        self.asked.append((history[-1].text, must_decide))
        return self.replies.pop(0)


def _play(env, act, seed=0):
    env.reset(seed=seed)
    while True:
        step = env.step(act())
        if step[2] or step[3]:
            return step


def test_the_reward_functions():
    profile = Profile("rude", "Ford", "truck", (), 30_000)
    for decision, fancy, revenue in (
        (Decision(True, 40_000, 35_000), 1.0, 35.0),
        (Decision(True, 10_000, 10_000), 0.5, 10.0),
        (Decision(False, 40_000), 0.25, 0.0),
        (Decision(False, 20_000), -0.5, 0.0),
        (Decision(True, 40_000), 0.0, 0.0),
        (Decision(False, None), 0.0, 0.0),
        (Decision(True, None, 20_000), 0.0, 20.0),
    ):
        assert (reward_of(profile, decision, "fancy"), reward_of(profile, decision, "revenue")) == (fancy, revenue)


def test_the_line_of_the_protocol():
    for decision in (Decision(True, 42_000, 38_500), Decision(False, 42_000)):
        assert (
            read_exactly(f"Well. {decision.line} ok") == (decision, "Well.  ok") and read_loosely(decision.line)[0] == decision
        )
    for line in (
        "Decision=Reject MSRP=$4",
        "Output: Decision=Reject",
        "output: decision=reject msrp=$4",
        "Output: Decision=Reject MSRP=$0",
    ):
        assert read_exactly(line) == (None, line)
    assert read_loosely("No!\nDecision: reject (MSRP is 42.5k)") == (Decision(False, 42_500), "No!\n")
    assert read_loosely("I cannot decide.") == (None, "I cannot decide.")


def test_a_sale():
    env = gym.make("LMRL-CarDealer-v0", reward="revenue", render_mode="ansi").unwrapped
    observation, info = env.reset(seed=3, options={"buyer": BUYER})
    assert (observation, info) == ("Start\n", {})
    assert (
        env.hidden_information == "The buyer is polite. They want an Audi electric car with sunroof. Their budget is $30,000."
    )
    assert "I want an Audi.\n" in env.step("Which brand?")[0]
    observation, reward, terminated, truncated, info = env.step("I have an electric Audi with a sunroof for 26 grand.")
    assert (reward, terminated, truncated) == (26.0, True, False) and env.decision == Decision(True, 26_000, 26_000)
    assert info == {"success": True, "metrics": {"outcome": "ended", "success": 1, "return": 26.0, "turns": 2}}
    assert env.render().startswith("Start\n> Which brand?\n")


def test_the_given_fields_replace_the_drawn_ones():
    env = CarDealer()
    env.reset(seed=1)
    drawn = env.profile
    env.reset(seed=1, options={"buyer": {"budget": 12_345}})
    assert (env.profile.budget, env.profile.brand, env.profile.features) == (12_345, drawn.brand, drawn.features)


@pytest.mark.parametrize(
    ("buyer", "message"),
    [
        (
            {"wealth": 1},
            r"`options\['buyer'\]` may have the fields \('personality', 'brand', 'type', 'features', 'budget'\), got 'wealth'",
        ),
        ({"brand": "Fiat"}, r"`options\['buyer'\]\['brand'\]` must be one of \('Volkswagen', .*, got 'Fiat'"),
        ({"features": ["wings"]}, r"`options\['buyer'\]\['features'\]` must be some of .*, got \['wings'\]"),
        (
            {"budget": "30k"},
            r"`options\['buyer'\]\['budget'\]` must be a whole number of dollars from 10,000 to 100,000, got '30k'",
        ),
    ],
)
def test_wrong_profiles_are_refused(buyer, message):
    with pytest.raises(ValueError, match=message):
        CarDealer().reset(options={"buyer": buyer})


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"`reward` must be one of \('fancy', 'revenue'\), got 'profit'"):
        CarDealer(reward="profit")


def test_at_the_cap_the_buyer_decides():
    env = CarDealer(max_turns=2)
    env.reset(seed=0, options={"buyer": BUYER})
    env.step("I have an electric Audi with a sunroof for $33,000.")
    _, reward, terminated, truncated, info = env.step("Nice weather.")
    assert terminated and not truncated and info["success"] and reward == pytest.approx(33 / 31.5)


def test_a_buyer_that_never_decides_is_cut_with_nothing():
    buyer = Recites(Reply("Hm.\n"), Reply("Hm.\n"))
    env = CarDealer(buyer, max_turns=2)
    env.reset(seed=0)
    assert env.step("a")[1:4] == (0.0, False, False)
    observation, reward, terminated, truncated, info = env.step("b")
    assert (observation, reward, terminated, truncated) == ("Hm.\n", 0.0, False, True)
    assert info["metrics"] == {"outcome": "cut", "success": 0, "return": 0.0, "turns": 2}
    assert buyer.asked == [("a", False), ("b", True)]


def test_the_original_reads_one_spelling_and_asks_twice():
    said = Reply("Bye.\n", Decision(False, 20_000), "Bye. decision: reject, MSRP $20,000\n")
    env = CarDealer(Recites(said), max_turns=1)
    env.reset(seed=0, options={"buyer": BUYER})
    assert env.step("a")[:4] == ("Bye.\n", -0.5, True, False)
    continued = Reply("", raw="Reject MSRP=$20,000\n")  # what a model says that continues the cue
    buyer = Recites(said, continued)
    env = CarDealer(buyer, max_turns=1, faithful=True)
    env.reset(seed=0, options={"buyer": BUYER})
    assert env.step("a")[:4] == ("Bye. decision: reject, MSRP $20,000\n", 0.0, False, True)
    assert buyer.asked == [("a", False), ("Bye. decision: reject, MSRP $20,000\n", True)]


def test_an_episode_forgets_the_decision_of_the_last():
    env = CarDealer()
    _play(env, env.oracle_action)
    assert env.decision is not None
    env.reset(seed=1)
    assert env.decision is None


@pytest.mark.parametrize("personality", PERSONALITIES)
def test_the_oracle_reaches_the_most_that_a_buyer_pays(personality):
    env = CarDealer()
    for seed in range(5):
        _play(env, env.oracle_action, seed)
        env.reset(seed=seed, options={"buyer": {"personality": personality}})
        while env.decision is None:
            step = env.step(env.oracle_action())
        limit = limit_of(env.profile, best_car(env.profile))
        assert step[1] == pytest.approx(2 * limit / (env.profile.budget + limit))


def test_the_expert_sees_nothing_hidden_and_is_nearly_as_good():
    env, hidden = CarDealer(), CarDealer()
    expert = [_play(env, env.expert_action, seed)[1] for seed in range(40)]
    best = [_play(env, env.oracle_action, seed)[1] for seed in range(40)]
    assert mean(best) - 0.01 < mean(expert) <= mean(best)
    env.reset(seed=1)
    hidden.reset(seed=2)
    assert env.profile != hidden.profile and env.expert_action() == hidden.expert_action()


def test_the_behaviour_resembles_the_papers_data():
    """The paper: 16.5 texts, success 0.53, return 0.562. Ours, 2,000 episodes: 16.5, 0.53, 0.573; the bounds are four standard errors of 120 episodes."""
    env = CarDealer()
    assert sum(style.share for style in STYLES.values()) == pytest.approx(1)
    metrics = []
    for seed in range(120):
        metrics.append(_play(env, env.behaviour(random.Random(seed + 1)), seed)[4]["metrics"])
    assert mean(one["turns"] for one in metrics) == pytest.approx(8.25, abs=1.3)
    assert mean(one["success"] for one in metrics) == pytest.approx(0.53, abs=0.18)
    assert mean(one["return"] for one in metrics) == pytest.approx(0.562, abs=0.25)


def test_what_sellers_say_is_understood():
    rng = random.Random(0)
    for _ in range(100):
        car = best_car(
            Profile("rude", rng.choice(BRANDS), rng.choice(("SUV", "luxury")), tuple(rng.sample(FEATURES, 3)), 40_000)
        )
        heard = understand(offer(car, 41_500, msrp=44_000))
        assert (heard.brands, heard.types, set(heard.features)) == ((car.brand,), car.types, set(car.features))
        assert (heard.price, heard.msrp) == (41_500, 44_000)


def test_notes_of_a_conversation():
    env = CarDealer()
    env.reset(seed=0, options={"buyer": BUYER})
    for line in ("Which brand and type?", "What is your budget?", "I have an electric Audi for $40,000."):
        env.step(line)
    notes = take_notes(env.history)
    assert (notes.brand, notes.type, notes.budget, notes.price) == ("Audi", "electric", 30_000, 40_000)
    assert notes.features == ("sunroof",) and notes.counters == [21_100] and notes.asked == {"brand": 1, "type": 1, "budget": 1}
