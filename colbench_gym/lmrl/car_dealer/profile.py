"""The buyer of Car Dealer: who they are, what car they want, and what they can spend."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

# The order of these tuples decides what a seed draws: it is the original's.
PERSONALITIES = (
    "abusive", "angry", "insulting", "polite", "respectful", "rude", "sarcastic", "talkative", "toxic", "uncommunicative",
)  # fmt: skip
BRANDS = (
    "Volkswagen", "Lexus", "Ford", "Mazda", "Hyundai", "Toyota", "Mercedes-Benz", "BMW", "Audi", "Subaru", "Honda", "Porsche", "Tesla",
)  # fmt: skip
TYPES = ("luxury", "sedan", "convertible", "truck", "electric", "SUV")
FEATURES = (
    "backup camera", "navigation system", "heated seats", "leather seats", "third-row seating", "blind spot monitoring", "sunroof",
    "Apple CarPlay",
)  # fmt: skip
BUDGETS = (10_000, 30_000, 50_000, 70_000, 90_000)
#: Budgets that may be given; among these a sale is always worth more than the best rejection.
LEAST_BUDGET, MOST_BUDGET = 10_000, 100_000
#: Types that say what a car is like and not what it is: "a luxury car".
ADJECTIVES = ("luxury", "electric")


@dataclass(frozen=True)
class Profile:
    """A buyer. All of it is hidden from the seller.

    Attributes:
        personality: One of `PERSONALITIES`.
        brand: Preferred brand, one of `BRANDS`.
        type: Preferred type, one of `TYPES`.
        features: Preferred features, some of `FEATURES`.
        budget: In dollars.
    """

    personality: str
    brand: str
    type: str
    features: tuple[str, ...]
    budget: int

    @property
    def in_words(self) -> str:
        """The profile as plain English, for critics and models that play the buyer."""
        return (
            f"The buyer is {self.personality}. They want {with_article(self.brand)} {noun_of(self.type)} with "
            f"{listed(self.features) or 'no extras'}. Their budget is ${self.budget:,}."
        )

    def to_json(self) -> dict[str, Any]:
        """The profile as a JSON object, as `profile_from` reads it."""
        return {**asdict(self), "features": list(self.features)}


def draw_profile(rng: random.Random) -> Profile:
    """Draw a buyer. Every field is uniform; there are 1 to 4 features, each number equally likely. Seeds give the original's buyers."""
    return Profile(
        rng.choice(PERSONALITIES),
        rng.choice(BRANDS),
        rng.choice(TYPES),
        tuple(rng.sample(FEATURES, k=rng.randint(1, 4))),
        rng.choice(BUDGETS),
    )


def profile_from(given: Mapping[str, Any], others: Profile) -> Profile:
    """Read a buyer.

    Args:
        given: Fields of `Profile`.
        others: Where the fields that are missing come from.

    Raises:
        ValueError: If a field is unknown, or has a value that it may not have.
    """
    fields = others.to_json()
    if strange := sorted(set(given) - set(fields)):
        raise ValueError(f"`options['buyer']` may have the fields {tuple(fields)}, got {strange[0]!r}.")
    fields |= given
    for name, known in (("personality", PERSONALITIES), ("brand", BRANDS), ("type", TYPES)):
        if fields[name] not in known:
            raise ValueError(f"`options['buyer'][{name!r}]` must be one of {known}, got {fields[name]!r}.")
    if isinstance(fields["features"], str) or not set(fields["features"]) <= set(FEATURES):
        raise ValueError(f"`options['buyer']['features']` must be some of {FEATURES}, got {fields['features']!r}.")
    if type(fields["budget"]) is not int or not LEAST_BUDGET <= fields["budget"] <= MOST_BUDGET:
        allowed = f"a whole number of dollars from {LEAST_BUDGET:,} to {MOST_BUDGET:,}"
        raise ValueError(f"`options['buyer']['budget']` must be {allowed}, got {fields['budget']!r}.")
    return replace(others, **{**fields, "features": tuple(fields["features"])})


def with_article(words: str) -> str:
    """The words with "a" or "an": "an Audi", "a BMW", "an SUV"."""
    return f"{'an' if words.startswith(('A', 'E', 'I', 'O', 'e', 'i', 'o', 'SUV')) else 'a'} {words}"


def noun_of(type_: str) -> str:
    """A type as a noun: "SUV", "luxury car"."""
    return f"{type_} car" if type_ in ADJECTIVES else type_


def listed(words: Sequence[str]) -> str:
    """The words as an English list: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
