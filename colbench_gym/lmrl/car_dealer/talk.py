"""Plain English about cars, understood: which car a message describes or asks about, for how much, and what the speaker wants with it.

Words, not grammar: brands, types, features and popular models by their names, amounts by the words around them (`money`), intentions by
phrases. What stands behind a "no" or "not" in its clause is not said. The seller's messages are read this way by the scripted buyer, and the buyer's
by the scripted sellers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from colbench_gym.lmrl.car_dealer.money import Kind, amounts, percent_off
from colbench_gym.lmrl.car_dealer.profile import BRANDS, FEATURES, TYPES

#: Subjects of questions; "needs" is "How can I help you?".
#: How a price is named; see `Heard.price_as`.
PriceAs = Literal["offer", "payable", "bare"]
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
#: A message that is nothing but a yes, or that gives the car away for what the other side named.
_YES = r"ok|okay|fine|all? ?right|sure|yes|yeah|yep|yup|very well|so be it|agreed|accepted|done|deal|no problem|of course|certainly|absolutely|you're on"
_ONLY_YES = re.compile(
    rf"^\W*(?:(?:well|oh|great|good|perfect|then|hm+|uh|um|thanks?|thank you|sir|ma'am|my friend)\b\W*)*(?:{_YES})\b"
    rf"(?:\W*\b(?:{_YES}|well|then|great|good|perfect|thanks?|thank you|sir|ma'am|my friend|with me|by me|it is)\b)*[^\w?]*$"
)
_GIVES = re.compile(
    r"\b(?:sell|give|do|let you have|let you take|let it go|let go of) (?:you )?(?:it|that|her|(?:the|this) (?:car|one))?\s*(?:to you )?(?:for|at) (?:that|this|your (?:price|offer))"
    r"(?: (?:price|amount|much|offer))?\b(?! (?:and|plus|or|if))|\bgo with (?:that|your (?:price|offer))\b|\b(?:i|we)(?:'ll| will) (?:sell it|sell you (?:it|the car)|do it)(?: to you)?\s*(?:[.!]|$)"
    r"|\b(?:that(?:'s| is)|i(?:'m| am)|we(?:'re| are)) (?:ok|okay|fine|all? ?right|acceptable) (?:with|by|for) (?:me|us|that|it|your (?:offer|price))\s*(?:[.!]|$)"
    r"|\bthat(?:'s| is) (?:ok|okay|fine|all? ?right|acceptable)\s*(?:[.!]|$)"
)  # fmt: skip
_DOUBTS = re.compile(r"\?|\bif\b|\bunless\b|\bbut\b|n't\b|\bnot\b|\bnever\b|\bcannot\b")
#: What refuses the other side's offer, in a message that asks nothing else.
_REFUSES = re.compile(
    r"^\W*(?:(?:oh|well|sorry|sir|ma'am)\b\W*)*(?:no|nope|nah|never)(?=\W*$|\s*[,.!;:]|\s+(?:way|thanks?|thank you|sir|ma'am|i|that|it|you|we|not)\b)|\b(?:too|so|very|ridiculously) low\b(?!-| (?:mile|fuel|price|interest|cost))|\btoo little\b|\bwhy so (?:little|cheap)\b"
    r"|\bnot (?:ok|okay|fine|acceptable|enough|good enough|high enough)\b|n't (?:ok|okay|fine|acceptable|enough|good enough|high enough|be enough)\b|\bno way\b|\blow-? ?ball|\binsult"
    r"|\b(?:joking|kidding)\b|\b(?:go|come|bid) (?:up|higher)\b|\b(?:better|higher) (?:offer|bid)\b|\byou (?:do better|offer more|pay more)\b|\bi (?:need|want) more\b"
)  # fmt: skip
_HOLDS = re.compile(
    r"\b(?:firm|final|lowest|best (?:price|offer|i can)|last (?:price|offer)|non-?negotiable|no (?:discounts?|lower)|can(?:no|')?t (?:go|do|come|drop|accept)"
    r"|cannot (?:go|do|come|drop|accept)|not (?:go|able to go) (?:any )?(?:lower|below)|take it or leave it|ready to buy|do you (?:accept|want it|agree)|will you take it"
    r"|would you (?:take|buy|accept) (?:it|that|this)|do we have a deal|is (?:it|that) a deal|what do you (?:say|think)|how (?:does that sound|about it)"
    r"|worth (?:it|every)|interested)\b"
)  # fmt: skip
_NO_DEAL = re.compile(r"\bno deal\b|(?:\bnot?\b|n't|cannot)[^.,;]*\b(?:deal|agree|accept|take|work|sold|sell|do (?:that|it))")
_ANOTHER = re.compile(
    r"\b(?:another(?! ?\$| ?\d| discount| thousand| one thousand| question)|different|cheaper|older|newer|pre-owned|second-hand|alternatively"
    r"|(?:other|used|base) (?:car|model|vehicle|one))\b"
)  # fmt: skip
_AS_WANTED = re.compile(
    r"\b(?:all(?! right)|every|everything|each)\b[^.?!]*\b(?:you|those|features|your)\b|\b(?:exactly|just|precisely) (?:what|the (?:car|one)|as) you|\bas you (?:want|like|asked|describ|wish)"
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
        price_as: How the price is named: "offer"; "payable" if the message only asks whether the other side can pay it, and names no car in that
            question; "bare" for a question that is only an amount.
        msrp: The last MSRP or list price, in dollars.
        budget: The last amount that is called a budget, in dollars.
        discount: What is taken off, in dollars.
        percent: What is taken off, in percent.
        topics: Subjects of questions, in order, some of "brand", "type", "features", "budget" and "needs".
        agrees: Whether it agrees to what the other side proposed, and names no price.
        holds: Whether it asks for a decision, refuses the other side's offer, or says that the price stays.
        is_another: Whether it is about another car than before.
        is_as_wanted: Whether it says that the car has what the other side wants.
    """

    brands: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    price: int | None = None
    price_as: PriceAs = "offer"
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
    mentioned: dict[str, set[str]] = {"brand": set(), "type": set(), "features": set()}
    without: set[str] = set()
    money: dict[Kind, int] = {}
    topics: dict[str, None] = {}
    for sentence in filter(str.strip, _SENTENCE.findall(_NOT_A_NO.sub(" ", text))):
        affirmed, denied = _names(sentence)
        for topic, names in affirmed.items():
            mentioned[topic] |= names
        without |= denied
        in_sentence = amounts(sentence)
        is_offer = "price" in money or any(affirmed.values())
        money |= {
            "price" if is_offer and amount.kind in ("payable", "bare") else amount.kind: amount.dollars
            for amount in in_sentence
        }
        if "price" not in money:
            topics |= dict.fromkeys(_questions(sentence, affirmed, any(amount.kind == "budget" for amount in in_sentence)))
    price, price_as = _price(money)
    if price is not None and price_as != "offer" and "budget" in topics:
        money["budget"], price, price_as = price, None, "offer"
    brands, types, features = (tuple(name for name in _ORDER[topic] if name in mentioned[topic]) for topic in _ORDER)
    return Heard(
        brands,
        types,
        features,
        without=tuple(name for name in FEATURES if name in without - mentioned["features"]),
        price=price,
        price_as=price_as,
        msrp=money.get("msrp"),
        budget=money.get("budget"),
        discount=money.get("discount"),
        percent=percent_off(text),
        topics=tuple(topics),
        agrees=price is None and _is_agreement(text),
        holds=any(pattern.search(text) for pattern in (_HOLDS, _NO_DEAL)) or (not topics and _REFUSES.search(text) is not None),
        is_another=_ANOTHER.search(text) is not None,
        is_as_wanted=_AS_WANTED.search(text) is not None,
    )


