"""Which of several pieces of code is an answer's program: the last that defines the function, with what it uses of the others.

`colbench_gym.scoring.answer` has the rule. Every function takes time that is linear in the code.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from colbench_gym.scoring.python_names import (
    BUILTINS,
    Definition,
    Names,
    definition,
    is_main_guard,
    module_statements,
    names_of,
)


@dataclass(frozen=True)
class Piece:
    """A piece of code that is a module.

    Attributes:
        text: Its source.
        tree: The parsed source.
        is_program: False for input of a shell or output of a program that happens to parse: nothing of it is added to a program.
    """

    text: str
    tree: ast.Module
    is_program: bool = True

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the source, as the positions in the tree count them."""
        return self.text.split("\n")


@dataclass
class _Part:
    """A statement of a piece at module level; `place` is the index of the piece."""

    node: ast.stmt
    piece: Piece
    place: int

    @cached_property
    def names(self) -> Names:
        return names_of(self.node)


def program_of(pieces: Sequence[Piece], name: str) -> tuple[Definition, str]:
    """How firmly pieces define a function, and their program; "" if none defines it.

    Args:
        pieces: Pieces of an answer, in order.
        name: Name of the function.
    """
    functions = frozenset(
        node.name
        for piece in pieces
        for node in module_statements(piece.tree)
        if isinstance(node, ast.FunctionDef) and node.name != name
    )
    found = [definition(piece.tree, name, functions) for piece in pieces]
    best = max(found, default=Definition.NONE)
    if best is Definition.NONE:
        return best, ""
    chosen = len(found) - 1 - found[::-1].index(best)
    if len(pieces) == 1:
        return best, pieces[0].text
    return best, _with_parts(pieces, chosen, name)


def _with_parts(pieces: Sequence[Piece], chosen: int, name: str) -> str:
    """The chosen piece after the statements of the others that it uses."""
    needed, bound = _needs(pieces[chosen].tree)
    parts = [
        _Part(node, piece, place)
        for place, piece in enumerate(pieces)
        if place != chosen and piece.is_program
        for node in piece.tree.body
        if not is_main_guard(node)
    ]
    taken = [parts[i] for i in sorted(_used(parts, needed, bound, chosen, name))]
    if not taken:
        return pieces[chosen].text
    places = {part.place for part in taken}
    future = [one for place in sorted({*places, chosen}) for one in _future_imports(pieces[place].tree)]
    head = [f"from __future__ import {', '.join(dict.fromkeys(future))}"] if future else []
    texts = ["\n".join(_source(part.piece, part.node) for part in taken if part.place == place) for place in sorted(places)]
    return "\n\n".join([*head, *texts, _without_future_imports(pieces[chosen])])


def _needs(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a module uses and does not bind, or uses before it binds them, and those that it binds."""
    needed: set[str] = set()
    used: set[str] = set()
    bound: set[str] = set()
    for node in tree.body:
        names = names_of(node)
        needed |= (
            names.now - bound - (names.binds if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) else set())
        )
        used |= names.uses
        bound |= names.binds
    return (needed | (used - bound)) - BUILTINS, bound


def _used(parts: Sequence[_Part], needed: set[str], bound: set[str], chosen: int, name: str) -> set[int]:
    """Indices of the statements that the needed names come from, directly or through other statements."""
    giving: defaultdict[str, list[int]] = defaultdict(list)
    calling: defaultdict[str, list[int]] = defaultdict(list)
    writers: defaultdict[str, set[str]] = defaultdict(set)
    for i, part in enumerate(parts):
        if not _may_help(part, needed, name):
            continue
        for one in part.names.binds | part.names.changes:
            giving[one].append(i)
        for one in part.names.now:
            calling[one].append(i)
        for one in part.names.later:
            writers[one] |= part.names.binds
    taken: set[int] = {i for i in giving.get("*", ()) if parts[i].place < chosen}
    waiting, known = sorted(needed), set(needed)
    while waiting:
        one = waiting.pop()
        own = [i for i in giving[one] if parts[i].place < chosen]
        is_bound = any(one in parts[i].names.binds for i in own)
        own += [i for i in giving[one] if parts[i].place > chosen and (not is_bound or _is_function(parts[i].node))]
        own += [i for writer in sorted(writers[one]) for i in calling[writer] if parts[i].place < chosen]
        for i in own:
            if i not in taken:
                taken.add(i)
                new = parts[i].names.uses - known - BUILTINS - bound
                known |= new
                waiting += sorted(new)
    return taken


def _may_help(part: _Part, needed: set[str], name: str) -> bool:
    """False for another version of the function, and for a statement that calls it: an example or a test."""
    return name in needed or (name not in part.names.binds and name not in part.names.now)


def _is_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


# ---- sources ----------------------------------------------------------------------------------------------------------------


def _future_imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            yield from (alias.name for alias in node.names)


def _without_future_imports(piece: Piece) -> str:
    """The source of a piece with its imports from ``__future__``, which have to be first in a program, replaced by ``pass``."""
    lines = list(piece.lines)
    for node in reversed(piece.tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            first, last = lines[node.lineno - 1].encode(), lines[(node.end_lineno or node.lineno) - 1].encode()
            kept = first[: node.col_offset].decode() + "pass" + last[node.end_col_offset :].decode()
            lines[node.lineno - 1 : node.end_lineno] = [kept]
    return "\n".join(lines)


def _source(piece: Piece, node: ast.stmt) -> str:
    """The source of a statement at module level, with its decorators; without comments after it."""
    decorators = getattr(node, "decorator_list", ())
    start = min([node.lineno, *(one.lineno for one in decorators)]) - 1
    lines = [line.encode() for line in piece.lines[start : node.end_lineno]]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][0 if decorators else node.col_offset :]
    return b"\n".join(lines).decode()


def without_prose(piece: Piece) -> Piece:
    """A piece without lone words at module level that it does not define, such as "Done": prose that parses, and would end the program."""
    suspects = [node for node in piece.tree.body if _is_word(node)]
    if not suspects:
        return piece
    bound = {one for node in piece.tree.body for one in names_of(node).binds} | BUILTINS
    prose = [node for node in suspects if not names_of(node).now <= bound]
    lines = list(piece.lines)
    for node in prose:
        for i in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[i] = ""
    left_out = set(map(id, prose))
    kept = ast.Module([node for node in piece.tree.body if id(node) not in left_out], [])
    lines_left = {line for node in kept.body for line in (node.lineno, node.end_lineno)}
    if not prose or not kept.body or lines_left & {line for node in prose for line in (node.lineno, node.end_lineno)}:
        return piece
    return Piece("\n".join(lines), kept, piece.is_program)


def _is_word(node: ast.stmt) -> bool:
    """Whether a statement consists of names alone and calls nothing."""
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return (
        isinstance(node, ast.Expr)
        and not isinstance(node.value, ast.Constant)
        and not any(isinstance(one, ast.Call | ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) for one in ast.walk(node))
    )
