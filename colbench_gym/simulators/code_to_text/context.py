"""The context of a statement: its loops and conditions. It becomes the opening of the sentence about the statement."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from colbench_gym.simulators.code_to_text.plain_names import joined, plain_name, the
from colbench_gym.simulators.code_to_text.sentences import Piece, Slot

Clause = tuple[str, Slot | None]
WHEN, ELSE_WHEN, ELSE = "when", "otherwise, when", "in all other cases"


@dataclass(frozen=True)
class Context:
    """Loops and conditions around a statement.

    Attributes:
        loops: Names of the loops' elements, outermost first.
        clauses: Conditions, outermost first.
        nodes: The code of loops and conditions, for keywords.
    """

    loops: tuple[str, ...] = ()
    clauses: tuple[Clause, ...] = ()
    nodes: tuple[ast.AST, ...] = ()

    def under(self, word: str, slot: Slot | None) -> Context:
        """The context inside a branch."""
        return replace(self, clauses=(*self.clauses, (word, slot)), nodes=(*self.nodes, *([slot.node] if slot else [])))

    def each(self, name: str, node: ast.AST) -> Context:
        """The context inside a loop."""
        return replace(self, loops=(*self.loops, name), nodes=(*self.nodes, node))

    @property
    def is_default(self) -> bool:
        """True in the branch that runs if no condition holds."""
        return bool(self.clauses) and self.clauses[-1][0] == ELSE

    def opening(self) -> list[Piece]:
        """The start of a sentence: "for each pet, when the age is at least 3 and the name is 'Rex', "."""
        pieces: list[Piece] = [" and ".join(f"for each {name}" for name in self.loops)] if self.loops else []
        previous = ""
        for word, slot in self.clauses:
            if slot is not None and word == WHEN and previous in (WHEN, ELSE_WHEN):
                pieces += [" and ", slot]
            else:
                pieces += [", "] if pieces else []
                pieces += [word] if slot is None else [f"{word} ", slot]
            previous = word
        return [*pieces, ", "] if pieces else []


def loop_words(node: ast.For | ast.AsyncFor) -> tuple[str, list[Piece]]:
    """The name of a loop's element, and the sentence that introduces the loop."""
    names = [plain_name(part.id) for part in ast.walk(node.target) if isinstance(part, ast.Name)]
    name = joined(names[:3]) or "item"
    call = node.iter if isinstance(node.iter, ast.Call) else None
    function = getattr(call.func, "attr", getattr(call.func, "id", "")) if call else ""
    if call and function == "items" and isinstance(call.func, ast.Attribute) and len(names) > 1:
        return names[0], ["go through every ", names[0], " with its ", names[1], " in ", Slot(call.func.value)]
    if call and function == "enumerate" and call.args and len(names) > 1:
        start = call.args[1] if len(call.args) > 1 else ast.Constant(0)
        return names[1], [
            "go through every ",
            names[1],
            " in ",
            Slot(call.args[0]),
            ", with positions counted from ",
            Slot(start),
        ]
    if call and function == "range" and len(call.args) == 1:
        inner = call.args[0]
        if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "len" and inner.args:
            return f"position {name}", ["go through the positions ", name, " of ", Slot(inner.args[0]), ", from 0"]
    return name, ["go through every ", name, " in ", Slot(node.iter)]


def targets(node: ast.expr) -> list[str]:
    """Names that an assignment sets, as nouns."""
    return [the(part.id) for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
