"""Questions that compare a measure with a number or with another thing: "more than five million people", "bigger than a car", "north of Rome"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colbench_gym.lmrl.guessing.secret_table import SecretTable, Truths, plain

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
_ABOUT = r"(?:about|around|roughly|approximately|approx\.?|circa|nearly|almost|close to|near) \$? ?$"
_ROUGHLY, _BOUND_ROUGHLY = (
    re.compile(rf"\b{_ABOUT}"),
    re.compile(rf"\b(?:than|over|above|below|under|at least|at most|within|beyond|up to|exceed\w*) {_ABOUT}"),
)
#: An age that begins behind its number.
_AGE = re.compile(r"[ -]?(?:(?P<years>years?)|centuries|century(?= (?:old|ago)\b))(?!\w)")
#: Words for the two sides of the lines from which degrees are counted, greater numbers first, and the lines.
_SIDES = {"latitude": (r"\b(?:north\w*|above)\b", r"\b(?:south\w*|below)\b"), "longitude": (r"\beast\w*", r"\bwest\w*")}
_LINES = {"latitude": r"\bequator\b", "longitude": r"\bgreenwich\b|\b(?:prime|zero) meridian\b"}
_FURTHER = r"\b(?:more|over|greater|larger|at least|minimum|exceed\w*|beyond|past|further|farther)\b"
_NEARER = r"\b(?:less|under|fewer|smaller|at most|maximum|up to|within|closer|nearer)\b"
_INCLUSIVE = re.compile(r"\b(?:at least|at most|minimum|maximum|up to|within|or more|or less)\b")
_DISTANCE = re.compile(r" ?(?:km|kilomet\w+|miles?|m|met(?:er|re)s?)\b")
#: No latitude or longitude is larger.
MOST_DEGREES = 180
#: How far something may be from a number that it is "about", as a share of the number.
ROUGHLY = 0.2
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
        Measure("latitude", r"north\w*|south\w*|latitude|parallel|equator", {r"degrees?|°": 1, "": 1}, r"north\w*", r"south\w*"),
        Measure("longitude", r"east\w*|west\w*|longitude|greenwich|meridian", {r"degrees?|°": 1, "": 1}, r"east\w*", r"west\w*"),
        Measure("altitude", r"met(?:er|re)s?|feet|ft|altitude|elevat\w+|sea level|high|higher|[\d,]+ ?m", {r"feet|ft|foot": 0.3048, "": 1}),
        Measure("people", r"", {"": 1}, r"more populated|more people|densely", r"less populated|fewer people"),
    ),
}  # fmt: skip


#: "Is it 5 feet long?": a number with a unit, and nothing else.
_EXACTLY = re.compile(
    r"(?:is it|does it (?:weigh|cost)) \$?[\d,.]+[ -]?(?:mm|millimet\w+|cm|centimet\w+|inch(?:es)?|feet|foot|ft|yards?|met\w+|pounds?|lbs?|kg|kilo\w*|grams?|g|ounces?|oz|tons?|"
    r"dollars?|bucks)(?: (?:long|tall|wide|high|in (?:length|size|height|weight)))?\W*"
)


def compared(table: SecretTable, text: str) -> Truths | None:
    """The secrets for which a comparison holds; None if a question compares nothing. `text` is as from `plain`."""
    for measure in MEASURES[table.kind]:
        if measure.topic and not re.search(rf"(?<!\w)(?:{measure.topic})(?!\w)", text):
            continue
        truths = _positioned(table, measure, text) if measure.name in _SIDES else _compared(table, measure, text)
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
    counted = _number_bound(measure, text)
    bound = counted or _thing_bound(table, measure, text)
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
    if (
        measure.name == "founded"
        and "century" in after
        and not _is_age(after)
        and not re.search(r"\b(?:before|after|since|prior)\b", before)
    ):
        return np.asarray((values >= value) & (values < value + 100))
    if _ROUGHLY.search(before) and not _BOUND_ROUGHLY.search(before):
        start = YEAR if measure.name == "founded" else 0  # "about 500 years" is about an age
        return _about(values - start, value - start)
    direction = _direction(measure, before, after)
    if direction == 0 and counted and _EXACTLY.fullmatch(text):
        return _about(values, value)
    return None if direction == 0 else np.asarray(values > value if direction > 0 else values < value)


def _about(values: NDArray[np.float64], value: float) -> Truths:
    """Which of some values are about as large as another one."""
    return np.asarray(np.abs(values - value) <= ROUGHLY * abs(value))


def _positioned(table: SecretTable, measure: Measure, text: str) -> Truths | None:
    """The answer to a question about a latitude or a longitude; None if it is none."""
    values, bound = table.measure(measure.name), number(text)
    if bound is None:
        sign = re.search(r"\b(negative|positive)\b", text)
        if sign and measure.name in text:
            return np.asarray(values < 0 if sign[1] == "negative" else values > 0)
        return _compared(table, measure, text)
    if bound[0] > MOST_DEGREES or _DISTANCE.match(text[bound[2] :]):
        return None
    truths = _by_degrees(measure.name, values, bound[0], text[: bound[1]], text[bound[2] :])
    return _compared(table, measure, text) if truths is None else truths


def _by_degrees(name: str, values: NDArray[np.float64], degrees: float, before: str, after: str) -> Truths | None:
    """The answer to a question about degrees to a side of a line, or away from it ("30 degrees south", "10 degrees of the equator").

    "More" and "less" count from the line, and "less" stays on its side. "Below", "north of" and the like are meant as on a map.

    Args:
        name: "latitude" or "longitude".
        values: Those of all secrets.
        degrees: The number of the question.
        before: The text before the number.
        after: The text behind it.

    Returns:
        For which secrets the answer is yes; None if the question is not of that kind.
    """
    first, _, rest = after.partition(" and ")
    second = number(rest)
    if re.search(r"\bbetween\b", before) and second:
        last = _side(name, rest) or _side(name, first)
        low, high = sorted(((_side(name, first) or last) * degrees, last * second[0]))
        return np.asarray((values >= low) & (values <= high)) if last else None
    side = _side(name, after)
    if side == 0 and not re.search(_LINES[name], before + after):
        return None
    words = before if re.search(f"{_FURTHER}|{_NEARER}", before) else after
    further, nearer = _last(_FURTHER, words), _last(_NEARER, words)
    greater, smaller = (_last(pattern, before) for pattern in _SIDES[name])
    if side and max(greater, smaller) > (max(further, nearer) if words is before else -1):
        return np.asarray(values > side * degrees if greater > smaller else values < side * degrees)
    side = side or _side(name, before)
    distances = side * values if side else np.abs(values)
    if _ROUGHLY.search(before) and not _BOUND_ROUGHLY.search(before):
        return _about(distances, degrees)
    if further == nearer:
        return None
    is_at = (distances == degrees) & bool(_INCLUSIVE.search(before + after))
    return np.asarray(is_at | (distances > degrees if further > nearer else (distances >= 0) & (distances < degrees)))


def _side(name: str, text: str) -> int:
    """The side that a text names last: 1 for the one of greater numbers, -1 for the other one, 0 without any."""
    greater, smaller = (_last(pattern, text) for pattern in _SIDES[name])
    return int(greater > smaller) - int(greater < smaller)


def _direction(measure: Measure, before: str, after: str) -> int:
    """1 if a question asks for more than the bound between its two parts, -1 for less, 0 if for neither. The last such word counts."""
    up, down = _last(rf"\b(?:{_UP}|{measure.up})\b", before), _last(rf"\b(?:{_DOWN}|{measure.down})\b", before)
    if (
        measure.name == "founded"
        and _is_age(after)
        and not re.search(r"\b(?:older|younger|newer|before|after|since)\b", before)
    ):
        if re.search(r"\b(?:last|past)\b", before):
            return 1
        # Who is more than 300 years old was founded before a year. "Founded 300 years ago" is taken as at least.
        return -1 if up >= down else 1
    if up == down and measure.name in ("latitude", "longitude"):
        up, down = _last(measure.up, before + after), _last(measure.down, before + after)
    return int(up > down) - int(up < down)


def _number_bound(measure: Measure, text: str) -> tuple[float, str] | None:
    """The number that a question compares with, in the unit of the measure, and the text before it."""
    bound = number(text)
    if bound is None:
        return None
    value, start, end = bound
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
    age = _AGE.match(after)
    if age or "centuries" in after:
        return YEAR - value * (1 if age and age["years"] else 100)
    if re.match(r"(?:st|nd|rd|th)? century", after):
        return 100 * value - (0 if "after" in before else 100)
    return YEAR - value if re.search(r"years? (?:old|ago)|of age", after) else value


def _is_age(after: str) -> bool:
    """Whether a text, which may begin with a number, says how old something is."""
    age = number(after)
    return re.search(r"\bago\b|years? old", after) is not None or (age is not None and _AGE.match(after[age[2] :]) is not None)


def _thing_bound(table: SecretTable, measure: Measure, text: str) -> tuple[float, str] | None:
    """The measure of the thing that a question compares with ("than a car"), and the text before the thing."""
    match = re.search(
        r"\b(?:than|size of|as|like|similar to|fit(?:s|ted)?(?: \w+)? (?:in|inside|into|through|on|onto|under)|(?:put|carry|keep)"
        r"(?: it| this| one| that)? (?:in|inside|into)|(?:north|south|east|west)\w*(?: side)? (?:of|from))\b(?P<thing> .*)",
        text,
    )
    if match is None:
        return None
    thing, before = match["thing"], text[: match.start("thing")]
    candidates = [(start, table.secrets[i].measures.get(measure.name)) for i, start, _ in table.named(thing)]
    for name, measures in table.references.items():
        if place := re.search(rf"(?<!\w){re.escape(plain(name))}(?!\w)", thing):
            candidates.append((place.start(), measures.get(measure.name)))
    known = [(start, -value) for start, value in candidates if value is not None]
    return (-min(known)[1], before) if known else None


def _last(pattern: str, text: str) -> int:
    return max((match.start() for match in re.finditer(pattern, text)), default=-1)
