"""Amounts in questions about the buyer's budget ("Is your budget below 40k?", "Do you have $30,000 to spend?"), which are no offers.

Patterns for what stands before and after the amount, in one sentence in lower case.
"""

from __future__ import annotations

import re

_ASIDE = (
    r"^\W*(?:(?:so|and|but|or|ok|okay|well|great|sure|perfect|good|now|hello|hi|sir|ma'am|then|all? ?right|also|oh|thanks?|thank you|please|tell me"
    r"|let me ask|may i ask|let me know|if|whether)\b\W*)*"
)
#: "about", "up to", "between 30k and" and the like, up to the amount.
_ABOUT = (
    r"(?:\W*(?:\b(?:about|around|roughly|approximately|near|nearly|nearer|close|closer|to|say|maybe|perhaps|like|something|somewhere|anywhere|in|the"
    r"|range|region|area|neighbou?rhood|of|at least|at most|up|more|less|higher|lower|greater|bigger|larger|smaller|than|over|above|under|below"
    r"|beneath|beyond|within|between|from|and|or|exactly|only|just|even|as|much|many|high|far|no|not|a|an|total|maximum|max|minimum|that|this|\d+k?)\b))*\W*$"
)
_LIMIT = r"(?:budget|price range|range|limit|max|maximum|ceiling|cap|means|reach)\b"
_WITHIN = r"(?:[^,;:.?!]|[,.](?=\d))"
_BUDGET = re.compile(
    rf"\b(?:budget(?:s|ed)?|price range|price limit|spend(?:ing)?(?: limit)?|afford|your (?:\w+ )?{_LIMIT}|(?:amount|sum|number|figure|price|limit)"
    rf" (?:\w+ )?in mind|most (?:that )?you\b{_WITHIN}*\bpay|set aside|sav(?:ed|ings)(?: up)?|how (?:much|high)\b{_WITHIN}*\byou\b{_WITHIN}*(?=[,:]))"
    r"(?:\W+(?:is|was|be|being|can|could|you|your|able|willing|have|it|going|pay|spend|go|stretch|reach|extend|really|actually|still|currently|well|any|higher|lower"
    r"|(?:set|fixed|capped|limited|standing|sitting|stands|sits) (?:at|to)|(?:for|on) (?:a|the|this|your|it)(?: new)?(?: (?:car|vehicle|one))?)\b)*"
    + _ABOUT
)
_HAVE = re.compile(
    r"(?:\b(?:do|did) you (?:\w+ )?(?:have|own)|\bhave you (?:\w+ )?(?:got|saved)|\bgot|^\W*(?:so\W+)?you(?:'ve got| have| do have))\b"
    + _ABOUT
)
_HAVE_AFTER = re.compile(
    r"\W*(?:$|(?:right|correct|or|and|to|cash|in|available|ready|saved|set aside|on|at|handy|left|for (?:a|your|the|this|that)(?: \w+)? (?:car|vehicle|purchase))\b)"
)
_SUBJECT = re.compile(_ASIDE + r"(?:do you think|is|was|are|would|does|will|could|can)\b" + _ABOUT)
_SUBJECT_AFTER = re.compile(
    rf"(?!\W*(?:for|on)\b)(?:{_WITHIN}{{0,30}}\byour?\b{_WITHIN}{{0,20}}\b(?:{_LIMIT}|spend|afford|pay\b)|{_WITHIN}{{0,12}}\b(?:affordable|all you have)\b)"
)
_IS_LIMIT = re.compile(
    rf"\s+(?:is|was|would be)\s(?:\w+ly\s)?(?:your\s(?:\w+\s)?{_LIMIT}|(?:the most|all|what)\s(?:that\s)?you\b)"
)
_IT = re.compile(_ASIDE + r"(?:is it|(?:is|was|would|will|could|might|should) (?:it|that|the (?:car|price))(?: be| cost)? (?:\w+ )?(?:more|less|higher|lower|greater|over|above|under|below|between|up to|at least"
                 r"|at most|closer|nearer|around|about|near))\b" + _ABOUT)  # fmt: skip
