"""The buyers: the scripted one's rules against tables and brute force, its openness, and a model behind a server."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from colbench_gym.errors import SimulatorError
from colbench_gym.lmrl.car_dealer.bargain import LEAST_MSRP, MOST_MSRP, TRAITS, Bargain, best_car, limit_of
from colbench_gym.lmrl.car_dealer.buyers import CarBuyer, OpenAIBuyer, Reply, ScriptedBuyer, make_buyer
from colbench_gym.lmrl.car_dealer.decision import Decision, reward_of
from colbench_gym.lmrl.car_dealer.profile import BUDGETS, PERSONALITIES, Profile, draw_profile
from colbench_gym.lmrl.car_dealer.talk import Heard, understand
from colbench_gym.lmrl.game import GameText

from ..simulators.model.chat_servers import fails, says, serving, url

ANNE = Profile("polite", "Toyota", "SUV", ("sunroof", "heated seats"), 50_000)
WANTED = "I can offer you a Toyota SUV with a sunroof and heated seats for ${:,}."


def _talk(*lines, buyer=ANNE, must_decide=False):
    """What the scripted buyer says to the last of these lines, without its temper, and its decision."""
    history = [GameText("Start\n", False)]
    for line in lines:
        history += [GameText(line, True), GameText("", False)]
    quiet = [ScriptedBuyer().answer(buyer, history[:-1], seed, must_decide) for seed in range(40)]
    reply = min(quiet, key=lambda reply: (len(reply.text), reply.text))
    assert {one.decision for one in quiet} == {reply.decision}
    return reply.text.strip(), reply.decision


def test_the_most_that_a_buyer_pays():
    wanted = best_car(ANNE)
    assert limit_of(ANNE, wanted) == 55_000  # 10% more than the budget
    for change, limit in (
        ({"brand": "Ford"}, 41_200),  # 75% of it, to whole hundreds
        ({"types": ("sedan",)}, 41_200),
        ({"types": ("SUV", "luxury")}, 55_000),
        ({"features": ("sunroof",)}, 49_500),  # half of the features is missing: 10% less
        ({"features": ("sunroof", "heated seats", "Apple CarPlay")}, 53_300),  # 3% less
        ({"brand": "Ford", "types": ("truck",)}, 0),
    ):
        assert limit_of(ANNE, replace(wanted, **change)) == limit
    assert limit_of(replace(ANNE, personality="toxic"), wanted) == 47_500


def test_it_tells_what_it_is_asked():
    assert _talk("Which brand do you prefer?")[0] == "I want a Toyota."
    assert _talk("What type of car do you need?")[0] == "I want an SUV."
    assert _talk("Which brand and type?")[0] == "I want a Toyota SUV."
    assert _talk("Any features you need?")[0] == "I want a sunroof and heated seats."
    assert _talk("What is your budget?")[0] == "My budget is $50,000."
    assert _talk("We have Fords, Hondas and Mazdas.")[0] == "I want a Toyota."
    assert (
        _talk("How can I help?", buyer=replace(ANNE, personality="talkative"))[0]
        == "I want a Toyota SUV with a sunroof and heated seats."
    )
    assert _talk("How can I help?", buyer=replace(ANNE, personality="rude"))[0] == "I want an SUV."


@pytest.mark.parametrize(("personality", "needed"), [("polite", 1), ("angry", 2), ("toxic", 0)])
def test_how_openly_it_speaks_of_its_budget(personality, needed):
    for asked in range(1, 4):
        said, _ = _talk(*["What is your budget?"] * asked, buyer=replace(ANNE, personality=personality))
        assert ("$50,000" in said) == (0 < needed <= asked)


def test_it_bargains():
    assert _talk(WANTED.format(60_000))[0] == "Make it $44,000."  # 80% of 55,000
    assert _talk(WANTED.format(60_000), "The price is firm.")[0] == "Make it $49,500."
    assert _talk(WANTED.format(60_000), "$57,000?", "$56,000?", "$55,500?")[0] == "Make it $52,200."
    assert _talk(WANTED.format(60_000), "Deal!") == ("Deal. I buy it for $44,000.", Decision(True, 60_000, 44_000))
    assert _talk(WANTED.format(60_000), "I can take $5,000 off.")[1] == Decision(True, 60_000, 55_000)
    assert _talk(WANTED.format(50_000), "Okay, 5% off the price.")[1] == Decision(True, 50_000, 47_500)
    assert _talk(WANTED.format(44_000))[1] == Decision(True, 44_000, 44_000)
    assert _talk("The MSRP is $60,000. " + WANTED.format(44_000))[1] == Decision(True, 60_000, 44_000)
    assert _talk(WANTED.format(50_000), "I made a mistake, it is $52,000.")[0] == "That is above the MSRP."


@pytest.mark.parametrize(
    "text",
    ["ok", "okay", "All right, I'll sell it to you for that.", "Fine.", "Agreed", "Deal.", "Sold!", "Yes.", "Okay, deal."],
)
def test_agreeing_takes_its_offer(text):
    assert _talk(WANTED.format(60_000), text) == ("Deal. I buy it for $44,000.", Decision(True, 60_000, 44_000))
    assert _talk("Which brand?", text)[1] is None


@pytest.mark.parametrize("text", ["Why so low?", "No, that's too low.", "No.", "That is not enough.", "The price is firm."])
def test_refusing_its_offer_goes_on_bargaining(text):
    assert _talk(WANTED.format(60_000), text) == ("Make it $49,500.", None)
    assert _talk(text)[0] == "What can you offer?"


@pytest.mark.parametrize(
    ("more", "price"),
    [("and another 20 percent", 48_000), ("another 10 percent off", 54_000), ("and another 4 thousand", 56_000)],
)
def test_discounts_add_up(more, price):
    offers = (WANTED.format(65_000), "discount of 5 thousand", more)
    bargain = Bargain(replace(ANNE, personality="toxic"))
    for text in offers:
        bargain.hear(understand(text))
    assert (bargain.car.price, bargain.car.msrp) == (price, 65_000)


def test_it_says_what_is_wrong_with_a_car():
    assert _talk("I have a Ford truck for $20,000.")[0] == "No. I want a Toyota."
    assert _talk("I have a Ford truck for $20,000.", "How about a Honda sedan at $20,000?")[0] == "No. I want an SUV."
    assert _talk("I have a Toyota SUV for $60,000.")[0] == "I wanted a sunroof and heated seats. Make it $35,200."
    assert _talk("We have a nice Toyota SUV.")[0] == "How much is it?"
    assert _talk("I have a car for $20,000.")[0] == "Which car is that?"
    told = ("What car and which features do you want?", "What brand and type?")
    assert _talk(*told, "I have exactly the car you described for $44,000.")[1] == Decision(True, 44_000, 44_000)


def test_patience_ends():
    rude = replace(ANNE, personality="rude")
    chatter = ["Nice weather."] * TRAITS["rude"].patience
    assert _talk(*chatter[:-1], buyer=rude)[1] is None
    assert _talk(*chatter, buyer=rude)[1] == Decision(False, None)
    assert _talk(*chatter, WANTED.format(1_000), buyer=rude)[1] == Decision(False, None)  # a decision stands
    assert _talk(WANTED.format(60_000), *chatter, buyer=rude)[1] == Decision(False, 60_000)
    assert _talk(WANTED.format(50_000), must_decide=True, buyer=rude)[1] == Decision(True, 50_000, 50_000)


@pytest.mark.parametrize(("claim", "believed"), [("$1", LEAST_MSRP), ("$9,000,000", MOST_MSRP), ("$48,000", 48_000)])
def test_claims_of_an_msrp_are_believed_within_reason(claim, believed):
    assert _talk(f"The MSRP of this Ford truck is {claim}.", must_decide=True)[1] == Decision(False, believed)


@pytest.mark.parametrize("personality", ["toxic", "polite"])
def test_no_seller_gets_more_than_the_oracle(personality):
    """Brute force over offers (of the wanted car and of others, with and without an MSRP), agreeing and holding, up to five messages."""
    profile = Profile(personality, "Ford", "truck", ("sunroof",), 10_000)
    limit = limit_of(profile, best_car(profile))
    car = {"brands": ("Ford",), "types": ("truck",), "features": ("sunroof",)}
    messages = [Heard(**car, price=price) for price in (limit, limit + 100, 2 * limit)]
    messages += [
        Heard(**car, price=limit, msrp=LEAST_MSRP),
        Heard(brands=("Audi",), price=10**6),
        Heard(agrees=True),
        Heard(holds=True),
    ]
    best = {"fancy": -99.0, "revenue": -99.0}
    waiting = [(Bargain(profile), 5)]
    while waiting:
        before, left = waiting.pop()
        for heard in messages:
            bargain = replace(before, revealed=[*before.revealed])
            bargain.patience = before.patience
            decision = bargain.hear(heard).decision or (bargain.decide().decision if left == 1 else None)
            if decision is None:
                waiting.append((bargain, left - 1))
            else:
                best = {kind: max(value, reward_of(profile, decision, kind)) for kind, value in best.items()}
    assert best == {"fancy": pytest.approx(2 * limit / (10_000 + limit)), "revenue": limit / 1000}


def test_personalities_are_the_originals_and_all_are_reachable():
    assert set(TRAITS) == set(PERSONALITIES)
    assert all(traits.patience > traits.counters for traits in TRAITS.values())
    drawn = [draw_profile(random.Random(seed)) for seed in range(300)]
    assert {one.budget for one in drawn} == set(BUDGETS) and {len(one.features) for one in drawn} == {1, 2, 3, 4}


def test_what_it_says_is_understood():
    """Sellers read the buyer's sentences with the same words."""
    for seed in range(50):
        profile = draw_profile(random.Random(seed))
        heard = understand(
            _talk("Which brand, type and features?", "Which features, type and brand?", "Features?", buyer=profile)[0]
        )
        assert set(heard.features) in (set(), set(profile.features))
        assert set(heard.brands) <= {profile.brand} and set(heard.types) <= {profile.type}


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("httpx", reason="needs the httpx package; run `pip install .[train]`")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def _model(server):
    return make_buyer({"name": "openai", "model": "m", "base_url": url(server), "max_retries": 0, "backoff_s": 0.01})


