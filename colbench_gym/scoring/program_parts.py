"""Which of several pieces of code is an answer's program: the last that defines the function, with what it uses of the others.

`colbench_gym.scoring.answer` has the rule. Every function takes time that is linear in the code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

from colbench_gym.python_source import parse_source
from colbench_gym.scoring.python_names import (
    BUILTINS,
    Definition,
    Names,
    definition,
    is_main_guard,
    is_stub,
    module_statements,
    names_of,
)

#: A comment in place of a part of a function: "# ...", "# ... existing code ...", "# ... (unchanged)".
_ELIDED = re.compile(
    r"^[ \t]+#[ \t]*(?:\.{3}|…)(?:[ (]+(?:the|your|existing|previous|remaining|rest|other|of|code|function|body|logic|implementation|lines|steps"
    r"|same|as|before|above|earlier|is|are|stays?|remains?|unchanged|omitted|for|brevity|here|goes)\b){0,9}[ )]*(?:\.{3}|…)?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Piece:
    """A piece of code that is a module.

    Attributes:
        text: Its source.
        tree: The parsed source.
        is_program: False for input of a shell or output of a program that happens to parse: nothing of it is added to a program.
        is_prose: Whether it stands in prose, and not in a block of code.
    """

    text: str
    tree: ast.Module
    is_program: bool = True
    is_prose: bool = False

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


def program_of(pieces: Sequence[Piece], name: str, called: Set[str] = frozenset()) -> tuple[Definition, str]:
    """How firmly pieces define a function, and their program; "" if none defines it.

    Args:
        pieces: Pieces of an answer, in order.
        name: Name of the function.
        called: Further names that calls of the program use.
    """
    pieces = _without_own_imports(pieces)
    functions = frozenset(
        node.name
        for piece in pieces
        for node in module_statements(piece.tree)
        if isinstance(node, ast.FunctionDef) and node.name != name
    )
    levels = (definition(piece.tree, name, functions) for piece in pieces)
    definitions = [
        min(level, Definition.STUB) if _ELIDED.search(piece.text) else level
        for level, piece in zip(levels, pieces, strict=True)
    ]
    best = max(definitions, default=Definition.NONE)
    if best is Definition.NONE:
        return best, ""
    chosen = len(definitions) - 1 - definitions[::-1].index(best)
    others = {bound for i, piece in enumerate(pieces) if i != chosen for bound in names_of(piece.tree).binds}
    pieces = [*pieces[:chosen], without_failing_head(pieces[chosen], others), *pieces[chosen + 1 :]]
    if len(pieces) == 1:
        return best, pieces[0].text
    return best, _with_parts(pieces, chosen, name, called)


def _with_parts(pieces: Sequence[Piece], chosen: int, name: str, called: Set[str]) -> str:
    """The chosen piece after the statements of the others that it or a call uses."""
    parts = [
        _Part(node, piece, place)
        for place, piece in enumerate(pieces)
        if place != chosen and piece.is_program
        for node in piece.tree.body
        if not is_main_guard(node)
    ]
    builtins = BUILTINS - {
        bound_name for part in parts if part.place < chosen and _is_function(part.node) for bound_name in part.names.binds
    }
    needed, bound = _needs(pieces[chosen].tree, builtins)
    needed |= called - bound - builtins - {name}
    helpers = bound & names_of(pieces[chosen].tree).uses - {name}
    later = [part for part in parts if part.place > chosen and _corrects(part, helpers)]
    needed |= set().union(*(part.names.uses for part in later)) - bound - builtins
    taken = [parts[i] for i in sorted(_used(parts, needed, bound | builtins, chosen, name))]
    places = {part.place for part in [*taken, *later]}
    asking = [place for place, piece in enumerate(pieces) if place in places or (place < chosen and piece.is_program)]
    future = [bound_name for place in asking for bound_name in _future_imports(pieces[place].tree)]
    if not places and not future:
        return pieces[chosen].text
    future += _future_imports(pieces[chosen].tree)
    head = [f"from __future__ import {', '.join(dict.fromkeys(future))}"] if future else []
    texts = ["\n".join(_source(part.piece, part.node) for part in taken if part.place == place) for place in sorted(places)]
    after = [_source(part.piece, part.node) for part in later if part not in taken]
    return "\n\n".join(filter(None, [*head, *texts, _without_future_imports(pieces[chosen]), *after]))


def _needs(tree: ast.Module, builtins: Set[str]) -> tuple[set[str], set[str]]:
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
    return (needed | (used - bound)) - builtins, bound


def _used(parts: Sequence[_Part], needed: set[str], bound: set[str], chosen: int, name: str) -> set[int]:
    """Indices of the statements that the needed names come from, directly or through other statements."""
    giving: defaultdict[str, list[int]] = defaultdict(list)
    calling: defaultdict[str, list[int]] = defaultdict(list)
    writers: defaultdict[str, set[str]] = defaultdict(set)
    for i, part in enumerate(parts):
        if not _may_help(part, needed, name):
            continue
        for wanted in part.names.binds | part.names.changes:
            giving[wanted].append(i)
        for wanted in part.names.now:
            calling[wanted].append(i)
        for wanted in part.names.later:
            writers[wanted] |= part.names.binds
    taken: set[int] = {i for i in giving.get("*", ()) if parts[i].place < chosen}
    waiting, known = sorted(needed), set(needed)
    while waiting:
        wanted = waiting.pop()
        sources = [i for i in giving[wanted] if parts[i].place < chosen]
        is_bound = any(wanted in parts[i].names.binds for i in sources)
        sources += [i for i in giving[wanted] if parts[i].place > chosen and (not is_bound or _is_function(parts[i].node))]
        sources += [i for writer in sorted(writers[wanted]) for i in calling[writer] if parts[i].place < chosen]
        for i in sources:
            if i not in taken:
                taken.add(i)
                new = parts[i].names.uses - known - bound
                known |= new
                waiting += sorted(new)
    return taken


def _may_help(part: _Part, needed: set[str], name: str) -> bool:
    """False for another version of the function, and for a statement that calls it: an example or a test."""
    return name in needed or (name not in part.names.binds and name not in part.names.now)


def _corrects(part: _Part, helpers: set[str]) -> bool:
    """Whether a later statement is a new version of a helper that stands in the chosen piece."""
    node = part.node
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in helpers and not is_stub(node)


def _is_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


# ---- files ------------------------------------------------------------------------------------------------------------------


def _without_own_imports(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """The pieces without imports from each other, as the files of one answer have them: ``from helpers import rate``."""
    imports = [[node for node in piece.tree.body if isinstance(node, ast.ImportFrom) and _may_be_own(node)] for piece in pieces]
    if len(pieces) == 1 or not any(imports):
        return pieces
    defined = [
        {
            bound_name
            for node in piece.tree.body
            if not isinstance(node, ast.Import | ast.ImportFrom)
            for bound_name in names_of(node).binds
        }
        for piece in pieces
    ]
    kept = []
    for i, (piece, nodes) in enumerate(zip(pieces, imports, strict=True)):
        others = set().union(*defined[:i], *defined[i + 1 :])
        changes = [
            (node, _assigned(node))
            for node in nodes
            if others and all(alias.name in others or (alias.name == "*" and not _exists(node)) for alias in node.names)
        ]
        text = _with_texts(piece, changes)
        kept.append(Piece(text, parse_source(text), piece.is_program, piece.is_prose) if changes else piece)
    return kept


def _may_be_own(node: ast.ImportFrom) -> bool:
    module = (node.module or "").partition(".")[0]
    return node.level > 0 or module not in sys.stdlib_module_names | {"numpy"}


def _exists(node: ast.ImportFrom) -> bool:
    """Whether the module of an import is installed here, which a file of the answer is not."""
    try:
        return node.level == 0 and find_spec((node.module or "").partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _assigned(node: ast.ImportFrom) -> str:
    """What an import does where the names that it imports exist already."""
    return (
        "; ".join(f"{alias.asname} = {alias.name}" for alias in node.names if alias.asname not in (None, alias.name)) or "pass"
    )


# ---- sources ----------------------------------------------------------------------------------------------------------------


def _future_imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            yield from (alias.name for alias in node.names)


def _without_future_imports(piece: Piece) -> str:
    """The source of a piece with its imports from ``__future__``, which have to be first in a program, replaced by ``pass``."""
    imports = (node for node in piece.tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__")
    return _with_texts(piece, [(node, "pass") for node in imports])


def _with_texts(piece: Piece, changes: Sequence[tuple[ast.stmt, str]]) -> str:
    """The source of a piece with other texts for some of its statements, which are in order."""
    lines = list(piece.lines)
    for node, text in reversed(changes):
        first, last = lines[node.lineno - 1].encode(), lines[(node.end_lineno or node.lineno) - 1].encode()
        kept = first[: node.col_offset].decode() + text + last[node.end_col_offset :].decode()
        lines[node.lineno - 1 : node.end_lineno] = [kept]
    return "\n".join(lines)


def _source(piece: Piece, node: ast.stmt) -> str:
    """The source of a statement at module level, with its decorators; without comments after it."""
    decorators = getattr(node, "decorator_list", ())
    start = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    lines = [line.encode() for line in piece.lines[start : node.end_lineno]]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][0 if decorators else node.col_offset :]
    return b"\n".join(lines).decode()


def without_prose(piece: Piece) -> Piece:
    """A piece without lone words at module level that it does not define, such as "Done": prose that parses, and would end the program."""
    suspects = [node for node in piece.tree.body if _is_word(node)]
    if not suspects:
        return piece
    bound = {bound_name for node in piece.tree.body for bound_name in names_of(node).binds} | BUILTINS
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
    return Piece("\n".join(lines), kept, piece.is_program, piece.is_prose)


def without_failing_head(piece: Piece, others: Set[str]) -> Piece:
    """A piece of prose without statements before its first definition that use names which nothing binds: a formula that parses, and would end the program.

    Args:
        piece: The piece; one of a block of code stays as it is.
        others: Names that other pieces bind.
    """
    bound, failing = BUILTINS | others, list[ast.stmt]()
    for node in piece.tree.body if piece.is_prose else ():
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Assert):
            break
        names = names_of(node)
        if names.now <= bound or "*" in bound:
            bound |= names.binds
        else:
            failing.append(node)
    if not failing or not any(map(_is_function, piece.tree.body)):
        return piece
    text = _with_texts(piece, [(node, "pass") for node in failing])
    return Piece(text, parse_source(text), piece.is_program, piece.is_prose)


def _is_word(node: ast.stmt) -> bool:
    """Whether a statement consists of names alone and calls nothing."""
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return (
        isinstance(node, ast.Expr)
        and not isinstance(node.value, ast.Constant)
        and not any(
            isinstance(inner, ast.Call | ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) for inner in ast.walk(node)
        )
    )
