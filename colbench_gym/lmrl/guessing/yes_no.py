"""Understand a yes/no question about a secret: the answer for every secret of a table.

All conditions of a question must hold that "and", "with" or "but" join ("a capital with more than five million people"). Each is, in this order: a guess
that names a secret; the letters of the name; a comparison (`comparisons`); attributes, by names that only some of them have ("Europe", "Spanish") or
by likeness (`attribute_index`). A "not" turns the answer around. What is not understood is answered with no, as the original's oracle does with
whatever is neither yes nor no.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from colbench_gym.lmrl.guessing.attribute_index import AttributeIndex
from colbench_gym.lmrl.guessing.comparisons import compared, number
from colbench_gym.lmrl.guessing.secret_table import SecretTable, Truths, load_table, plain
from colbench_gym.simulators.understanding.questions import prose

#: Minimal score of an attribute without a key; of a further one, which an "or" or a name adds.
MATCH, MATCH_MORE = 0.45, 0.7
#: Minimal score of an attribute that makes a part of a question a condition of its own; that of a whole question that has but one condition.
MATCH_PART, MATCH_WHOLE = 0.5, 0.85
#: Of attributes with the same key, the first is meant unless another one scores this much more.
MARGIN = 0.07
CACHED_QUESTIONS, MAX_CHARS = 16384, 400

#: Words that a guess may have besides a name.
_FILLERS = frozenset([
    "a", "about", "actual", "an", "and", "answer", "any", "anything", "are", "assume", "based", "be", "believe", "bet", "by",
    "called", "can", "chance", "city", "correct", "could", "current", "did", "do", "does", "else", "exactly", "final", "finally",
    "from", "gonna", "got", "guess", "guessing", "happen", "hey", "how", "i", "i'd", "i'll", "i'm", "in", "is", "it", "it's",
    "just", "kind", "know", "let", "lets", "likely", "live", "located", "looking", "may", "must", "maybe", "me", "mean", "might", "my",
    "name", "named", "now", "object", "of", "ok", "okay", "one", "or", "pair", "perhaps", "piece", "place", "possibly", "probably",
    "right", "say", "saying", "secret", "set", "so", "solution", "some", "something", "sort", "sure", "talk", "talking", "that",
    "that's", "the", "then", "there", "thing", "think", "thinking", "this", "to", "town", "try", "type", "was", "we", "were",
    "what", "will", "with", "word", "would", "yes", "you", "you're", "your",
])  # fmt: skip
_TAG = re.compile(
    r"[,;] ?(?:is|isn't|does|doesn't|do|don't|can|can't|are|aren't|has|hasn't|was|wasn't|right|correct|yes|no)\b(?: (?:it|they|you|that))?\W*$"
)
_NEGATIVE_OPENING = re.compile(
    r"^(?:and |so |but |then |ok |okay |well )?(?:is|are|does|do|ca|could|would|has|was|were|should|did|have|wo)n'?t "
)
_NOT = re.compile(
    r"\b(?:not|cannot|never|neither|lacks?|without|non|no|unable|impossible)\b|n't\b|\boutside (?:of )?(?=europe|asia|africa|the|north|south)|\bother than\b"
)
#: Further words that make no condition: "a country with ...".
_NOTHING = frozenset(["country", "has", "have", "nation", "they"])
_JOINT = re.compile(r",? (and|with|but|as well as) ")
_OPENING = re.compile(
    r"(?:is|are|was|does|do|did|can|has|have|could|would) (?:it|they|there|you|people|(?:the|this|your|its) (?:city|name|country))(?: have)?\b"
)
_HAS = re.compile(r"^(?:it |they )?(?:has|have|having)\b")
_SENTENCE = re.compile(r"(?:is|are|was|were|does|do|did|can|could|would|has|have|it|they|there|people)\b|\w+n't\b")
#: What belongs together: "between 1 and 2", "starts with".
_TOGETHER = re.compile(
    r"\bbetween\b.*? (?=and )"
    r"|\b(?:\w+ed|borders?|done|familiar|it|made|pay|play|popular|share|starts?|begins?|ends?|that|them|this|ties|trade|use|war) (?=with )"
)
_HAS_GOT = re.compile(r"\bha(?:s|ve) (it|they) got\b")
_LETTER = r"(?:the )?(?:letters? )?(?:an? )?(?!a (?!(?:and|or|in|but)\b)\w)['\"]?(?P<letter>[a-z])['\"]?(?!\w)"
_STARTS = re.compile(rf"\b(?:starts?|begins?|starting|beginning|first letter)\b(?: \w+)? ?(?:with|is|in|by)? {_LETTER}")
_ENDS = re.compile(rf"\b(?:ends?|ending|last letter)\b(?: \w+)? ?(?:with|is|in|by|on)? {_LETTER}")
_SOUND = re.compile(
    r"\b(?P<place>starts?|begins?|starting|beginning|first letter|ends?|ending|last letter)\b(?: \w+){0,3}? (?P<sound>vowel|consonant)s?\b"
)
_CONTAINS = re.compile(
    r"\b(?:contains?|have|has|include|is there|got)\b(?: the| an?)* letter ['\"]?(?P<letter>[a-z])['\"]?(?!\w)"
)


class YesNo:
    """The understanding of questions about one table. Safe to share among threads.

    Args:
        table: The table.
    """

    def __init__(self, table: SecretTable) -> None:
        self.table = table
        attributes = (*table.attributes, *table.understood)
        free = [attribute for attribute in attributes if not attribute.keys]
        self._free, self._keyed = free, [attribute for attribute in attributes if attribute.keys]
        keys = {key for attribute in self._keyed for key in attribute.keys}
        self._keys = re.compile(
            rf"(?<!\w)(?:{'|'.join(sorted(map(re.escape, keys), key=len, reverse=True))})(?!\w)" if keys else "(?!)"
        )
        self._index = AttributeIndex([attribute.questions for attribute in free])
        # What distinguishes "speak Spanish" from "a Spanish colony" is the rest of the question.
        self._key_index = AttributeIndex(
            [tuple(self._keys.sub(" ", plain(text)) for text in attribute.questions) for attribute in self._keyed]
        )
        self.answers = lru_cache(maxsize=CACHED_QUESTIONS)(self._answers)

    def guesses(self, question: str) -> list[int]:
        """The secrets that a question guesses: it names them and says nothing else. "Is it bigger than a car?" guesses nothing."""
        text = plain(prose(question))[:MAX_CHARS]
        named = self.table.named(text)
        if not named:
            return []
        rest = text
        for i, start, end in reversed(named):
            groups = re.escape(plain(self.table.secrets[i].group))
            rest = (
                rest[:start] + re.sub(rf"^[\s,(]*(?:in )?{groups}\b", "", rest[end:])
                if self.table.kind == "city"
                else rest[:start] + rest[end:]
            )
        if self.table.kind == "object" and re.search(r"\bis it orange\b", text):  # the color: the fruit has an article
            return []
        words = re.findall(r"[a-z']+", _TAG.sub("", rest))
        is_guess = all(word in _FILLERS for word in words) and not re.search(r"\d", rest)
        return list(dict.fromkeys(i for i, _, _ in named)) if is_guess else []

    def _answers(self, question: str) -> Truths:
        """For which secrets the answer is yes, shape (secrets,). `answers` is this function with a cache."""
        text = plain(prose(question))[:MAX_CHARS]
        if not re.search(r"[a-z]", text):
            return np.zeros(len(self.table.secrets), bool)
        text = _without_tag(_HAS_GOT.sub(r"does \1 have", text))
        answers = np.all([self._condition(part) for part in self._conditions(text)], axis=0)
        answers.setflags(write=False)  # it stays in the cache
        return np.asarray(answers)

    def _condition(self, text: str) -> Truths:
        """The answer to a question of one condition."""
        is_turned, text = _without_negation(text)
        truths = self._positive(text)
        if truths is None:
            return np.zeros(len(self.table.secrets), bool)
        return ~truths if is_turned else truths

    def _conditions(self, text: str) -> list[str]:
        """The conditions of a question that all must hold, each as a question. A part that is none belongs to the one before it.

        "Red or blue" is one condition, as is "Chinese and Japanese", where the second word has no sense without the first.
        """
        first, *others = _JOINT.split(_TOGETHER.sub(r"\g<0>_", text))
        if not others or self.guesses(text) or self._index.scores(text).max() >= MATCH_WHOLE:
            return [text]
        conditions = [first]
        for joint, part in zip(others[::2], others[1::2], strict=True):
            last = conditions[-1]
            question = max(_as_questions(part, joint, last), key=lambda text: self._index.scores(text).max())
            if not self._is_bare_key(part, last) and self._is_condition(last) and self._is_condition(question):
                conditions.append(question)
            else:
                conditions[-1] = f"{last} {joint} {part}"
        return [part.replace(" _", " ") for part in conditions] if len(conditions) > 1 else [text]

    def _is_condition(self, text: str) -> bool:
        """Whether a part of a question is surely understood without the rest."""
        text = _without_negation(text.replace(" _", " "))[1]
        if self.guesses(text) or all(word in _FILLERS | _NOTHING for word in re.findall(r"[a-z0-9']+", text)):
            return False
        is_known = bool(self._keys.search(text)) or any(know(self.table, text) is not None for know in (spelled, compared))
        return is_known or bool(self._index.scores(text).max() >= MATCH_PART)

    def _is_bare_key(self, part: str, last: str) -> bool:
        """Whether a part is but the name of a place, or the like, that continues another one."""
        words = re.findall(r"[a-z']+", self._keys.sub(" ", part))
        return bool(self._keys.search(part) and self._keys.search(last)) and all(
            word in _FILLERS - {"is", "it"} for word in words
        )

    def _positive(self, text: str) -> Truths | None:
        """The answer to a question without "not"; None if it is not understood."""
        guessed = self.guesses(text)
        if guessed:
            return np.isin(np.arange(len(self.table.secrets)), guessed)
        for understand in (spelled, compared):
            truths = understand(self.table, text)
            if truths is not None:
                return truths
        return self._by_attributes(text)

    def _by_attributes(self, text: str) -> Truths | None:
        keyed = self._by_keys(text)
        if keyed is not None:
            return keyed
        part_truths = []
        for least, part in [(MATCH, text), *((MATCH_MORE, part) for part in text.split(" or ")[1:])]:
            scores = self._index.scores(part)
            if scores.max() >= least:
                part_truths.append(self._free[int(scores.argmax())].truths)
        return np.asarray(np.any(part_truths, axis=0)) if part_truths else None

    def _by_keys(self, text: str) -> Truths | None:
        """The answer by the attributes whose keys a text has: all must hold, or one where an "or" stands between; None without a key."""
        keys = list(dict.fromkeys(match.group() for match in self._keys.finditer(text)))
        if not keys:
            return None
        rest = self._keys.sub(" ", text)
        scores, free = self._key_index.scores(rest), self._index.scores(rest)
        each = []
        for key in keys:
            first, *others = [i for i, attribute in enumerate(self._keyed) if key in attribute.keys]
            best = max(others, key=lambda i: scores[i], default=first)
            each.append(self._keyed[best if scores[best] > scores[first] + MARGIN else first].truths)
        truths = np.any(each, axis=0) if re.search(r"\b(?:or|nor)\b", text) else np.all(each, axis=0)
        if free.max() >= max(MATCH_MORE, scores.max()):  # "a European capital"
            truths = truths & self._free[int(free.argmax())].truths
        return np.asarray(truths)


def _as_questions(part: str, joint: str, last: str) -> list[str]:
    """What a part of a question may be as a question of its own: it begins as the one before it if it has no beginning."""
    has = _HAS.match(part)
    if has or joint == "with":
        return [f"does it have {part[has.end() if has else 0 :].strip()}"]
    if _SENTENCE.match(part):
        return [part]
    opening = _OPENING.match(last)
    questions = [f"{opening.group() if opening else 'is it'} {part}"]
    if re.fullmatch(r"[a-z]+\W*", part) and " " in last:  # "used for reading and writing"
        questions.append(f"{last.rpartition(' ')[0]} {part}")
    return questions


def _without_tag(text: str) -> str:
    """A question without the "is it?" at its end, which takes the "not" away before it."""
    tag = _TAG.search(text)
    if tag is None:
        return text
    text = text[: tag.start()]
    return _NOT.sub(" ", text) if re.search(r" (?:it|they|you|that)\b", tag.group()) else text


def _without_negation(text: str) -> tuple[bool, str]:
    """Whether a question asks for the opposite, and the question without its "not". "Isn't it ...?" asks for the thing itself."""
    text = re.sub(r"\bin(?=edible\b)", "not ", text)
    text = _NEGATIVE_OPENING.sub("is ", text)
    text = re.sub(r"\bor not\b|\bif not\b|\bnot only\b", " ", text)
    negations = len(_NOT.findall(text))
    text = re.sub(r"\b(can|do|does|is|could)(?:n't|not)\b", r"\1", text)
    text = re.sub(r"\bnor\b", "or", re.sub(r"\b(?:not|neither)\b", " ", text))
    return negations % 2 == 1, " ".join(text.split())


def spelled(table: SecretTable, text: str) -> Truths | None:
    """The answer to a question about letters and words of a name; None if it is none. `text` is as from `plain`."""
    is_of_group = table.kind == "city" and re.search(r"\bcountry\b", text) is not None
    names = [plain(secret.group) for secret in table.secrets] if is_of_group else list(table.plain_names)
    letters = {"start": _STARTS.search(text), "end": _ENDS.search(text), "in": _CONTAINS.search(text)}
    for kind, match in letters.items():
        if match:
            letter = match["letter"]
            return np.array([
                name.startswith(letter) if kind == "start" else name.endswith(letter) if kind == "end" else letter in name for name in names
            ])  # fmt: skip
    if sound := _SOUND.search(text):
        at = -1 if sound["place"].startswith(("end", "last")) else 0
        return np.array([(re.sub(r"\W", "", name)[at] in "aeiou") == (sound["sound"] == "vowel") for name in names])
    counted = number(text)
    match = re.search(r"\b(letters?|words?)\b", text)
    if counted is None or match is None or not re.search(r"\bname|\bword|\bletters?\b|\bspell", text):
        return None
    lengths = np.array([len(name.split()) if match[1].startswith("word") else len(re.sub(r"\W", "", name)) for name in names])
    before = text[: counted[1]]
    if re.search(r"\b(?:more|over|longer|at least)\b", before):
        return np.asarray(lengths > counted[0] - ("at least" in before))
    if re.search(r"\b(?:less|fewer|under|shorter|at most)\b", before):
        return np.asarray(lengths < counted[0] + ("at most" in before))
    return np.asarray(lengths == counted[0])


@lru_cache(maxsize=2)
def understanding(name: str) -> YesNo:
    """The understanding of questions about the table "objects" or "cities", built once."""
    return YesNo(load_table(name))
