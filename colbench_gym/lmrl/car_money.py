"""Amounts of dollars in plain English, each with what the sentence says that it is: a price, an MSRP, a discount, a budget, or none of these."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["price", "msrp", "discount", "budget", "former", "none"]
#: Smallest price of a car, and smallest bare number ("42,000") that is an amount of dollars.
LEAST_PRICE, LEAST_BARE = 500, 1_000
_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen",
         "sixteen", "seventeen", "eighteen", "nineteen")  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {word: i for i, word in enumerate(_ONES, 1)} | {word: 10 * i for i, word in enumerate(_TENS, 2)}
_IN_WORDS = re.compile(
    rf"\b(?:(?P<hundred>a|one) hundred(?: and)?\s*)?(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>{'|'.join(_ONES[:9])}))?"
    rf"|(?P<small>{'|'.join(sorted(_ONES, key=len, reverse=True))}))?\s*\b(?:thousand|grand|k)\b(?:,?\s*(?:and )?(?P<more>{'|'.join(_ONES[:9])}) hundred\b)?"
)
_AMOUNT = re.compile(
    r"(?<![\w.,-])(?P<sign>(?:us)?\$\s?)?(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"\s?(?P<unit>k\b|thousand\b|grand\b|dollars?\b|bucks\b|usd\b)?(?:\s?dollars?\b)?(?![\w%]|-(?:door|seat|speed|inch|cyl))"
)
PERCENT = re.compile(
    r"(\d{1,2}(?:\.\d+)?)\s?(?:%|percent\b)\s*(?:off|discount|less|reduction|rebate|cheaper)|(?:discount of|by|off)\s+(\d{1,2})\s?(?:%|percent\b)"
)
_JUST = r"(?:\W*\b(?:is|are|was|says|of|at|for|only|just|about|around|roughly|goes|sells|costs?|being|priced|sits|stands|comes|to|would|be|set|another|an|extra|up|you)\b)*\W*$"
_LABELS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("none", re.compile(r"\b(?:deposit|down payment|fees?|trade-?in|warranty|insurance|mileage|tax(?:es)?|financing|interest|payments?)" + _JUST)),
    ("none", re.compile(r"\b(?:you (?:said|mentioned|offered|proposed|suggested|named)|your (?:offer|counter|counter-?offer|number|figure|bid))" + _JUST)),
    ("former", re.compile(r"\b(?:down from|reduced from|dropped from|instead of|rather than|not)(?: the)?\s*$")),
    ("msrp", re.compile(r"\b(?:msrp|m\.s\.r\.p\.?|list(?:ed|s)?(?: price)?|sticker(?: price)?|retails?(?: price| value)?|window price|suggested(?: retail)? price"
                        r"|normal(?:ly)?(?: price)?|usual(?:ly)?(?: price)?|original(?:ly)?(?: price)?|regular(?:ly)?(?: price)?|full price|was"
                        r"|(?:msrp|list price|sticker price|retail price) (?:of|on|for)(?: [\w-]+){1,6} is)" + _JUST)),
    ("discount", re.compile(r"\b(?:discount|rebate|reduction|sav(?:e|es|ing|ings)|knock(?: off)?|take off|by|cut|subtract|deduct)" + _JUST)),
    ("budget", re.compile(r"\b(?:budget|price range|spend|afford)\b(?:\W*\b(?:limit|is|of|was|around|about|roughly|near|up|to|under|at most|more|less|than|only"
                          r"|between|something|like|you|have|mentioned|said|over|above|maybe|a|the)\b)*\W*$")),
)  # fmt: skip
_AFTER: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("none", re.compile(r"\s*(?:a|per|each|every|/)\s?(?:month|mo\b|week|year)|\s*monthly|\s*(?:miles|mi\b|km\b|kilomet)|\s*(?:down\b(?! to)|deposit|fee\b|mpg|hp\b|horse)")),
    ("msrp", re.compile(r"\s*(?:msrp|list price|sticker|retail)")),
    ("discount", re.compile(r"\s*(?:off\b|discount|rebate|cheaper|reduction|less\b|in savings)")),
    ("budget", re.compile(r"\s*(?:budget|price range|range)")),
)  # fmt: skip
_NOT = re.compile(r"(?:\bnot?\b|n't\b|\bcannot\b|\bnever\b|\bwithout\b|\bnor\b)[^,;]*$")
#: How far around an amount the words that say what it is may stand, in characters.
_NEAR = 80
_LIMIT = re.compile(r"\b(?:below|under|lower|less|cheaper|beneath|beat)\b[^,;]*$")


@dataclass(frozen=True)
class Amount:
    """An amount of dollars.

    Attributes:
        kind: What it is. "former": a price that no longer holds. "none": nothing that a price can be read from.
        dollars: The amount.
    """

    kind: Kind
    dollars: int


def amounts(sentence: str) -> list[Amount]:
    """Amounts of a sentence in lower case, in order.

    An amount has a dollar sign, a unit ("42k", "42 thousand", "forty-two grand", "42000 dollars"), or is a bare number from `LEAST_BARE`
    with a comma, or from five times that without one, so that model years are none.
    """
    sentence = _IN_WORDS.sub(_digits, sentence)
    found = []
    for match in _AMOUNT.finditer(sentence):
        number, unit = match["number"].replace(",", ""), match["unit"] or ""
        dollars = round(float(number) * (1000 if unit in ("k", "thousand", "grand") else 1))
        is_bare = not match["sign"] and not unit
        if is_bare and dollars < (LEAST_BARE if "," in match["number"] else 5 * LEAST_BARE):
            continue
        kind = _kind(sentence[max(0, match.start() - _NEAR) : match.start()], sentence[match.end() : match.end() + _NEAR])
        if kind == "price" and dollars < LEAST_PRICE:
            kind = "none"
        found.append(Amount(kind, dollars))
    return found


def _kind(before: str, after: str) -> Kind:
    for kind, pattern in _AFTER:
        if pattern.match(after):
            return kind
    for kind, pattern in _LABELS:
        if pattern.search(before):
            return kind
    return "none" if _NOT.search(before) and not _LIMIT.search(before) else "price"


def _digits(match: re.Match[str]) -> str:
    """An amount in words as "$42500"; unchanged if it has no number ("42 thousand")."""
    thousands = (100 if match["hundred"] else 0) + sum(_WORDS[match[part]] for part in ("tens", "ones", "small") if match[part])
    hundreds = _WORDS[match["more"]] if match["more"] else 0
    return f"${1000 * thousands + 100 * hundreds}" if thousands else match[0]