_WANT = re.compile(
    r"\b(?:do|did|are|were|would) you (?:\w+ )?(?:want|wish|hop(?:e|ing)|look(?:ing)?|prefer|need|like|think(?:ing)?|plan(?:ning)?|search(?:ing)?|after|interested)\b[^,;:]*"
    r"(?:(?<!\bfor )(?<!\bat )\b(?:under|below|beneath|over|above|up to|at most|between|(?:less|lower|cheaper|more|higher) than)"
    r"|\b(?:something|anything|cars?|vehicles?|one|prices?)(?: priced)? (?:around|about|near|close to|in the (?:range|region|area|neighbou?rhood) of))\W*$"
)
_PAY = re.compile(
    r"(?:\b(?:can|could|would|will|are|do|did|might|may) you|^\W*(?:so\W+)?you (?:can|could|would|will))\b[^,;:]*\b(?:pay(?:ing)?|go|do|offer|spare|stay|comfortable(?: with)?(?: a price)?|manage|stretch|raise|come up with|invest"
    r"|put (?:up|down|in|together|toward|towards)|swing|handle|part with|bring|give)\b" + _ABOUT
)
_PAY_AFTER = re.compile(r"(?!\W*(?:for|on) (?:it|this|that|the|these|those)\b)")
_FITS = re.compile(
    r"\s*(?:be |is )?(?:too (?:much|high|expensive)|okay?\b|ok\b|fine\b|all? ?right\b|acceptable|possible|doable)"
)
_BARE, _BARE_AFTER = re.compile(_ASIDE + _ABOUT), re.compile(r"(?: (?:or (?:so|more|less)|maybe|perhaps))?\s*[?!]*\?\W*$")
_ASKS = re.compile(_ASIDE + r"(?:do|does|did|are|is|was|were|can|could|would|will|might|may|have|has|how|what|which)\b")
#: "Can't you", "isn't it": questions, and no denials.
_NEGATED = re.compile(r"\b(can|could|do|did|is|are|was|would|have)(?:n't|'t) (?=(?:you|your|it|that)\b)")
_RANGE = re.compile(r"\s*(?:,?\s*\b(?:and|or|to)\b|-)" + _ABOUT)


def is_question(sentence: str) -> bool:
    """Whether a sentence asks something, with or without a question mark."""
    return sentence.rstrip().endswith("?") or _ASKS.search(sentence) is not None


def plain_question(sentence: str) -> str:
    """A question without the "not" of "can't you" and "isn't it"."""
    return _NEGATED.sub(r"\1 ", sentence)


def asks_budget(before: str, after: str) -> bool:
    """Whether a question is about a budget of an amount.

    Args:
        before: The question before the amount.
        after: The question after it.
    """
    return (
        any(pattern.search(before) for pattern in (_BUDGET, _IT, _WANT))
        or (_HAVE.search(before) is not None and _HAVE_AFTER.match(after) is not None)
        or (_SUBJECT.search(before) is not None and _SUBJECT_AFTER.match(after) is not None)
        or _IS_LIMIT.match(after) is not None
    )


def asks_to_pay(before: str, after: str) -> bool:
    """Whether a question is whether the other side can pay an amount: an offer for a car that is on the table, else about the budget."""
    return (_PAY.search(before) is not None and _PAY_AFTER.match(after) is not None) or (
        _SUBJECT.search(before) is not None and _FITS.match(after) is not None
    )


def is_bare(before: str, after: str) -> bool:
    """Whether a question is only an amount: "30k?", "Around 30k?"."""
    return _BARE.search(before) is not None and _BARE_AFTER.match(after) is not None


def is_range(between: str) -> bool:
    """Whether two amounts are the ends of a range or alternatives, by the words between them."""
    return _RANGE.fullmatch(between) is not None
