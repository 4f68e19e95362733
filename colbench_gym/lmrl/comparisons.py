"""Questions that compare a measure with a number or with another thing: "more than five million people", "bigger than a car", "north of Rome"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from colbench_gym.lmrl.secret_table import SecretTable, Truths, plain

_DIGITS = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
}
_TENS = {
    word: 10 * number
    for number, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
_SMALL = {**_DIGITS, **_TENS, "a": 1, "an": 1, "half a": 0.5, "a few": 3, "a couple of": 2}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "mil": 1e6, "m": 1e6, "billion": 1e9}
_SCALE = r"(?:hundred|thousand|million|billion|mil)"
_SINGLE = r"(?:met(?:er|re)|foot|inch|yard|mile|kilomet(?:er|re)|pound|kilo|kilogram|ton|gram|dollar|century)"
_NUMBER = re.compile(
    rf"(?<!\w)(?:(?P<digits>\d[\d,]*(?:\.\d+)?)|(?P<word>half a|a few|a couple of|(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(_DIGITS)}))?|"
    rf"{'|'.join(_DIGITS)}|an?(?= (?:{_SCALE}|{_SINGLE})\b)))(?P<scales>(?:[km]\b)?(?: ?{_SCALE}\b)*)"
)
_UP = r"more|over|above|greater|at least|exceed\w*|higher|big(?:ger)?|larger?|longer|taller|heavier|wider|huger|upwards|beyond|populous|popular|minimum"
_DOWN = r"less|under|below|fewer|smaller|lower|shorter|lighter|tinier|thinner|at most|up to|maximum|within|cheaper"
_OF_THAN = r"(?:\w+ ){0,4}(?:than|to|as|of)"
#: The current year, for ages; that of the table.
YEAR = 2024
#: How much larger or smaller something may be that is "as big as" or "the size of" something else, as a factor.
ALIKE = 2.0


@dataclass(frozen=True)
class Measure:
    """How a measure is asked about.

    Attributes:
        name: Its name in the table.
        topic: Pattern of words that ask for it.
        units: Factors of units by their patterns, "" for none.
        up: Further pattern that means more of it.
        down: Further pattern that means less of it.
    """

    name: str
    topic: str
    units: Mapping[str, float]
    up: str = r"(?!)"
    down: str = r"(?!)"


_LENGTHS = {r"mm|millimet\w+": 0.1, r"cm|centimet\w+": 1, r"inch(?:es)?": 2.54, r"feet|foot|ft": 30.48, r"yards?": 91.4}
MEASURES: Mapping[str, tuple[Measure, ...]] = {
    "object": (
        Measure("usd", r"cost|price|dollars?|\$|bucks|expensive|cheap\w*|pay", {r"": 1}, r"more expensive", r"less expensive|cheaper"),
        Measure("kg", r"weigh\w*|heav\w*|light\w*|pounds?|lbs?|kilos?|kg|kilograms?|tons?|grams?", {
            r"pounds?|lbs?": 0.4536, r"kilos?|kgs?|kilograms?": 1, r"tons?|tonnes?": 1000, r"grams?": 0.001, r"ounces?|oz": 0.0283, "": 0.4536,
        }),
        Measure("cm", r"", {**_LENGTHS, r"m|met(?:er|re)s?": 100, r"km|kilomet\w+": 1e5, r"miles?": 1.6e5}),
    ),
    "city": (
        Measure("founded", r"found\w*|establish\w*|built|years? old|years? ago|centur\w+|older|younger|newer|age|created|exist\w*", {"": 1},
                r"after|younger|newer|since", r"before|older|prior"),
        Measure("latitude", r"north\w*|south\w*|latitude|parallel", {r"(?:degrees?|°)?": 1}, r"north\w*", r"south\w*"),
        Measure("longitude", r"east\w*|west\w*|longitude", {r"(?:degrees?|°)?": 1}, r"east\w*", r"west\w*"),
        Measure("altitude", r"met(?:er|re)s?|feet|ft|altitude|elevat\w+|sea level|high|higher|[\d,]+ ?m", {r"feet|ft|foot": 0.3048, "": 1}),
        Measure("people", r"", {"": 1}, r"more populated|more people|densely", r"less populated|fewer people"),
    ),
}  # fmt: skip


def compared(table: SecretTable, text: str) -> Truths | None:
    """The secrets for which a comparison holds; None if a question compares nothing. `text` is as from `plain`."""
    for measure in MEASURES[table.kind]:
        if measure.topic and not re.search(rf"(?<!\w)(?:{measure.topic})(?!\w)", text):
            continue
        truths = _compared(table, measure, text)
        if truths is not None:
            return truths
    return None


def number(text: str) -> tuple[float, int, int] | None:
    """The first number in a text, in digits or in words, and where it begins and ends."""
    match = _NUMBER.search(text)
    if match is None:
        return None
    if match["digits"]:
        value = float(match["digits"].replace(",", ""))
    else:
        value = float(
            _SMALL[match["word"]] if match["word"] in _SMALL else sum(_SMALL[part] for part in re.split("[ -]", match["word"]))
        )
    for scale in re.findall(r"[a-z]+", match["scales"]):
        value *= _SCALES[scale]
    return value, match.start(), match.end()


def _compared(table: SecretTable, measure: Measure, text: str) -> Truths | None:
    bound = _number_bound(measure, text)
    if bound is None:
        bound = _thing_bound(table, measure, text)
    if bound is None:
        return None
    value, before = bound
    if measure.name == "founded" and re.match(r".{0,3} century", text[len(before) :].lstrip("0123456789")):
        century = re.search(r"\b(?:before|after|since|prior)\b", before)
        if century is None:
            ages = table.measure("founded")
            return np.asarray((ages >= value) & (ages < value + 100))
    values = table.measure(measure.name)
    has = ~np.isnan(values)
    if re.search(r"\bfit|\b(?:put|carry|keep) (?:it|this|one|that)? ?(?:in|inside|into)\b", text):
        return np.asarray(has & (values <= value))
    if re.search(r"\bbetween\b", text) and (second := number(text[text.index(" and ") :] if " and " in text else "")):
        return np.asarray(
            has & (values >= value) & (values <= max(second[0] * (1e6 if second[0] < 1e3 <= value else 1), value))
        )
    if re.search(
        r"\bsize of|\bas (?:\w+ )?(?:big|large|small|heavy|tall|long|populous) as|\bsimilar|\bsame|\babout as", before + text
    ):
        return np.asarray(has & (values >= value / ALIKE) & (values <= value * ALIKE))
    up, down = _last(rf"\b(?:{_UP}|{measure.up})\b", before), _last(rf"\b(?:{_DOWN}|{measure.down})\b", before)
    if measure.name == "founded":
        after = text[len(before) :]
        if re.search(r"\bago\b|years old", after):
            up, down = (down, up) if "more" in before or "over" in before or "less" in before else (-1, 1)
    if measure.name in ("latitude", "longitude") and up == down == -1:
        up, down = _last(measure.up, text), _last(measure.down, text)
    if up == down:
        return None
    return np.asarray(has & ((values > value) if up > down else (values < value)))


def _number_bound(measure: Measure, text: str) -> tuple[float, str] | None:
    """The number that a question compares with, in the unit of the measure, and the text before it."""
    found = number(text)
    if found is None:
        return None
    value, start, end = found
    after, before = text[end:], text[:start]
    unit = next((unit for unit in measure.units if unit and re.match(rf"[ -]?(?:{unit})(?!\w)", after)), "")
    if measure.name == "founded":
        if re.match(r"(?:st|nd|rd|th)? century", after):
            return 100 * value - (0 if re.search(r"after", before) else 100), before
        is_age = re.search(r"years? (?:old|ago)|centuries|of age", after)
        return (YEAR - value * (100 if "centuries" in after else 1) if is_age else value), before
    if measure.name == "latitude" and "south" in after and "north" not in after:
        value = -value
    if measure.name == "people" and not re.search(
        r"million|thousand|people|population|inhabitants|residents|citizens|habitants", text
    ):
        return None
    if measure.name == "people" and value < 1000:
        value *= 1e6
    if unit not in measure.units and not measure.units.get(""):
        return None
    return value * measure.units[unit], before


def _thing_bound(table: SecretTable, measure: Measure, text: str) -> tuple[float, str] | None:
    """The measure of the thing that a question compares with ("than a car"), and the text before the thing."""
    match = re.search(
        r"\b(?:than|size of|as|like|similar to|fit(?:s|ted)?(?: \w+)? (?:in|inside|into|through|on|onto|under)|(?:put|carry|keep)"
        r"(?: it| this| one| that)? (?:in|inside|into)|(?:north|south|east|west)\w* (?:of|from))\b(?P<thing> .*)",
        text,
    )
    if match is None:
        return None
    thing, before = match["thing"], text[: match.start("thing")]
    candidates = [(start, table.secrets[i].measures.get(measure.name)) for i, start, _ in table.named(thing)]
    for name, measures in table.references.items():
        if found := re.search(rf"(?<!\w){re.escape(plain(name))}(?!\w)", thing):
            candidates.append((found.start(), measures.get(measure.name)))
    known = [(start, -value) for start, value in candidates if value is not None]
    return (-min(known)[1], before) if known else None


def _last(pattern: str, text: str) -> int:
    return max((match.start() for match in re.finditer(pattern, text)), default=-1)