def _price(money: Mapping[Kind, int]) -> tuple[int | None, PriceAs]:
    """The price of a message, and how it is named."""
    if "price" in money:
        return money["price"], "offer"
    if "payable" in money:
        return money["payable"], "payable"
    return money.get("bare"), "bare" if "bare" in money else "offer"


def _is_agreement(text: str) -> bool:
    """Whether a message without a price agrees to what the other side proposed."""
    if _NO_DEAL.search(text) or "do we have a deal" in text or "is it a deal" in text:
        return False
    if _AGREES.search(text) or _ONLY_YES.search(text):
        return True
    return _GIVES.search(text) is not None and _DOUBTS.search(text) is None


def _names(sentence: str) -> tuple[dict[str, set[str]], set[str]]:
    """Brands, types and features of a sentence that are not denied; and the features that are."""
    affirmed: dict[str, set[str]] = {topic: set() for topic in _NAMED}
    denied: set[str] = set()
    for clause in _CLAUSE.split(sentence):
        no = _NO.search(clause)
        end = no.start() if no else len(clause)
        for topic, patterns in _NAMED.items():
            for name, pattern in patterns.items():
                for match in pattern.finditer(clause):
                    (affirmed[topic] if match.start() < end else denied).add(name)
        for pattern, (brand, type_) in _MODEL_PATTERNS.items():
            if pattern.search(clause[:end]):
                affirmed["brand"].add(brand)
                affirmed["type"].add(type_)
    return affirmed, denied & set(FEATURES)


def _questions(sentence: str, affirmed: Mapping[str, set[str]], has_budget: bool) -> list[str]:
    """Topics that a sentence without a price asks about, [] if it is not a question. `has_budget`: whether an amount in it is a budget."""
    if not (sentence.rstrip().endswith("?") or _ASKING.search(sentence) or _CONFIRMING.search(sentence)):
        return []
    named = [
        topic for topic in ("brand", "type", "features", "budget") if _TOPIC[topic].search(sentence) or affirmed.get(topic)
    ]
    if has_budget and not _CONFIRMING.search(
        sentence
    ):  # "For a Honda, is your budget below 40k?" asks for the budget above all
        named = ["budget", *(topic for topic in named if topic != "budget")]
    return named or (["needs"] if _TOPIC["needs"].search(sentence) else [])
