"""Questions that compare a measure with a number or with another thing: "more than five million people", "bigger than a car", "north of Rome"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from colbench_gym.lmrl.secret_table import SecretTable, Truths, plain

_DIGITS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
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
_FITS = re.compile(r"\bfit|\b(?:put|carry|keep) (?:it|this|one|that)? ?(?:in|inside|into)\b")
_ALIKE = re.compile(r"\bsize of|\bas (?:\w+ )?(?:big|large|small|heavy|tall|long|populous) as|\bsimilar|\bsame|\babout as")
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
        Measure("usd", r"costs?|price|dollars?|\$ ?[\d,.]+|bucks|expensive|cheap\w*|pay", {"": 1}, r"more expensive", r"less expensive|cheaper"),
        Measure("kg", r"weigh\w*|heav\w*|light\w*|pounds?|lbs?|kilos?|kg|kilograms?|tons?|grams?", {
            r"pounds?|lbs?": 0.4536, r"kilos?|kgs?|kilograms?": 1, r"tons?|tonnes?": 1000, r"grams?": 0.001, r"ounces?|oz": 0.0283, "": 0.4536,
        }),
        Measure("cm", r"", {**_LENGTHS, r"m|met(?:er|re)s?": 100, r"km|kilomet\w+": 1e5, r"miles?": 1.6e5}),
    ),
    "city": (
        Measure("founded", r"found\w*|establish\w*|built|years? old|years? ago|centur\w+|older|younger|newer|age|created|exist\w*", {"": 1},
                r"after|younger|newer|since", r"before|older|prior"),
        Measure("latitude", r"north\w*|south\w*|latitude|parallel", {r"degrees?|°": 1, "": 1}, r"north\w*", r"south\w*"),
        Measure("longitude", r"east\w*|west\w*|longitude", {r"degrees?|°": 1, "": 1}, r"east\w*", r"west\w*"),
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
    bound = _number_bound(measure, text) or _thing_bound(table, measure, text)
    if bound is None:
        return None
    value, before = bound
    values = table.measure(measure.name)
    after = text[len(before) :]
    if _FITS.search(text):
        return np.asarray(values <= value)
    if re.search(r"\bbetween\b", before) and (second := number(after.partition(" and ")[2])):
        most = second[0] * (1e6 if second[0] < 1e3 <= value else 1)  # "between one and two million"
        return np.asarray((values >= value) & (values <= most))
    if _ALIKE.search(text):
        return np.asarray((values >= value / ALIKE) & (values <= value * ALIKE))
    if measure.name == "founded" and "century" in after and not re.search(r"\b(?:before|after|since|prior)\b", before):
        return np.asarray((values >= value) & (values < value + 100))
    direction = _direction(measure, before, after)
    return None if direction == 0 else np.asarray(values > value if direction > 0 else values < value)


def _direction(measure: Measure, before: str, after: str) -> int:
    """1 if a question asks for more than the bound between its two parts, -1 for less, 0 if for neither. The last such word counts."""
    up, down = _last(rf"\b(?:{_UP}|{measure.up})\b", before), _last(rf"\b(?:{_DOWN}|{measure.down})\b", before)
    if measure.name == "founded" and re.search(r"\bago\b|years old", after):
        # Who is more than 300 years old was founded before a year. "Founded 300 years ago" is taken as at least.
        return -1 if up >= down else 1
    if up == down and measure.name in ("latitude", "longitude"):
        up, down = _last(measure.up, before + after), _last(measure.down, before + after)
    return int(up > down) - int(up < down)


def _number_bound(measure: Measure, text: str) -> tuple[float, str] | None:
    """The number that a question compares with, in the unit of the measure, and the text before it."""
    found = number(text)
    if found is None:
        return None
    value, start, end = found
    after, before = text[end:], text[:start]
    if measure.name == "founded":
        return _year(value, before, after), before
    if measure.name == "people":
        is_meant = re.search(r"million|thousand|people|population|inhabitants|residents|citizens", text)
        return (value * (1e6 if value < 1000 else 1), before) if is_meant else None
    if measure.name == "latitude" and "south" in after and "north" not in after:
        value = -value
    unit = next((unit for unit in measure.units if unit and re.match(rf"[ -]?(?:{unit})(?!\w)", after)), "")
    return (value * measure.units[unit], before) if unit in measure.units else None


def _year(value: float, before: str, after: str) -> float:
    """The year that a number of a question about age means: a year, a century, or so many years or centuries ago."""
    if re.match(r"(?:st|nd|rd|th)? century", after):
        return 100 * value - (0 if "after" in before else 100)
    if "centuries" in after:
        return YEAR - 100 * value
    return YEAR - value if re.search(r"years? (?:old|ago)|of age", after) else value


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
