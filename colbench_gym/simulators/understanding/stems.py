"""Word matching of the scripted human: stems, words with little weight, and synonyms.

The stemmer is a small set of suffix rules. It need not be correct English. It only has to map the forms of one word
("rounded", "rounding", "rounds") to one stem, and different words to different stems, most of the time.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_CONTRACTION = re.compile(r"[’'](?:s|t|re|ve|ll|d|m)\b")
_IN_CASE = re.compile(r"\b(?:edge|corner|special|use|test|such|other|in(?: that| this| the| any)?) cases?\b")
_VOWEL = re.compile(r"[aeiouy]")

# Words that occur in every question. They keep a small weight, so that questions of such words alone can still be distinguished.
_STOP_WORDS = """
a about after again all also although am an and another any are as at back be because been before being both but by can cannot
could did do does doing don done each either ever every for from get gets give given go goes got had happen happens has have
having he her here him his how i if in instead into is isn it its itself just kind let like ll look looks make makes many may me
might more most much must my myself need needs neither no not of ok okay on once one only or other our out over own per please
really right same say shall she should so some something such sure take takes than thank thanks that the their them themselves
then there these they thing things this those through to too treat treated us use used using very want wanted wants was we well
were what whatever when where whether which while who whose why will wish wishes with within without won would yes yet you your
"""

# Words of small talk and of programming in general, which indicate no topic.
_SMALL_TALK = """
additional additionally anything aspect assume assuming behave behavior behaviour besides better clarification clarify clear code
common confirm consider correct correctly define else ensure everything example examples expect expected explain following
function further handle handled handling help helpful implement implementation implemented information know main mean mention note
particular particularly possible problem program provide provided providing python question questions script specifically start
task tell understand work works write
"""

# Words that ask for everything at once. They count only if a fact has them as keywords.
_BLANKET_WORDS = """
case cases condition conditions constraint constraints criteria detail details determine edge exact exactly piece requirement
requirements rule rules scenario scenarios special specific specification story
"""

# Words that occur in nearly every question about a function. They count little.
_COMMON_WORDS = "return returns returned output outputs result results answer value values input inputs list give parameter"

# Groups of synonyms. A match through a group counts less than a match of the word itself.
_SYNONYM_GROUPS = """
empty blank missing absent none nothing null
round rounding rounded decimals decimal precision precise cents digits integer whole
return returns output result answer
error errors exception exceptions raise invalid fail bad wrong malformed
sort sorted order ordering ordered ascending descending
case uppercase lowercase capital capitals capitalization insensitive sensitive
limit maximum max cap upper most ceiling highest
minimum min floor lower least lowest
negative minus below
zero 0
percent percentage rate share
duplicate duplicates repeated twice unique distinct
tie ties equal draw
default otherwise fallback unknown unrecognized unlisted match found
type format structure shape form dictionary dict list tuple string
formula calculate calculated calculation compute computed computation equation
weight weights factor coefficient multiplier
threshold thresholds boundary cutoff range ranges
key keys field fields attribute attributes
category categories categorize group groups class classify
text string message wording phrase
boolean true false
possible allowed valid accepted values value options option
"""

_DOUBLED = re.compile(r"([bdgklmnprt])\1$")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a lower-case word, without plural, -ing, -ed, -er, -ly, -ion and a final e or y."""
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for suffix in ("ation", "ing", "ize", "ed", "ly", "ion", "er"):
        root = word[: -len(suffix)]
        if word.endswith(suffix) and len(root) >= 3 and _VOWEL.search(root) and not word.endswith(("eed", "eing")):
            word = _DOUBLED.sub(r"\1", root) + ("at" if suffix == "ation" else "")
            break
    if word.endswith("iz") and len(word) > 5:
        word = word[:-2]
    return word[:-1] if word.endswith(("e", "y")) and len(word) > 3 else word


def stems(text: str) -> list[str]:
    """The stems of a text in order, with repetitions. snake_case is split into words. "in that case" is no question about letter case."""
    plain = _IN_CASE.sub(" edge ", _CONTRACTION.sub("", text.lower()))
    return [stem(word) for word in _WORD.findall(plain)]


LIGHT: frozenset[str] = frozenset(stems(_STOP_WORDS)) | frozenset(stems(_SMALL_TALK))
BLANKET: frozenset[str] = frozenset(stems(_BLANKET_WORDS))
COMMON: frozenset[str] = frozenset(stems(_COMMON_WORDS))
GROUP: dict[str, int] = {
    word: number for number, line in reversed(list(enumerate(_SYNONYM_GROUPS.strip().splitlines()))) for word in stems(line)
}


def is_light(word: str) -> bool:
    """True for stems that say nothing about the topic of a question: stop words, small talk and lone letters."""
    return word in LIGHT or (len(word) == 1 and not word.isdigit())
