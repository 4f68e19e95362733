"""How much of the reference a reply gives away.

A human may talk about names and values; it must not hand over code. The measure compares token sequences, so spacing,
comments and quotes do not matter, and counts only runs that are too long to be chance.
"""

from __future__ import annotations

import re

MIN_RUN = 5
_TOKEN = re.compile(
    r"""(?:[rRbBuUfF]{0,2})(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""  # string
    r"|#[^\n]*"
    r"|\d+(?:\.\d+)?|[^\W\d]\w*"
    r"|\*\*=?|//=?|==|!=|<=|>=|->|:=|\+=|-=|\*=|/=|[^\w\s]",
    re.DOTALL,
)
_OPERATOR = re.compile(r"[^\w\s'\".,;:!?’-]|^[=<>+*/%]")


def leak_fraction(reply: str, reference: str) -> float:
    """Share of the reference's code tokens that stand in a reply.

    A token of the reference counts as given away if it lies in a run of at least `MIN_RUN` tokens that also stands in the
    reply, and the run is code: it holds an operator or a bracket, or is longer than any phrase of plain words would be. So a
    reply that names parameters and values scores 0, and one that pastes half of the body scores about 0.5.

    Args:
        reply: What the human said.
        reference: Source of the reference.

    Returns:
        A number in [0, 1]; 0 for a reference without tokens.
    """
    ours, theirs = tokens(reference), tokens(reply)
    if not ours:
        return 0.0
    return sum(_covered(ours, theirs)) / len(ours)


def longest_common_run(reply: str, reference: str) -> int:
    """Length in tokens of the longest run that a reply and a reference share; comments do not count."""
    ours, theirs = tokens(reference), tokens(reply)
    return max(map(max, _run_lengths(ours, theirs)), default=0) if ours and theirs else 0


def tokens(text: str) -> list[str]:
    """Code tokens of a text, whether it parses or not: no comments and no spaces, strings in one kind of quotes."""
    found = (match.group() for match in _TOKEN.finditer(text))
    return [_plain_quotes(token) for token in found if not token.startswith("#")]


def _plain_quotes(token: str) -> str:
    is_string = token[-1:] in ("'", '"') and len(token) > 1
    return "'" + token.strip("'\"") + "'" if is_string else token


def _run_lengths(ours: list[str], theirs: list[str]) -> list[list[int]]:
    """Entry [i][j]: length of the common run that ends before token i of ours and token j of theirs."""
    rows = [[0] * (len(theirs) + 1)]
    for token in ours:
        above = rows[-1]
        rows.append([0, *(above[j] + 1 if token == other else 0 for j, other in enumerate(theirs))])
    return rows


def _covered(ours: list[str], theirs: list[str]) -> list[bool]:
    covered = [False] * len(ours)
    if not theirs:
        return covered
    for end, row in enumerate(_run_lengths(ours, theirs)):
        length = max(row)
        run = ours[end - length : end]
        if length >= MIN_RUN and _is_code(run):
            covered[end - length : end] = [True] * length
    return covered


def _is_code(run: list[str]) -> bool:
    return len(run) >= 3 * MIN_RUN or any(_OPERATOR.match(token) for token in run)
