"""Plain English about cars, understood: which car a message describes or asks about, for how much, and what the speaker wants with it.

Words, not grammar: brands, types, features and popular models by their names, amounts by the words around them (`car_money`), intentions by
phrases. What stands behind a "no" or "not" in its clause is not said. The seller's messages are read this way by the scripted buyer, and the buyer's
by the scripted sellers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from colbench_gym.lmrl.car_money import PERCENT, amounts
from colbench_gym.lmrl.car_profile import BRANDS, FEATURES, TYPES

#: Subjects of questions; "needs" is "How can I help you?".
TOPICS = ("brand", "type", "features", "budget", "needs")
#: Longest part of a message that is read, in characters.
MAX_CHARS = 2_000
_OTHER_NAMES = {
    "Volkswagen": "volkswagen|vw", "Mercedes-Benz": "mercedes(?:[- ]benz)?|benz", "BMW": "bmw|beemer|bimmer",
}  # fmt: skip
_BRAND_WORDS = {brand: _OTHER_NAMES.get(brand, brand.lower()) for brand in BRANDS}
_TYPE_WORDS = {
    "luxury": r"luxury|luxurious|upscale|high-end|premium(?= (?:car|sedan|suv|vehicle|model|convertible|truck))",
    "sedan": "sedan|saloon",
    "convertible": "convertible|cabriolet|drop-?top|roadster",
    "truck": "truck|pickup|pick-up",
    "electric": r"(?:all-)?electric(?! (?:seat|window|mirror))|evs?|battery[- ]powered",
    "SUV": r"suv|sports?[- ]utility(?: vehicle)?|crossover",
}
_FEATURE_WORDS = {
    "backup camera": r"(?:back-?up|back up|rear[- ]?view|reversing|reverse|rear) cam(?:era)?",
    "navigation system": r"navigation|nav system|nav|gps|sat-?nav",
    "heated seats": r"heated(?! (?:steering|mirror|windshield))|seat heat(?:ing|er)",
    "leather seats": "leather",
    "third-row seating": r"(?:third|3rd)[- ]row|third row|three rows|(?:seven|7)[- ]seat(?:er)?|seats seven",
    "blind spot monitoring": r"blind[- ]?spot",
    "sunroof": r"(?:sun|moon)[- ]?roof|(?:panoramic|glass) roof",
    "Apple CarPlay": r"car ?play",
}
#: Popular models: brand and type.
_MODELS = {
    "jetta|passat": ("Volkswagen", "sedan"), "tiguan|atlas": ("Volkswagen", "SUV"), "rx ?350": ("Lexus", "SUV"), "es ?350": ("Lexus", "sedan"),
    "f-?150|ranger": ("Ford", "truck"), "escape|explorer|expedition": ("Ford", "SUV"), "miata|mx-5": ("Mazda", "convertible"),
    "cx-?\\d{1,2}": ("Mazda", "SUV"), "elantra|sonata": ("Hyundai", "sedan"), "tucson|santa fe|palisade": ("Hyundai", "SUV"),
    "santa cruz": ("Hyundai", "truck"), "ioniq": ("Hyundai", "electric"), "camry|corolla|avalon": ("Toyota", "sedan"),
    "rav4|highlander|4runner": ("Toyota", "SUV"), "tacoma|tundra": ("Toyota", "truck"), "cayenne|macan": ("Porsche", "SUV"),
    "boxster": ("Porsche", "convertible"), "taycan": ("Porsche", "electric"), "outback|forester|ascent": ("Subaru", "SUV"),
    "legacy|impreza": ("Subaru", "sedan"), "civic|accord": ("Honda", "sedan"), "cr-?v|passport": ("Honda", "SUV"),
    "ridgeline": ("Honda", "truck"), "x[357]": ("BMW", "SUV"), "q[578]": ("Audi", "SUV"), "e-?tron": ("Audi", "electric"),
    "model [3sxy]": ("Tesla", "electric"),
}  # fmt: skip


def _patterns(words: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    return {name: re.compile(rf"\b(?:{pattern})(?:s|es)?\b") for name, pattern in words.items()}


_NAMED = {"brand": _patterns(_BRAND_WORDS), "type": _patterns(_TYPE_WORDS), "features": _patterns(_FEATURE_WORDS)}
_ORDER: dict[str, tuple[str, ...]] = {"brand": BRANDS, "type": TYPES, "features": FEATURES}
_MODEL_PATTERNS = {re.compile(rf"\b(?:{pattern})s?\b"): car for pattern, car in _MODELS.items()}
_SENTENCE = re.compile(r"[^.?!\n]*(?:\.(?!\s|$)[^.?!\n]*)*(?:[.?!\n]+|$)")
_CLAUSE = re.compile(r"[,;:]|\bbut\b|\bthough\b|\bhowever\b|\bonly that\b")
#: Phrases with a "no" or "not" that deny nothing.
_NOT_A_NO = re.compile(
    r"why not|not only|not just|no (?:problem|worries|doubt|question)|(?:can(?:no|')?t|won't|will not|don't|do not) "
    r"(?:beat|regret|miss|worry|be disappointed|go wrong|find|wait)|(?:isn't|don't you|wouldn't|won't) (?:it|you)|if not"
)
_NO = re.compile(
    r"\b(?:not?|never|without|lacks?|lacking|neither|nor|cannot|minus|except)\b|n't\b|\bout of\b|\binstead of\b|\brather than\b"
)
_ASKING = re.compile(
    r"^\W*(?:(?:so|and|ok|okay|well|great|sure|perfect|now|hello|hi|sir|ma'am|first|then|alright|also|oh|got it|thanks?|thank you)\b\W*)*"
    r"(?:what|which|how|who|where|when|do|does|did|are|is|will|would|could|can|may|might|should|shall|have|has|any|tell me|let me know"
    r"|describe|please tell|i need to know|i'd like to know|i would like to know|share)\b"
)
_TOPIC = {
    "brand": re.compile(r"\b(?:brands?|makes?(?= (?:and|or|of|do|are|would|did|car)|\W|$)|manufacturers?|model)\b"),
    "type": re.compile(r"\b(?:types?|kinds?|sort|body|style|segment|category)\b"),
    "features": re.compile(r"\b(?:features?|options?|extras?|equipment|must-haves?|amenities|add-ons?|comforts?|technology)\b"),
    "budget": re.compile(
        r"\b(?:budgets?|spend(?:ing)?|price range|afford|price (?:do|did) you have|price in mind|price point|price limit|how much (?:money|cash)"
        r"|how much (?:are|do|would|can|could|will|did) you|how high (?:can|would|could) you|what can you pay)\b"
    ),
    "needs": re.compile(
        r"\b(?:how (?:can|may) i (?:help|assist|serve)|(?:can|may) i help|what can i do|what (?:are|is|do|would|can|brings?|did) (?:you|it|i|we)\b"
        r"|what (?:car|vehicle)|which (?:car|vehicle)|(?:are you )?looking for|need|preferences?|in mind|tell me (?:more|about)|dream car|perfect car|ideal car)"
    ),
}  # fmt: skip
#: "So you want a Toyota, right?" is a question about the brand, and "an SUV as you wanted" is none.
_CONFIRMING = re.compile(r"^\W*(?:so\W+)?(?:you|your)\b.*\b(?:want|need|like|prefer|look|after|is|said)")
_AGREES = re.compile(
    r"(?:^|[,.!]\s*|\b(?:okay|ok|yes|fine|it(?:'s| is) a|(?:have|got|have got|have yourself|got yourself) a)\W+)deal\b|\bagree[ds]?\b|\b[iw]e? accept\b|\baccepted\b"
    r"|\bi(?:'ll| will) take (?:it|that|your)|\bworks for (?:me|us)\b|\bthat works\b|\bit(?:'s| is) yours\b|\bsold(?=\s*[.!]|$| to you| for)"
    r"|\b[iw]e? can do that\b|\bsounds good\b|\bfair enough\b|\byou(?:'ve| have) got (?:it|yourself)\b|\byou win\b|\bshake on it\b|\bfine by me\b|\byou can have it\b"
)  # fmt: skip
_HOLDS = re.compile(
    r"\b(?:firm|final|lowest|best (?:price|offer|i can)|last (?:price|offer)|non-?negotiable|no (?:discounts?|lower)|can(?:no|')?t (?:go|do|come|drop|accept)"
    r"|cannot (?:go|do|come|drop|accept)|not (?:go|able to go) (?:any )?(?:lower|below)|take it or leave it|ready to buy|do you (?:accept|want it|agree)|will you take it"
    r"|would you (?:take|buy|accept) (?:it|that|this)|do we have a deal|is (?:it|that) a deal|what do you (?:say|think)|how (?:does that sound|about it)"
    r"|worth (?:it|every)|interested)\b"
)  # fmt: skip
_NO_DEAL = re.compile(r"\bno deal\b|(?:\bnot?\b|n't|cannot)[^.,;]*\b(?:deal|agree|accept|take|work|sold|sell|do that)")
_ANOTHER = re.compile(
    r"\b(?:another(?! ?\$| ?\d| discount| thousand| one thousand| question)|different|cheaper|older|newer|pre-owned|second-hand|alternatively"
    r"|(?:other|used|base) (?:car|model|vehicle|one))\b"
)  # fmt: skip
_AS_WANTED = re.compile(
    r"\b(?:all|every|everything|each)\b[^.?!]*\b(?:you|those|features|your)\b|\b(?:exactly|just|precisely) (?:what|the (?:car|one)|as) you|\bas you (?:want|like|asked|describ|wish)"
    r"|\bthe (?:car|one) (?:that )?you(?:'re| are)? (?:describ|ask|want|look)|fully loaded"
)  # fmt: skip


@dataclass(frozen=True)
class Heard:
    """What a message says.

    Attributes:
        brands: Brands that are named and not denied.
        types: Types, likewise.
        features: Features, likewise.
        without: Features that the car is said not to have.
        price: The last price, in dollars; None if none is named.
        msrp: The last MSRP or list price, in dollars.
        budget: The last amount that is called a budget, in dollars.
        discount: What is taken off, in dollars.
        percent: What is taken off, in percent.
        topics: Subjects of questions, in order, some of `TOPICS`.
        agrees: Whether it agrees to what the other side proposed, and names no price.
        holds: Whether it asks for a decision, or says that the price stays.
        is_another: Whether it is about another car than before.
        is_as_wanted: Whether it says that the car has what the other side wants.
    """

    brands: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    price: int | None = None
    msrp: int | None = None
    budget: int | None = None
    discount: int | None = None
    percent: float | None = None
    topics: tuple[str, ...] = ()
    agrees: bool = False
    holds: bool = False
    is_another: bool = False
    is_as_wanted: bool = False


@lru_cache(maxsize=8192)
def understand(text: str) -> Heard:
    """Understand a message: at most its first `MAX_CHARS` characters."""
    text = text[:MAX_CHARS].replace("\u2019", "'").lower()
    said: dict[str, set[str]] = {"brand": set(), "type": set(), "features": set()}
    without: set[str] = set()
    money: dict[str, int] = {}
    topics: dict[str, None] = {}
    for sentence in filter(str.strip, _SENTENCE.findall(_NOT_A_NO.sub(" ", text))):
        found, denied = _names(sentence)
        for topic, names in found.items():
            said[topic] |= names
        without |= denied
        money |= {amount.kind: amount.dollars for amount in amounts(sentence)}
        if "price" not in money:
            topics |= dict.fromkeys(_questions(sentence, found))
    percent = PERCENT.search(text)
    has_no_deal = _NO_DEAL.search(text) is not None
    brands, types, features = (tuple(name for name in _ORDER[topic] if name in said[topic]) for topic in _ORDER)
    return Heard(
        brands,
        types,
        features,
        without=tuple(name for name in FEATURES if name in without - said["features"]),
        price=money.get("price"),
        msrp=money.get("msrp"),
        budget=money.get("budget"),
        discount=money.get("discount"),
        percent=float(percent[1] or percent[2]) if percent else None,
        topics=tuple(topics),
        agrees="price" not in money
        and _AGREES.search(text) is not None
        and not has_no_deal
        and "do we have a deal" not in text
        and "is it a deal" not in text,
        holds=_HOLDS.search(text) is not None or has_no_deal,
        is_another=_ANOTHER.search(text) is not None,
        is_as_wanted=_AS_WANTED.search(text) is not None,
    )


def _names(sentence: str) -> tuple[dict[str, set[str]], set[str]]:
    """Brands, types and features of a sentence that are not denied; and the features that are."""
    found: dict[str, set[str]] = {topic: set() for topic in _NAMED}
    denied: set[str] = set()
    for clause in _CLAUSE.split(sentence):
        no = _NO.search(clause)
        end = no.start() if no else len(clause)
        for topic, patterns in _NAMED.items():
            for name, pattern in patterns.items():
                for match in pattern.finditer(clause):
                    (found[topic] if match.start() < end else denied).add(name)
        for pattern, (brand, type_) in _MODEL_PATTERNS.items():
            if pattern.search(clause[:end]):
                found["brand"].add(brand)
                found["type"].add(type_)
    return found, denied & set(FEATURES)


def _questions(sentence: str, found: Mapping[str, set[str]]) -> list[str]:
    """Topics that a sentence without a price asks about, [] if it is not a question."""
    if not (sentence.rstrip().endswith("?") or _ASKING.search(sentence) or _CONFIRMING.search(sentence)):
        return []
    named = [topic for topic in ("brand", "type", "features", "budget") if _TOPIC[topic].search(sentence) or found.get(topic)]
    return named or (["needs"] if _TOPIC["needs"].search(sentence) else [])
