"""Amounts of dollars in plain English, each with what the sentence says that it is: a price, an MSRP, a discount, a budget, or none of these."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from colbench_gym.lmrl.car_dealer.budget import asks_budget, asks_to_pay, is_bare, is_question, is_range, plain_question

Kind = Literal["price", "payable", "bare", "msrp", "discount", "budget", "former", "none"]
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
_PERCENT = re.compile(
    r"(?P<more>\b(?:another|additional|extra|further)\s+)?(?<![\d.,])(?P<number>\d{1,2}(?:\.\d+)?)\s?(?:%|per ?cent\b)"
    r"(?P<off>\s*(?:more |again )?(?:off|discount|less|reduction|rebate|cheaper))?"
)
_PERCENT_OFF = re.compile(r"\b(?:discount of|by|off)\s+$")
_PERCENT_IN_WORDS = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>{'|'.join(_ONES[:9])}))?|(?P<small>{'|'.join(_ONES)}))(?=\s(?:percent|per cent)\b)"
)
#: "Another 20 percent" that is not taken off the price.
_DEMANDED = re.compile(r"\b(?:pay|give (?:me|us)|add(?:ing)?|plus|needs?|wants?|costs?|charge|raise|up by)\b[^,;.?!]*$")
_OF_ELSE = re.compile(r"\s*(?:more|higher|up\b|on top|interest|tax|fees?|deposit|down\b|of\b(?! (?:the|that) price))")
_JUST = r"(?:\W*\b(?:is|are|was|says|of|at|for|only|just|about|around|roughly|goes|sells|costs?|being|priced|sits|stands|comes|to|would|be|set|another|an|extra|up|you)\b)*\W*$"
_LABELS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("none", re.compile(r"\b(?:deposit|down payment|fees?|trade-?in|warranty|insurance|mileage|tax(?:es)?|financing|interest|payments?)" + _JUST)),
    ("none", re.compile(r"\b(?:you (?:said|mentioned|offered|proposed|suggested|named)|your (?:offer|counter|counter-?offer|number|figure|bid))" + _JUST)),
    ("former", re.compile(r"\b(?:down from|reduced from|dropped from|instead of|rather than|not)(?: the)?\s*$")),
    ("msrp", re.compile(r"\b(?:msrp|m\.s\.r\.p\.?|list(?:ed|s)?(?: price)?|sticker(?: price)?|retails?(?: price| value)?|window price|suggested(?: retail)? price"
                        r"|normal(?:ly)?(?: price)?|usual(?:ly)?(?: price)?|original(?:ly)?(?: price)?|regular(?:ly)?(?: price)?|full price|was"
                        r"|(?:msrp|list price|sticker price|retail price) (?:of|on|for)(?: [\w-]+){1,6} is)" + _JUST)),
    ("none", re.compile(r"\b(?:pay|give (?:me|us)|add|plus|need|want|costs?|charge)(?: you| me| us)? (?:another|an (?:additional|extra)|a further)\s*$")),
    ("discount", re.compile(r"(?:^\W*(?:(?:and|then|ok|okay|all right|fine)\b\W*)*|\bgive you )(?:another|an (?:additional|extra)|a further)\s*$")),
    ("discount", re.compile(r"\b(?:discount|rebate|reduction|sav(?:e|es|ing|ings)|knock(?: off)?|take off|by|cut|subtract|deduct)" + _JUST)),
    ("budget", re.compile(r"\b(?:budget|price range|spend|afford)\b(?:\W*\b(?:limit|is|of|was|around|about|roughly|near|up|to|under|at most|more|less|than|only"
                          r"|between|something|like|you|have|mentioned|said|over|above|below|beneath|at least|exactly|maybe|a|the)\b)*\W*$")),
)  # fmt: skip
_AFTER: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("none", re.compile(r"\s*(?:a|per|each|every|/)\s?(?:month|mo\b|week|year)|\s*monthly|\s*(?:miles|mi\b|km\b|kilomet)|\s*(?:down\b(?! to)|deposit|fee\b|mpg|hp\b|horse|(?:for|as) (?:a|the|your) (?:down payment|deposit))")),
    ("msrp", re.compile(r"\s*(?:msrp|list price|sticker|retail)")),
    ("discount", re.compile(r"\s*(?:off\b|discount|rebate|cheaper|reduction|less\b|in savings)")),
    ("budget", re.compile(r"\s*(?:budget|price range|range|(?:(?:in cash|cash|available|left|ready|or (?:so|more|less)) )?to spend)\b")),
)  # fmt: skip
_NOT = re.compile(r"(?:\bnot?\b|n't\b|\bcannot\b|\bnever\b|\bwithout\b|\bnor\b)[^,;]*$")
#: How far around an amount the words that say what it is may stand, in characters.
_NEAR = 80
_LIMIT = re.compile(r"\b(?:below|under|lower|less|cheaper|beneath|beat)\b[^,;]*$")


@dataclass(frozen=True)
class Amount:
    """An amount of dollars.

    Attributes:
        kind: What it is. "payable": what the other side is asked whether they can pay. "bare": a question that is only this amount. "former": a
            price that no longer holds. "none": nothing that a price can be read from.
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
    is_asking = is_question(sentence)
    sentence = plain_question(sentence) if is_asking else sentence
    read: list[Amount] = []
    end = 0
    for match in _AMOUNT.finditer(sentence):
        number, unit = match["number"].replace(",", ""), match["unit"] or ""
        dollars = round(float(number) * (1000 if unit in ("k", "thousand", "grand") else 1))
        is_bare = not match["sign"] and not unit
        if is_bare and dollars < (LEAST_BARE if "," in match["number"] else 5 * LEAST_BARE):
            continue
        before, after = sentence[max(0, match.start() - _NEAR) : match.start()], sentence[match.end() : match.end() + _NEAR]
        kind = _kind(before, after)
        if kind == "price" and read and read[-1].kind == "budget" and is_range(sentence[end : match.start()]):
            kind = "budget"
        if kind == "price" and is_asking:
            kind = _asked_kind(before, after)
        if kind in ("price", "payable", "bare") and dollars < LEAST_PRICE:
            kind = "none"
        read.append(Amount(kind, dollars))
        end = match.end()
    return read


