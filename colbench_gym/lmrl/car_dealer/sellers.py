"""Scripted sellers of Car Dealer: an expert that listens, an oracle that knows the buyer, and the mixture that plays the data set.

A seller reads the history. All but the oracle know of the buyer only what it said.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat

from colbench_gym.lmrl.car_dealer.bargain import COUNTERS, Car, best_car
from colbench_gym.lmrl.car_dealer.profile import BRANDS, BUDGETS, FEATURES, TYPES, Profile, listed, noun_of, with_article
from colbench_gym.lmrl.car_dealer.sentences import with_articles
from colbench_gym.lmrl.car_dealer.talk import understand
from colbench_gym.lmrl.game import GameText

#: What the expert asks for above the budget that it heard, in percent: no buyer of `bargain` goes further.
_ABOVE = 15
#: Its first price for a buyer that does not tell its budget.
_UNKNOWN = 99_000
QUESTIONS = {
    "brand": ("Which brand do you prefer?", "What make of car do you have in mind?"),
    "type": ("What type of car do you need?", "Which kind of car is it to be?"),
    "car": ("What brand and type of car do you want?", "Which make and what kind of car are you looking for?"),
    "features": ("Which features do you want?", "What extras should it have?"),
    "budget": ("What is your budget?", "How much do you want to spend?"),
    "needs": ("Hello! How can I help you?", "Welcome! What are you looking for?"),
}
_SMALL_TALK = ("Nice weather today.", "You have come to the right place.", "We have the happiest customers in town.")


@dataclass
class Notes:
    """What a seller knows from a conversation.

    Attributes:
        brand: The brand that the buyer named last; "" for none.
        type: The type, likewise.
        features: The features; None if the buyer did not speak of any.
        budget: The budget that it stated.
        counters: Its counter-offers, in order.
        price: The seller's last price.
        asked: How often the seller asked for a topic.
    """

    brand: str = ""
    type: str = ""
    features: tuple[str, ...] | None = None
    budget: int | None = None
    counters: list[int] = field(default_factory=list)
    price: int | None = None
    asked: Counter[str] = field(default_factory=Counter)


def take_notes(history: Sequence[GameText]) -> Notes:
    """Read a conversation."""
    notes = Notes()
    for message in history:
        heard = understand(message.text)
        if message.is_action:
            notes.price = heard.price or notes.price
            notes.asked.update(heard.topics)
            continue
        notes.brand, notes.type = (heard.brands or (notes.brand,))[-1], (heard.types or (notes.type,))[-1]
        notes.features = heard.features or (() if "no extras" in message.text else notes.features)
        notes.budget = heard.budget or notes.budget
        notes.counters += [heard.price] if heard.price else []
    return notes


def expert(history: Sequence[GameText]) -> str:
    """The message of a seller that asks for brand, type, features and budget, and then offers that car.

    It knows the rule of counter-offers (`bargain`) and computes the limit from the first one.
    """
    notes = take_notes(history)
    missing = [
        topic for topic, is_known in (("brand", notes.brand), ("type", notes.type)) if not is_known and notes.asked[topic] < 2
    ]
    if missing:
        return QUESTIONS["car" if len(missing) == 2 else missing[0]][0]
    if notes.features is None and notes.asked["features"] < 2:
        return QUESTIONS["features"][0]
    if notes.budget is None and notes.asked["budget"] < 2:
        return QUESTIONS["budget"][0]
    car = Car(notes.brand or "Toyota", (notes.type or "sedan",), notes.features or ())
    if not notes.counters:
        return offer(car, _UNKNOWN if notes.budget is None else notes.budget * (100 + _ABOVE) // 100)
    percents = chain(COUNTERS, repeat(COUNTERS[-1]))  # what part of its limit each counter-offer of the scripted buyer is
    limit = max(counter * 100 // percent // 100 * 100 for counter, percent in zip(notes.counters, percents, strict=False))
    if notes.price is not None and notes.price <= limit:
        return hold(notes.price)
    return offer(car, limit, "I have another {} for {}.")


def oracle(profile: Profile, history: Sequence[GameText]) -> str:
    """The message of a seller that knows the buyer: the car that it wants at the most that it pays, and that price again until the buyer gives in.

    It is optimal against the scripted buyer, for both reward functions.
    """
    car = best_car(profile)
    price = car.price or 0
    return offer(car, price) if len(history) == 1 else hold(price)


def offer(car: Car, price: int, pattern: str = "I can offer you {} for {}.", msrp: int | None = None) -> str:
    """An offer in plain English.

    Args:
        car: The car; its amounts are not used.
        price: In dollars.
        pattern: The sentence, with places for the car and the price.
        msrp: In dollars; None does not name it.
    """
    types = sorted(car.types, key=TYPES.index)
    noun = " ".join(filter(None, (car.brand, *types[:-1], noun_of(types[-1]) if types else "car")))
    words = f"{noun} with {listed(with_articles(car.features))}" if car.features else noun
    claim = "" if msrp is None else f" The MSRP is ${msrp:,}."
    return pattern.format(words if "another {}" in pattern else with_article(words), f"${price:,}") + claim


def hold(price: int) -> str:
    """The same price again."""
    return f"My final price is ${price:,}."


@dataclass(frozen=True)
class Style:
    """A kind of seller in the data set.

    Attributes:
        share: Share of the episodes.
        questions: What it asks, in order; each of them with probability `asks`.
        asks: See `questions`.
        talk: Probability of small talk before a question or an offer.
        listens: Probability that it takes a wish into account that it knows of.
        start: First price as a part of the budget that it heard or guesses, lowest and highest.
        msrp: MSRP as a part of the first price, lowest and highest.
        yields: Probability that it goes down after a counter-offer.
        cut: By which part of the price, lowest and highest.
        agrees: Probability that it takes a counter-offer, each time.
    """

    share: float
    questions: tuple[str, ...]
    asks: float
    talk: float
    listens: float
    start: tuple[float, float]
    msrp: tuple[float, float]
    yields: float
    cut: tuple[float, float]
    agrees: float


#: The mixture. As in the paper, sellers differ in discounts, talk of features and length.
STYLES = {
    "attentive": Style(
        share=0.35, questions=("needs", "brand", "type", "features", "budget"), asks=0.9, talk=0.15, listens=0.95,
        start=(1.2, 1.7), msrp=(1.0, 1.1), yields=0.5, cut=(0.02, 0.07), agrees=0.1,
    ),
    "discounts": Style(
        share=0.30, questions=("needs", "brand", "type", "budget"), asks=0.8, talk=0.25, listens=0.8,
        start=(1.15, 1.85), msrp=(1.0, 1.2), yields=0.8, cut=(0.03, 0.08), agrees=0.2,
    ),
    "features": Style(
        share=0.20, questions=("needs", "features", "type", "brand"), asks=0.8, talk=0.35, listens=0.75,
        start=(1.05, 1.75), msrp=(1.0, 1.1), yields=0.0, cut=(0.01, 0.03), agrees=0.05,
    ),
    "concise": Style(
        share=0.15, questions=("brand", "type"), asks=0.6, talk=0.0, listens=0.6,
        start=(1.05, 1.85), msrp=(1.0, 1.05), yields=0.1, cut=(0.02, 0.07), agrees=0.05,
    ),
}  # fmt: skip


class StyledSeller:
    """A seller of the data set in one episode.

    Args:
        read: Gives the history.
        rng: Draws everything that it decides.
    """

    def __init__(self, read: Callable[[], Sequence[GameText]], rng: random.Random) -> None:
        self.style = STYLES[rng.choices(list(STYLES), [style.share for style in STYLES.values()])[0]]
        self._read, self._rng = read, rng
        self._questions = [topic for topic in self.style.questions if rng.random() < self.style.asks]
        self._car: Car | None = None
        self._price = 0

    def __call__(self) -> str:
        """The message for the current state."""
        notes, rng = take_notes(self._read()), self._rng
        if self._car is None and rng.random() < self.style.talk:
            return rng.choice(_SMALL_TALK)
        while self._questions:
            topic = self._questions.pop(0)
            if not (notes.brand if topic == "brand" else notes.type if topic == "type" else False):
                return rng.choice(QUESTIONS[topic])
        if self._car is None or self._is_unsuitable(notes):
            return self._present(notes)
        if notes.counters and rng.random() < self.style.agrees:
            return "Okay, it is a deal."
        if rng.random() < self.style.yields:
            self._price = max(1000, int(self._price * (1 - rng.uniform(*self.style.cut))) // 100 * 100)
            return rng.choice((f"I can go down to ${self._price:,}.", f"For you, ${self._price:,}."))
        return rng.choice((hold(self._price), "The price is firm.", f"It is worth ${self._price:,}."))

    def _is_unsuitable(self, notes: Notes) -> bool:
        """Whether the seller sees that the buyer wants another car than the one on the table."""
        car = self._car or Car()
        is_other = (notes.brand and notes.brand != car.brand) or (notes.type and notes.type not in car.types)
        return bool(is_other) and self._rng.random() < self.style.listens / 2

    def _present(self, notes: Notes) -> str:
        """Offer a car: as wanted where the seller listens, else any."""
        rng, style = self._rng, self.style
        brand = notes.brand if notes.brand and rng.random() < style.listens else rng.choice(BRANDS)
        type_ = notes.type if notes.type and rng.random() < style.listens else rng.choice(TYPES)
        is_heard = notes.features is not None and rng.random() < style.listens
        features = (notes.features or ()) if is_heard else tuple(rng.sample(FEATURES, k=rng.randint(0, 3)))
        budget = notes.budget if notes.budget and rng.random() < style.listens else rng.choice(BUDGETS[1:])
        self._car = Car(brand, (type_,), features)
        self._price = int(budget * rng.uniform(*style.start)) // 100 * 100
        msrp = int(self._price * rng.uniform(*style.msrp)) // 100 * 100 if rng.random() < 0.5 else None
        return offer(
            self._car,
            self._price,
            rng.choice(("I can offer you {} for {}.", "How about {} for {}?", "We have {} at {}.")),
            msrp,
        )
