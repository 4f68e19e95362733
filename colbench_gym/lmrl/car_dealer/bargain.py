"""How the scripted buyer bargains: rules on what a message says, without a word of English.

**What a car is worth.** A buyer pays at most the *limit* of a car: budget x (1 + stretch) x fit, rounded down to $100. The fit is 1 minus 0.25 for
another (or no) brand, 0.25 for another (or no) type, 0.2 x the share of wanted features that it lacks, and 0.03 for each feature that was not
wanted. A car of another brand and another type has limit 0. Nobody pays more than the MSRP.

**Offers.** A buyer names counter-offers of 80, 90, 95, 95, ... percent of the limit. It accepts a price that is at most its next counter-offer; and,
after its personality's number of counter-offers, any price up to the limit.

**Patience.** Answers to new questions are free. Any other message costs 1: small talk, questions that were answered before, refused offers, an unsuitable car.
When the patience of its personality is used up, or the last turn has come, the buyer decides: it accepts if the last price is at most the limit.

**Questions.** An amount in a question about the budget ("Is it below 40k?") is no offer. "Could you pay 40k?" and the like are offers of the car that is on
the table; they are about the budget as long as no car was offered. So is "40k?" right after a question about the budget, as long as there is no price.

**MSRP.** The first that the seller names for a car, else the first price for it, within `LEAST_MSRP` and `MOST_MSRP`, beyond which nobody believes it.

So the best return is known: the wanted car at its limit, without another MSRP, until the buyer gives in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from colbench_gym.lmrl.car_dealer.decision import Decision
from colbench_gym.lmrl.car_dealer.profile import Profile
from colbench_gym.lmrl.car_dealer.talk import Heard

#: What the buyer does next.
Act = Literal["answer", "decline", "which", "unsuitable", "how much", "counter", "over msrp", "accept", "reject", "chat"]
#: Counter-offers in percent of the limit; the last is repeated.
COUNTERS = (80, 90, 95)
LEAST_MSRP, MOST_MSRP = 5_000, 150_000
#: What takes how many percent from the fit of a car.
OTHER_BRAND, OTHER_TYPE, MISSING, UNWANTED = 25, 25, 20, 3


@dataclass(frozen=True)
class Traits:
    """What a personality does.

    Attributes:
        stretch: By how many percent of the budget it goes over the budget.
        counters: Counter-offers before it pays its limit.
        patience: Messages that bring nothing until it decides.
        tells_budget: At which question for the budget it answers; 0 for never.
        volunteers: Topics that it tells when asked what it needs.
        answers: Largest number of topics in one reply.
    """

    stretch: int
    counters: int
    patience: int
    tells_budget: int
    volunteers: tuple[str, ...]
    answers: int


TRAITS = {
    "abusive": Traits(-5, 3, 6, 0, ("type",), 2),
    "angry": Traits(0, 2, 6, 2, ("brand", "type"), 2),
    "insulting": Traits(0, 2, 7, 2, ("brand", "type"), 2),
    "polite": Traits(10, 1, 10, 1, ("brand", "type"), 2),
    "respectful": Traits(10, 1, 11, 1, ("brand", "type"), 2),
    "rude": Traits(0, 2, 6, 2, ("type",), 2),
    "sarcastic": Traits(5, 2, 8, 2, ("brand",), 2),
    "talkative": Traits(15, 1, 12, 1, ("brand", "type", "features"), 4),
    "toxic": Traits(-5, 3, 6, 0, ("brand",), 2),
    "uncommunicative": Traits(5, 2, 7, 1, ("type",), 1),
}


@dataclass(frozen=True)
class Car:
    """The car on the table, as the seller described it.

    Attributes:
        brand: Brand; "" if none was named.
        types: Types.
        features: Features.
        msrp: MSRP as claimed, or the first price; None without one.
        price: The seller's last price.
    """

    brand: str = ""
    types: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    msrp: int | None = None
    price: int | None = None


@dataclass(frozen=True)
class Move:
    """A move of the buyer.

    Attributes:
        act: What it does.
        topics: What it tells.
        amount: The counter-offer, or the price of the car, in dollars.
        decision: The decision that ends the episode; None while it bargains.
    """

    act: Act
    topics: tuple[str, ...] = ()
    amount: int | None = None
    decision: Decision | None = None


def limit_of(profile: Profile, car: Car) -> int:
    """The most that a buyer pays for a car, in dollars; 0 for one that does not interest them. Says nothing of the MSRP."""
    is_brand, is_type = car.brand == profile.brand, profile.type in car.types
    if not (is_brand or is_type):
        return 0
    wanted, given = set(profile.features), set(car.features)
    percent = 100 - OTHER_BRAND * (not is_brand) - OTHER_TYPE * (not is_type) - UNWANTED * len(given - wanted)
    each = max(1, len(wanted))
    fit = max(0, percent * each - MISSING * len(wanted - given))  # in percent, times `each`, so that all numbers are whole
    return profile.budget * (100 + TRAITS[profile.personality].stretch) * fit // (10_000 * each * 100) * 100


def best_car(profile: Profile) -> Car:
    """The car that a buyer wants, at the most that they pay for it."""
    car = Car(profile.brand, (profile.type,), profile.features)
    return replace(car, price=limit_of(profile, car), msrp=limit_of(profile, car))


@dataclass
class Bargain:
    """The state of mind of a buyer; `hear` every message of the seller in turn.

    Attributes:
        profile: The buyer.
        car: The car on the table.
        revealed: Topics that the buyer has revealed.
        budget_questions: How often the seller asked for the budget.
        is_offered: Whether the seller has named a car other than in a question.
        was_budget_asked: Whether the last message asked for the budget.
        counters: Number of counter-offers so far.
        counter: The last counter-offer, if the seller has not yet replied to it with a price.
        patience: What is left of it.
        decision: The decision, once there is one.
    """

    profile: Profile
    car: Car = field(default_factory=Car)
    revealed: list[str] = field(default_factory=list)
    budget_questions: int = 0
    is_offered: bool = False
    was_budget_asked: bool = False
    counters: int = 0
    counter: int | None = None
    patience: int = field(init=False)
    decision: Decision | None = None

    def __post_init__(self) -> None:
        self.patience = self.traits.patience

    @property
    def traits(self) -> Traits:
        """What the buyer's personality does."""
        return TRAITS[self.profile.personality]

    def hear(self, heard: Heard) -> Move:
        """React to a message of the seller. A decision stands whatever follows."""
        if self.decision is not None:
            return self.decide()
        heard = self._in_context(heard)
        is_choice = len(heard.brands) > 1 or len(heard.types) > 2
        had_price = self.car.price
        if not is_choice:
            self._look(heard)
        if heard.agrees and heard.price is None and self.counter is not None:
            self.car = replace(self.car, price=self.counter)
            return self._end(True)
        has_offer = not is_choice and (
            heard.price is not None or self.car.price != had_price or (heard.holds and had_price is not None)
        )
        move = self._weigh() if has_offer and self.car.price is not None else self._reply(heard, is_choice)
        return self.decide() if move.decision is None and self.patience <= 0 else move

    def decide(self) -> Move:
        """Decide now: accept if the last price is at most the limit."""
        if self.decision is None:
            most = min(limit_of(self.profile, self.car), self.car.msrp or MOST_MSRP)
            return self._end(self.car.price is not None and self.car.price <= most)
        return Move("accept" if self.decision.is_accepted else "reject", amount=self.decision.price, decision=self.decision)

    def _in_context(self, heard: Heard) -> Heard:
        """The message, in which a question with an amount ("Could you pay $30,000?") is about the budget if there is no car to pay for."""
        self.is_offered |= any(
            names and topic not in heard.topics for topic, names in (("brand", heard.brands), ("type", heard.types))
        )
        is_about_budget = self.car.price is None and (
            (heard.price_as == "payable" and not self.is_offered) or (heard.price_as != "offer" and self.was_budget_asked)
        )
        if is_about_budget:
            heard = replace(heard, price=None, price_as="offer", budget=heard.price, topics=(*heard.topics, "budget"))
        self.was_budget_asked = "budget" in heard.topics
        return heard

    def _end(self, is_accepted: bool) -> Move:
        self.decision = Decision(is_accepted, self.car.msrp, self.car.price if is_accepted else None)
        return self.decide()

    def _look(self, heard: Heard) -> None:
        """Put what the message says of a car on the table: the same car, or another one."""
        car, brand, types, features = self.car, "".join(heard.brands), heard.types, heard.features
        if heard.is_as_wanted and (heard.price is not None or not heard.topics):
            brand = brand or (self.profile.brand if "brand" in self.revealed else "")
            types = types or ((self.profile.type,) if "type" in self.revealed else ())
            features = tuple({*features, *(self.profile.features if "features" in self.revealed else ())})
        is_new = (brand and car.brand and brand != car.brand) or (types and car.types and not set(types) & set(car.types))
        if is_new or (heard.is_another and (brand or types or heard.price is not None)):
            car = Car(brand or car.brand, types or car.types)
            self.counter = None
        merged = {*car.types, *types}, ({*car.features, *features} - set(heard.without))
        price = self._price(car, heard)
        msrp = car.msrp or heard.msrp or price
        believed = None if msrp is None else min(max(msrp, LEAST_MSRP), MOST_MSRP)
        self.car = Car(brand or car.brand, tuple(sorted(merged[0])), tuple(sorted(merged[1])), believed, price)
        if heard.price is not None:
            self.counter = None

    def _price(self, car: Car, heard: Heard) -> int | None:
        """The seller's price after a message: as named, else the last price or the MSRP, minus the discount."""
        base = car.price or heard.msrp or car.msrp
        if heard.price is not None or base is None:
            return heard.price
        if heard.discount is None and heard.percent is None:
            return base
        return max(1, round(base * (1 - (heard.percent or 0) / 100)) - (heard.discount or 0))

    def _weigh(self) -> Move:
        """React to a price."""
        price, limit = self.car.price or 0, limit_of(self.profile, self.car)
        if not (self.car.brand or self.car.types):
            return self._lose(Move("which"))
        if limit == 0:
            return self._lose(self._unsuitable())
        if price > (self.car.msrp or price):
            return self._lose(Move("over msrp"))
        counter = limit * COUNTERS[min(self.counters, len(COUNTERS) - 1)] // 10_000 * 100
        if price <= counter or (price <= limit and self.counters >= self.traits.counters):
            return self._end(True)
        self.counters, self.counter = self.counters + 1, min(counter, self.car.msrp or counter)
        return self._lose(Move("counter", self._tell(self._flaws()[:1]), self.counter))

    def _reply(self, heard: Heard, is_choice: bool) -> Move:
        """React to a message without a price."""
        topics = self._asked(heard, is_choice)
        if topics == ("budget",) and not self._tells_budget():
            return Move("decline") if self.budget_questions <= 2 else self._lose(Move("decline"))
        if topics:
            topics = tuple(topic for topic in topics if topic != "budget" or self._tells_budget())[: self.traits.answers]
            is_new = not set(topics) <= set(self.revealed)
            move = Move("answer", self._tell(topics))
            return move if is_new else self._lose(move)
        if not (heard.brands or heard.types or heard.features or heard.without or heard.is_as_wanted):
            return self._lose(Move("chat"))
        return self._lose(self._unsuitable() if limit_of(self.profile, self.car) == 0 else Move("how much"))

    def _asked(self, heard: Heard, is_choice: bool) -> tuple[str, ...]:
        """What the seller wants to know, most wanted first; a choice of many brands or types is a question for them."""
        topics = dict.fromkeys(heard.topics)
        if is_choice:
            topics |= dict.fromkeys(["brand"] * (len(heard.brands) > 1) + ["type"] * (len(heard.types) > 2))
        if "needs" in topics:
            new = [topic for topic in ("brand", "type", "features") if topic not in self.revealed]
            topics = dict.fromkeys([topic for topic in self.traits.volunteers if topic in new] or new[:1] or ["brand", "type"])
        self.budget_questions += "budget" in topics
        return tuple(
            sorted(topics, key=lambda topic: topic in self.revealed)
        )  # stable: of the new ones, the first that was asked

    def _tells_budget(self) -> bool:
        return 0 < self.traits.tells_budget <= self.budget_questions

    def _unsuitable(self) -> Move:
        return Move("unsuitable", self._tell(self._flaws()[:1]))

    def _flaws(self) -> tuple[str, ...]:
        """Topics in which the car on the table is not what the buyer wants; first those that it has not revealed."""
        wanted, car = self.profile, self.car
        is_wrong = {
            "brand": car.brand != wanted.brand,
            "type": wanted.type not in car.types,
            "features": not set(wanted.features) <= set(car.features),
        }
        return tuple(sorted((topic for topic in is_wrong if is_wrong[topic]), key=lambda topic: topic in self.revealed))

    def _tell(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """The topics, which the buyer has now revealed."""
        self.revealed += [topic for topic in topics if topic not in self.revealed]
        return topics

    def _lose(self, move: Move) -> Move:
        """The move, which costs patience."""
        self.patience -= 1
        return move