def percent_off(text: str) -> float | None:
    """Percent that a text in lower case takes off a price: the first that it names, and every "another 10 percent" of what is left."""
    text = _PERCENT_IN_WORDS.sub(_number, text)
    left = None
    for match in _PERCENT.finditer(text):
        before, after = text[max(0, match.start() - _NEAR) : match.start()], text[match.end() : match.end() + _NEAR]
        is_off = match["off"] is not None or _PERCENT_OFF.search(before) is not None
        is_more = match["more"] is not None and (is_off or not (_DEMANDED.search(before) or _OF_ELSE.match(after)))
        if is_more or (is_off and left is None):
            left = (100.0 if left is None else left) * (100 - float(match["number"])) / 100
    return None if left is None else 100 - left


def _asked_kind(before: str, after: str) -> Kind:
    """What an amount in a question is that nothing else says to be no price."""
    if asks_budget(before, after):
        return "budget"
    if asks_to_pay(before, after):
        return "payable"
    return "bare" if is_bare(before, after) else "price"


def _kind(before: str, after: str) -> Kind:
    for kind, pattern in _AFTER:
        if pattern.match(after):
            return kind
    for kind, pattern in _LABELS:
        if pattern.search(before):
            return kind
    return "none" if _NOT.search(before) and not _LIMIT.search(before) else "price"


def _number(match: re.Match[str]) -> str:
    """A number below 100 in words as digits."""
    return str(sum(_WORDS[match[part]] for part in ("tens", "ones", "small") if match[part]))


def _digits(match: re.Match[str]) -> str:
    """An amount in words as "$42500"; unchanged if it has no number ("42 thousand")."""
    thousands = (100 if match["hundred"] else 0) + sum(_WORDS[match[part]] for part in ("tens", "ones", "small") if match[part])
    hundreds = _WORDS[match["more"]] if match["more"] else 0
    return f"${1000 * thousands + 100 * hundreds}" if thousands else match[0]
