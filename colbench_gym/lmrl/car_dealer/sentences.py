"""What the scripted buyer says: its moves in short plain sentences, now and then with its temper in front."""

from __future__ import annotations

import random
from collections.abc import Sequence

from colbench_gym.lmrl.car_dealer.bargain import Move
from colbench_gym.lmrl.car_dealer.profile import Profile, listed, noun_of, with_article

#: What a personality sometimes says first.
TEMPERS = {
    "abusive": ("Shut up and listen.", "You waste my time."),
    "angry": ("I am fed up.", "Be quick!"),
    "insulting": ("You are clueless.", "Even a child knows more."),
    "polite": ("Thank you.", "That is kind."),
    "respectful": ("I appreciate your time.", "With respect."),
    "rude": ("Whatever.", "Get on with it."),
    "sarcastic": ("Oh, how charming.", "What a surprise."),
    "talkative": ("My cousin said this was the place to go.", "It is such a lovely day."),
    "toxic": ("You people are all crooks.", "Typical."),
    "uncommunicative": ("Hm.", "Well."),
}
#: Articles of features; the others have none.
_WITH_ARTICLE = ("backup camera", "navigation system", "sunroof")
_PLAIN = {
    "decline": ("My budget is my business.", "I will not tell you my budget."),
    "which": ("Which car is that?", "What car are you talking about?"),
    "how much": ("How much is it?", "What does it cost?"),
    "over msrp": ("I will not pay more than the MSRP.", "That is above the MSRP."),
    "reject": ("No deal. I am leaving.", "No, thanks. I am going elsewhere."),
    "chat": ("What can you offer?", "What do you have for me?"),
}  # fmt: skip


def say(move: Move, profile: Profile, rng: random.Random) -> str:
    """A move as one line.

    Args:
        move: The move.
        profile: Who makes it.
        rng: Draws the wording.
    """
    temper = rng.choice(TEMPERS[profile.personality]) if rng.random() < 0.5 else ""
    return " ".join(filter(None, (temper, _words(move, profile, rng)))) + "\n"


def _words(move: Move, profile: Profile, rng: random.Random) -> str:
    if move.act == "answer":
        return wishes(move.topics, profile, "want")
    if move.act == "unsuitable":
        return f"No. {wishes(move.topics, profile, 'want')}"
    if move.act == "counter":
        offer = rng.choice(("Too much. I offer ${:,}.", "Make it ${:,}.")).format(move.amount)
        return " ".join(filter(None, (wishes(move.topics, profile, "wanted"), offer)))
    if move.act == "accept":
        return rng.choice(("Fine, I take it for ${:,}.", "Deal. I buy it for ${:,}.")).format(move.amount)
    return rng.choice(_PLAIN[move.act])


def with_articles(features: Sequence[str]) -> list[str]:
    """Features as a sentence names them: "a sunroof", "heated seats"."""
    return [with_article(feature) if feature in _WITH_ARTICLE else feature for feature in features]


def wishes(topics: tuple[str, ...], profile: Profile, verb: str) -> str:
    """What the buyer wants, in a sentence or two.

    Args:
        topics: Some of "brand", "type", "features" and "budget".
        profile: The buyer.
        verb: "want" or "wanted".
    """
    brand, type_ = profile.brand if "brand" in topics else "", noun_of(profile.type) if "type" in topics else ""
    extras = (listed(with_articles(profile.features)) or "no extras") if "features" in topics else ""
    car = with_article(" ".join(filter(None, (brand, type_)))) if brand or type_ else ""
    wish = " with ".join(filter(None, (car, extras)))
    budget = f"My budget is ${profile.budget:,}." if "budget" in topics else ""
    return " ".join(filter(None, (f"I {verb} {wish}." if wish else "", budget)))
