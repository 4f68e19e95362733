"""The decision that ends an episode of Car Dealer: the protocol's line, and the two reward functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from colbench_gym.lmrl.car_dealer.profile import Profile

Reward = Literal["fancy", "revenue"]
#: Names of the reward functions.
REWARDS: tuple[Reward, ...] = get_args(Reward)
#: The line of the protocol, as the original reads it: no other spelling counts, and an MSRP that starts with 0 does not.
EXACT = re.compile(r"Output: Decision=(Accept|Reject) MSRP=\$([1-9][0-9,]*)(?: Buy Price=\$([0-9][0-9,]*))?")
_MONEY = r"\s*(?:is|of)?\s*[=:]?\s*\$?\s*([0-9][0-9,]*(?:\.[0-9]+)?)\s*(k\b|thousand\b)?"
_LOOSE = {
    "decision": re.compile(r"(?:output\s*:\s*)?decision\s*[=:]\s*\W?(accept|reject)(?:ed)?\b", re.IGNORECASE),
    "msrp": re.compile(r"\bmsrp" + _MONEY, re.IGNORECASE),
    "price": re.compile(r"\b(?:buy\s+)?price" + _MONEY, re.IGNORECASE),
}


@dataclass(frozen=True)
class Decision:
    """What the buyer decided.

    Attributes:
        is_accepted: Whether they buy the car.
        msrp: The manufacturer's suggested retail price in dollars; None if nobody named a price.
        price: What they pay, in dollars; None if they do not buy, or the price is not known.
    """

    is_accepted: bool
    msrp: int | None
    price: int | None = None

    @property
    def line(self) -> str:
        """The line of the protocol. Without an MSRP the original cannot read it."""
        parts = [f"Output: Decision={'Accept' if self.is_accepted else 'Reject'}"]
        parts += [] if self.msrp is None else [f"MSRP=${self.msrp:,}"]
        parts += [] if self.price is None else [f"Buy Price=${self.price:,}"]
        return " ".join(parts)


def read_exactly(text: str) -> tuple[Decision | None, str]:
    """Find the protocol's line as the original does.

    Returns:
        The first decision, None if there is none; and the text without the line.
    """
    match = EXACT.search(text)
    if match is None:
        return None, text
    is_accepted = match[1] == "Accept"
    price = int(match[3].replace(",", "")) if is_accepted and match[3] else None
    return Decision(is_accepted, int(match[2].replace(",", "")), price), text[: match.start()] + text[match.end() :]


def read_loosely(text: str) -> tuple[Decision | None, str]:
    """Find a decision in a model's words: any case and order, with or without dollar signs, "42.5k", or without the amounts.

    Returns:
        The decision, None if there is none; and the text before it.
    """
    match = _LOOSE["decision"].search(text)
    if match is None:
        return None, text
    is_accepted, rest = match[1].lower() == "accept", text[match.end() :]
    price = _dollars(_LOOSE["price"].search(rest)) if is_accepted else None
    return Decision(is_accepted, _dollars(_LOOSE["msrp"].search(rest)), price), text[: match.start()]


def _dollars(match: re.Match[str] | None) -> int | None:
    """An amount of `_MONEY`; None if it is missing or 0."""
    if match is None:
        return None
    return round(float(match[1].replace(",", "")) * (1000 if match[2] else 1)) or None


def reward_of(profile: Profile, decision: Decision, kind: Reward) -> float:
    """The reward of a decision, the original's functions.

    "fancy": the price over the mean of budget and MSRP if the car is bought, else (MSRP - budget) / MSRP. "revenue": the price in thousands
    of dollars. Without the MSRP or the price that a function needs, it is 0.

    Args:
        profile: The buyer.
        decision: What they decided.
        kind: Name of the function.
    """
    if kind == "revenue":
        return decision.price / 1000 if decision.is_accepted and decision.price is not None else 0.0
    if not decision.msrp:
        return 0.0
    if not decision.is_accepted:
        return (decision.msrp - profile.budget) / decision.msrp
    return decision.price / ((profile.budget + decision.msrp) * 0.5) if decision.price is not None else 0.0
