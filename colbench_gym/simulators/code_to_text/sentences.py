"""Sentences of bounded length about expressions.

A sentence is a list of pieces: fixed words, and slots with an expression. If the sentence gets too long, a sub-expression gets a
name ("part A", "condition B") and a sentence of its own. Long sums, lists, tables, texts and chains of conditions are split into
several sentences instead. The result is a list of facts, each short enough for a reply.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

from colbench_gym.simulators.code_to_text.expressions import Speaker, is_text, terms
from colbench_gym.simulators.code_to_text.plain_names import be, capitalised, quoted
from colbench_gym.tasks.task import Fact

MAX_WORDS, MAX_CHARS = 27, 198
MAX_TEXT_CHARS = 130
_MAX_CANDIDATES = 80
_QUOTED = re.compile(r"'[^'\n]*'(?!\w)|\"[^\"\n]*\"")
_CODE = re.compile(r"[_=<>\[\](){}*+/%^|&~@#\\`$]")


@dataclass(frozen=True)
class Slot:
    """An expression inside a sentence.

    Attributes:
        node: The expression.
        style: "value" for a noun phrase, "condition" for a clause, "negated" for the opposite clause.
    """

    node: ast.expr
    style: str = "value"


Piece = str | Slot


@dataclass(frozen=True)
class Subject:
    """The subject of a fact: its topic, its keywords, and whether it may be volunteered."""

    topic: str
    keywords: tuple[str, ...] = ()
    is_special: bool = True


class Writer:
    """Collects facts.

    Attributes:
        facts: The facts so far, in order, without repeats and without sentences that could not be shortened enough.
    """

    def __init__(self, speaker: Speaker) -> None:
        self.facts: list[Fact] = []
        self._speaker = speaker
        self._sentences: set[str] = set()
        # Names are keyed by the ids of nodes, and the id of a deleted node may be reused.
        self._kept_alive: list[ast.expr] = []
        self._letters = list(reversed(string.ascii_uppercase))

    def tell(self, subject: Subject, pieces: Sequence[Piece]) -> None:
        """Add one statement as a sentence, with further sentences for the parts that do not fit into it."""
        named: list[tuple[str, ast.expr]] = []
        while not _fits(self._render(pieces)) and self._letters:
            chosen = self._shorten(pieces)
            if chosen is None:
                break
            named.append(chosen)
        self._keep(subject, self._render(pieces))
        for name, node in named:
            del self._speaker.named[id(node)]
            self.define(subject, name, node)
            self._speaker.named[id(node)] = name

    def define(self, subject: Subject, name: str, node: ast.expr, opening: Sequence[Piece] = ()) -> None:
        """Define a name, in several sentences if its expression is a long enumeration.

        Args:
            subject: What the facts are about.
            name: The noun that stands for the expression.
            node: The expression.
            opening: Loops and conditions around the expression.
        """
        is_condition = name.startswith("condition ")
        verb = " holds when " if is_condition else f" {be(name)} "
        pieces: list[Piece] = [*opening, name, verb, Slot(node, "condition" if is_condition else "value")]
        if _fits(self._render(pieces)):
            self._keep(subject, self._render(pieces))
            return
        parts = _parts(node)
        if parts is None or len(parts[-1]) < 2:
            self.tell(subject, pieces)
            return
        first, further, link, slots = parts
        self._spread(subject, [*opening, f"{name} {first} "], [*opening, f"{name} {further} "], link, slots)

    def _spread(
        self, subject: Subject, opening: list[Piece], further: list[Piece], link: str, slots: list[list[Piece]]
    ) -> None:
        """Pack the slots into as few sentences as possible."""
        taken: list[list[Piece]] = []
        for slot in [*slots, None]:
            if slot is not None and (not taken or _fits(self._render([*opening, *_linked([*taken, slot], link)]))):
                taken.append(slot)
                continue
            self.tell(subject, [*opening, *_linked(taken, link)])
            opening, taken = further, [slot] if slot is not None else []
        if taken:
            self.tell(subject, [*opening, *_linked(taken, link)])

    def _render(self, pieces: Sequence[Piece]) -> str:
        words = []
        for piece in pieces:
            if isinstance(piece, str):
                words.append(piece)
            elif piece.style == "value":
                words.append(self._speaker.phrase(piece.node))
            else:
                words.append(self._speaker.condition(piece.node, piece.style == "negated"))
        return "".join(words)

    def _shorten(self, pieces: Sequence[Piece]) -> tuple[str, ast.expr] | None:
        """Name the smallest sub-expression that makes the sentence short enough, else the one that shortens it most."""
        before = self._render(pieces)
        slots = [piece.node for piece in pieces if isinstance(piece, Slot)]
        is_definition = len(slots) == 1 and len(before) < len(self._speaker.phrase(slots[0])) + 60
        best: tuple[tuple[bool, bool, bool, int], str, ast.expr] | None = None
        for node in _candidates(slots, skip_top=is_definition and _parts(slots[0]) is None):
            if id(node) in self._speaker.named:
                continue
            name = f"{self._label(node)} {self._letters[-1]}"
            self._speaker.named[id(node)] = name
            after = self._render(pieces)
            del self._speaker.named[id(node)]
            if len(after) > len(before) - 12:
                continue
            is_part = all(node is not slot for slot in slots)
            is_small = len(after) > len(before) - 20
            rank = (not _fits(after), is_small, is_part, -len(after) if _fits(after) else len(after))
            if best is None or rank < best[0]:
                best = (rank, name, node)
        if best is None:
            return None
        self._letters.pop()
        self._kept_alive.append(best[2])
        self._speaker.named[id(best[2])] = best[1]
        return best[1:]

    def _label(self, node: ast.expr) -> str:
        if self._speaker.phrase(node).startswith("whether "):
            return "condition"
        return "text" if is_text(node) else "part"

    def _keep(self, subject: Subject, words: str) -> None:
        sentence = capitalised(" ".join(words.split()).rstrip(" .,")) + "."
        if _fits(words) and not _CODE.search(_QUOTED.sub("", sentence)) and sentence not in self._sentences:
            self._sentences.add(sentence)
            self.facts.append(Fact(subject.topic, sentence, subject.keywords, subject.is_special))


def _fits(words: str) -> bool:
    return len(words) < MAX_CHARS and len(_QUOTED.sub("q", words).split()) <= MAX_WORDS


def _candidates(slots: list[ast.expr], skip_top: bool) -> list[ast.expr]:
    nodes: list[ast.expr] = []
    for slot in slots:
        for node in ast.walk(slot):
            is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
            if not isinstance(node, ast.expr) or isinstance(node, (ast.Slice, ast.Name, ast.Starred, ast.Lambda)) or is_stored:
                continue
            if not (skip_top and node is slot):
                nodes.append(node)
    return nodes[:_MAX_CANDIDATES]


def _linked(slots: Sequence[Sequence[Piece]], link: str) -> list[Piece]:
    pieces: list[Piece] = []
    for number_, slot in enumerate(slots):
        if number_:
            pieces.append(link if number_ == len(slots) - 1 or "then" in link else ", ")
        pieces.extend(slot)
    return pieces


_Parts = tuple[str, str, str, list[list[Piece]]]


def _parts(node: ast.expr) -> _Parts | None:
    """How to split an expression into sentences: verb of the first, verb of the others, link, pieces; None if impossible."""
    if isinstance(node, ast.Dict) and node.keys:
        entries: list[list[Piece]] = [
            [Slot(key), " as ", Slot(value)] if key else ["all of ", Slot(value)]
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return "has", "also has", " and ", entries
    if isinstance(node, (ast.List, ast.Set)) and node.elts:
        return "has", "goes on with", " and ", [[Slot(element)] for element in node.elts]
    if isinstance(node, ast.Tuple) and node.elts:
        return "has, in this order,", "goes on with", " and ", [[Slot(element)] for element in node.elts]
    if isinstance(node, ast.BoolOp):
        is_and = isinstance(node.op, ast.And)
        slots: list[list[Piece]] = [[Slot(value, "condition")] for value in node.values]
        return ("needs that", "also needs that", " and ", slots) if is_and else ("holds when", "also holds when", " or ", slots)
    if isinstance(node, ast.JoinedStr):
        return "starts with", "goes on with", ", then ", [[piece] for value in node.values for piece in _text_pieces(value)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 20:
        return "starts with", "goes on with", ", then ", [[piece] for piece in _text_pieces(node)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _sum_parts(node)
    return None


def _sum_parts(node: ast.BinOp) -> _Parts:
    if is_text(node):
        pieces = [piece for _, term in terms(node) for piece in _text_pieces(term)]
        return "starts with", "goes on with", ", then ", [[piece] for piece in pieces]
    slots: list[list[Piece]] = [["" if is_added else "minus ", Slot(term)] for is_added, term in terms(node)]
    return "adds up", "also adds", " and ", slots


def _text_pieces(node: ast.expr) -> list[Piece]:
    """A text as pieces short enough for a sentence each, cut between words."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or len(node.value) <= MAX_TEXT_CHARS:
        return [Slot(node)]
    pieces, rest = [], node.value
    while len(rest) > MAX_TEXT_CHARS:
        cut = rest.rfind(" ", 1, MAX_TEXT_CHARS) + 1 or MAX_TEXT_CHARS
        pieces.append(quoted(rest[:cut]))
        rest = rest[cut:]
    return [*pieces, quoted(rest)]
