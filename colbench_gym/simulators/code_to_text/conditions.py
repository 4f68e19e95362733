"""Conditions in plain words: clauses such as "the price is at least 20 and the name is not 'x'", with optional negation."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Collection

from colbench_gym.simulators.code_to_text.plain_names import be, joined

MAX_DEPTH = 14
_RELATIONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "{be}",
    ast.NotEq: "{be} not",
    ast.Lt: "{be} less than",
    ast.LtE: "{be} at most",
    ast.Gt: "{be} more than",
    ast.GtE: "{be} at least",
    ast.Is: "{be}",
    ast.IsNot: "{be} not",
    ast.In: "{be} in",
    ast.NotIn: "{be} not in",
}
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.Is: ast.IsNot, ast.In: ast.NotIn,
}  # fmt: skip
_OPPOSITES |= {value: key for key, value in _OPPOSITES.items()}
_TRUTHS = {
    "number": ("not zero", "zero"),
    "text": ("not empty", "empty"),
    "list": ("not empty", "empty"),
    "dictionary": ("not empty", "empty"),
    "flag": ("true", "false"),
}


class ConditionSpeaker(ABC):
    """The part of `expressions.Speaker` that phrases conditions.

    Attributes:
        named: ``id`` of a node -> its name in the sentences.
        variables: Name of a variable -> its words, if they differ from the name.
        kinds: Name of a variable -> kind of its values, if known (`kinds`).
        modules: Names of modules that the code imports, or uses as nothing else is named.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.named: dict[int, str] = {}
        self.variables: dict[str, str] = {}
        self.modules: Collection[str] = ()
        self._depth = 0

    @abstractmethod
    def phrase(self, node: ast.expr) -> str:
        """The value of an expression as a noun phrase."""

    def condition(self, node: ast.expr, is_negated: bool = False) -> str:
        """An expression as a clause that is true or false; negated if `is_negated`."""
        if id(node) in self.named:
            return f"{self.named[id(node)]} {'does not hold' if is_negated else 'holds'}"
        if self._depth >= MAX_DEPTH:
            return "a more involved condition holds"
        self._depth += 1
        try:
            return self._condition(node, is_negated)
        finally:
            self._depth -= 1

    def _condition(self, node: ast.expr, is_negated: bool) -> str:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.condition(node.operand, not is_negated)
        if isinstance(node, ast.BoolOp):
            is_and = isinstance(node.op, ast.And) != is_negated
            has_inner = any(isinstance(value, ast.BoolOp) and id(value) not in self.named for value in node.values)
            clauses = [self._nested(value, is_negated) for value in node.values]
            return f"{',' * has_inner} {'and' if is_and else 'or'} ".join(clauses)
        if isinstance(node, ast.Compare):
            return self._comparison(node, is_negated)
        if isinstance(node, ast.Call):
            return self._test_call(node, is_negated)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return "always" if node.value != is_negated else "never"
        return self._truth(node, is_negated)

    def _nested(self, node: ast.expr, is_negated: bool) -> str:
        words = self.condition(node, is_negated)
        if isinstance(node, ast.BoolOp) and id(node) not in self.named:
            mixed = "either " if isinstance(node.op, ast.Or) != is_negated else "both "
            return mixed + words
        return words

    def _truth(self, node: ast.expr, is_negated: bool) -> str:
        words = self.phrase(node)
        kind = self.kinds.get(node.id) if isinstance(node, ast.Name) else None
        holds, fails = _TRUTHS.get(kind or "", ("set", "not set"))
        return f"{words} {be(words)} {fails if is_negated else holds}"

    def _comparison(self, node: ast.Compare, is_negated: bool) -> str:
        operands = [node.left, *node.comparators]
        pairs = zip(node.ops, operands, operands[1:], strict=False)
        if not is_negated and len(node.ops) == 2 and (between := self._between(node)):
            return between
        words = [self._relation(op, left, right, is_negated) for op, left, right in pairs]
        return (" or " if is_negated else " and ").join(words)

    def _between(self, node: ast.Compare) -> str:
        low, middle, high = node.left, *node.comparators
        if not all(isinstance(op, (ast.Lt, ast.LtE)) for op in node.ops):
            return ""
        words = self.phrase(middle)
        first = "at least" if isinstance(node.ops[0], ast.LtE) else "more than"
        second = "at most" if isinstance(node.ops[1], ast.LtE) else "less than"
        return f"{words} {be(words)} {first} {self.phrase(low)} and {second} {self.phrase(high)}"

    def _relation(self, op: ast.cmpop, left: ast.expr, right: ast.expr, is_negated: bool) -> str:
        kind = _OPPOSITES.get(type(op), type(op)) if is_negated else type(op)
        if kind in (ast.In, ast.NotIn):
            return self._membership(left, right, kind is ast.NotIn)
        if isinstance(left, ast.Constant) and not isinstance(right, ast.Constant):
            swapped: dict[type[ast.cmpop], type[ast.cmpop]] = {
                ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
            }  # fmt: skip
            left, right, kind = right, left, swapped.get(kind, kind)
        words = self.phrase(left)
        words += "," if ", " in words and id(left) not in self.named else ""
        is_zero = isinstance(right, ast.Constant) and right.value == 0
        if is_zero and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and kind in (ast.Eq, ast.NotEq):
            verb = "divides evenly by" if kind is ast.Eq else "does not divide evenly by"
            return f"{self.phrase(left.left)} {verb} {self.phrase(left.right)}"
        return f"{words} {_RELATIONS.get(kind, '{be} compared with').format(be=be(words))} {self.phrase(right)}"

    def _membership(self, left: ast.expr, right: ast.expr, is_negated: bool) -> str:
        inside = self.phrase(left)
        if isinstance(right, (ast.List, ast.Tuple, ast.Set)) and id(right) not in self.named:
            options = joined([self.phrase(option) for option in right.elts], "or")
            middle = "not " if is_negated else ""
            return (
                f"{inside} {be(inside)} {middle}one of {options}" if len(right.elts) > 1 else f"{inside} is {middle}{options}"
            )
        if isinstance(left, ast.Constant):
            outer = self.phrase(right)
            return f"{outer} {'does not contain' if is_negated else 'contains'} {inside}"
        return f"{inside} {be(inside)} {'not ' if is_negated else ''}in {self.phrase(right)}"

    def _test_call(self, node: ast.Call, is_negated: bool) -> str:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("any", "all") and len(node.args) == 1 and isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp)):
            inner = node.args[0]
            is_some = (name == "any") != is_negated
            clause = self.condition(inner.elt, is_negated)
            return f"for {'at least one' if is_some else 'every'} {self.source(inner.generators)} {clause}"
        words = self.phrase(node)
        if words.startswith("whether "):
            clause = words.removeprefix("whether ")
            return f"it is not so that {clause}" if is_negated else clause
        return self._truth(node, is_negated)

    def source(self, generators: list[ast.comprehension]) -> str:
        """The source of a comprehension's items: "price in the prices where the price is more than 3"."""
        words = []
        for generator in generators:
            clause = self._walk(generator.target, generator.iter)
            if generator.ifs:
                clause += " where " + " and ".join(self.condition(test) for test in generator.ifs)
            words.append(clause)
        return " and each ".join(words)

    def _walk(self, target: ast.expr, origin: ast.expr) -> str:
        """ "price in the prices", or "name with its price in the prices" for the entries of a dictionary."""
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [self.phrase(part).removeprefix("the ") for part in parts]
        function = origin.func if isinstance(origin, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "items" and len(names) == 2:
            return f"{names[0]} with its {names[1]} in {self.phrase(function.value)}"
        if (
            isinstance(origin, ast.Call)
            and getattr(function, "id", "") == "enumerate"
            and len(names) == 2
            and len(origin.args) == 1
        ):
            return f"{names[1]} at position {names[0]} of {self.phrase(origin.args[0])}"
        return f"{joined(names)} in {self.phrase(origin)}"