HISTORY = [GameText("Start\n", False), GameText("The MSRP is $60,000, for you $55,000.", True)]


def test_a_model_plays_the_buyer(server):
    server.script = [
        says("Caf\u00e9 prices! Too much."),
        says("Fine. Output: Decision=Accept MSRP=$60,000 Buy Price=$54,000"),
        says("ok **decision: ACCEPT**"),
        says("No. Decision = Reject, msrp: 61.5k"),
    ]
    buyer = _model(server)
    assert isinstance(buyer, OpenAIBuyer)
    replies = [buyer.answer(ANNE, HISTORY, 0, must_decide) for must_decide in (False, True, True, True)]
    assert replies[0] == Reply("Caf? prices! Too much.\n", None, "Caf? prices! Too much.\n")
    assert (replies[1].text, replies[1].decision) == ("Fine.\n", Decision(True, 60_000, 54_000))
    assert replies[1].protocol == "Fine. Output: Decision=Accept MSRP=$60,000 Buy Price=$54,000\n"
    assert replies[2].decision == Decision(True, 60_000, 55_000)  # the seller's amounts
    assert replies[3].decision == Decision(False, 61_500)
    system, user = (message["content"] for message in server.requests[0]["messages"])
    assert ANNE.in_words in system and 'Agent: "The MSRP is $60,000, for you $55,000."' in user and "nothing else" in user
    assert "must end with the decision" in server.requests[1]["messages"][1]["content"]


def test_a_server_that_is_down_is_an_error_and_no_decision(server):
    server.script = [fails(500)]
    with pytest.raises(SimulatorError, match="Expected a reply from model 'm'"):
        _model(server).answer(ANNE, HISTORY, 0)


class Silent(CarBuyer):
    def answer(self, profile, history, seed, must_decide=False):
        return Reply("\n")


def test_buyers_by_name():
    assert isinstance(make_buyer("scripted"), ScriptedBuyer)
    assert isinstance(make_buyer(f"{__name__}:Silent"), Silent)
    with pytest.raises(
        ValueError, match=r"`buyer` must be one of \('scripted', 'openai'\), or 'package.module:Class', got 'script'"
    ):
        make_buyer("script")
