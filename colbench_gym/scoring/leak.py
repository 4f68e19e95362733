"""Measure how much of the reference a reply reveals.

A simulated human may talk about names and values, but must not reveal code. The metric compares token sequences, so spacing,
comments, quotes and invisible characters do not matter. It counts only common runs that are too long to be a coincidence. Code within
quotation marks or behind # is code in a reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from colbench_gym.scoring.unseen import visible

MIN_RUN = 5
_STRING = r"""(?<!\w)[rRbBuUfF]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""
_TOKEN = re.compile(
    _STRING + r"|#[^\n]*|\d+(?:\.\d+)?|[^\W\d]\w*|\*\*=?|//=?|[=!<>+*/:-]=|->|[^\w\s]",
    re.DOTALL,
)
_QUOTES = re.compile(r"^[rRbBuUfF]{0,2}['\"]+|['\"]+$")
_ESCAPE, _ESCAPED = re.compile(r"\\([nt\"'])"), {"n": "\n", "t": "\t"}
# A run of words and commas may be prose; a run with any other sign is code.
_SIGN = re.compile(r"[^\w\s'\".,;:!?’-]|[-:]=")


def leak_fraction(reply: str, reference: str, public: str = "") -> float:
    """Fraction of the reference's non-public code tokens that a reply contains.

    It uses greedy string tiling (Wise): the longest common run of tokens is removed from both texts, then the next one, down to runs
    of `MIN_RUN` tokens. A token of the reply matches at most one token of the reference. Only runs of code count: runs with an
    operator or a bracket. So a reply that names parameters and lists values scores 0, and a reply that pastes half of the body
    scores about 0.5.

    Args:
        reply: Reply of the simulated human.
        reference: Source of the reference.
        public: The part of the reference that the agent sees, such as the signature.

    Returns:
        A number in [0, 1]; 0 for a reference without non-public tokens.
    """
    reply = visible(reply)
    if not _SIGN.search(reply):  # no run of it can be code
        return 0.0
    _, ours = _tile(tokens(reference), tokens(public))
    size = sum(token is not None for token in ours)
    readings = {tuple(tokens(reply)), tuple(_bare(reply))}
    return max(_tile(ours, theirs)[0] for theirs in readings) / size if size else 0.0


def _bare(text: str) -> list[str]:
    """Code tokens of a text, those of what it quotes or comments out among them: a string with a sign of code is what it contains."""
    text = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text.replace("#", " "))
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        content = _QUOTES.sub("", match.group()) if match.group()[-1] in "'\"" else ""
        found += (
            _bare(content) if _SIGN.search(content) and len(content) < len(match.group()) else [_plain_quotes(match.group())]
        )
    return found


def tokens(text: str) -> list[str]:
    """Code tokens of a text, which need not parse: without comments and spaces, all strings with the same quotes."""
    words = (match.group() for match in _TOKEN.finditer(text))
    return [_plain_quotes(token) for token in words if not token.startswith("#")]


def _plain_quotes(token: str) -> str:
    return "'" + _QUOTES.sub("", token) + "'" if len(token) > 1 and token[-1] in "'\"" else token


def _runs(ours: Sequence[str | None], theirs: Sequence[str | None]) -> Iterator[tuple[int, int, int]]:
    """Common runs as (length, end in ours, end in theirs), one for each pair of end positions. None matches nothing."""
    row = [0] * (len(theirs) + 1)
    for end, token in enumerate(ours, 1):
        row = [0, *(row[j] + 1 if token == other and token is not None else 0 for j, other in enumerate(theirs))]
        yield from ((length, end, j) for j, length in enumerate(row) if length)


def _tile(ours: Sequence[str | None], theirs: Sequence[str | None]) -> tuple[int, list[str | None]]:
    """Number of tokens of `ours` in code tiles, and `ours` with None in place of all tiled tokens."""
    mine, other = list(ours), list(theirs)
    count = 0
    while True:
        length, end, their_end = max(_runs(mine, other), default=(0, 0, 0))
        if length < MIN_RUN:
            return count, mine
        code = [token for token in mine[end - length : end] if token is not None and not token.startswith("'")]
        count += length if any(map(_SIGN.search, code)) else 0
        mine[end - length : end] = [None] * length
        other[their_end - length : their_end] = [None] * length
