"""Keywords that match a question to a fact derived from code. They depend on what the code does."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from colbench_gym.simulators.code_to_text.plain_names import plain_name

MAX_KEYWORDS = 48
ROLE_WORDS: dict[str, tuple[str, ...]] = {
    "result": ("return", "returns", "output", "result", "answer", "outcome", "value"),
    "condition": ("condition", "rule", "criteria", "threshold", "decide", "depend", "determine", "range", "scenario"),
    "default": ("default", "otherwise", "fallback", "match", "none", "unknown", "invalid", "found"),
    "rounding": ("round", "rounding", "decimals", "precision", "integer"),
    "negative": ("negative", "zero", "below"),
    "empty": ("empty", "missing", "blank", "absent", "none"),
    "sorting": ("sort", "sorted", "order", "rank", "ranking", "highest", "lowest", "ascending", "descending"),
    "case": ("case", "lowercase", "uppercase", "sensitive", "insensitive", "capital"),
    "limit": ("limit", "cap", "maximum", "minimum", "bound", "exceed"),
    "error": ("error", "exception", "invalid", "raise", "fail", "validate"),
    "table": ("table", "mapping", "lookup", "values", "options", "list", "supported", "predefined"),
    "weight": ("weight", "rate", "percentage", "factor", "multiplier", "formula", "calculate", "constant"),
    "formula": ("formula", "calculate", "computed", "calculation", "equation", "combine"),
    "text": ("text", "format", "message", "string", "wording"),
    "loop": ("loop", "iterate", "item", "element", "process"),
    "filter": ("filter", "include", "exclude", "skip", "ignore"),
    "count": ("count", "number", "many", "total", "sum"),
    "average": ("average", "mean"),
    "random": ("random", "seed"),
    "contain": ("contain", "keyword", "word", "substring", "phrase", "search"),
    "input": ("input", "type", "format", "structure", "parameter", "argument", "look", "shape", "represent"),
}
_CALLS = {
    "round": "rounding", "ceil": "rounding", "floor": "rounding", "int": "rounding", "sorted": "sorting", "sort": "sorting",
    "lower": "case", "upper": "case", "casefold": "case", "len": "count", "sum": "count", "count": "count",
    "choice": "random", "random": "random", "randint": "random", "join": "text", "format": "text",
}  # fmt: skip


def roles(nodes: Iterable[ast.AST]) -> set[str]:
    """Which of `ROLE_WORDS` apply to a piece of code."""
    matching: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call):
            matching |= _call_roles(node)
        elif isinstance(node, ast.BinOp):
            matching |= _operation_roles(node)
        elif isinstance(node, ast.Compare):
            matching |= _comparison_roles(node)
        elif isinstance(node, ast.JoinedStr):
            matching.add("text")
        elif isinstance(node, ast.Dict) and len(node.keys) > 1:
            matching.add("table")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            matching.add("empty")
        elif isinstance(node, ast.comprehension) and node.ifs:
            matching.add("filter")
    return matching


def _call_roles(node: ast.Call) -> set[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("max", "min"):
        return {"limit"} if len(node.args) > 1 else {"sorting"}
    if name == "get" and len(node.args) == 2:
        return {"default"}
    return {_CALLS[name]} if name in _CALLS else set()


def _operation_roles(node: ast.BinOp) -> set[str]:
    matching = {"formula"}
    constants = [side for side in (node.left, node.right) if isinstance(side, ast.Constant)]
    if constants and isinstance(node.op, (ast.Mult, ast.Div)):
        matching.add("weight")
    if isinstance(node.op, ast.FloorDiv):
        matching.add("rounding")
    if isinstance(node.op, ast.Div) and isinstance(node.right, ast.Call) and getattr(node.right.func, "id", "") == "len":
        matching.add("average")
    return matching


def _comparison_roles(node: ast.Compare) -> set[str]:
    matching = set()
    for op, right in zip(node.ops, node.comparators, strict=True):
        is_zero = isinstance(right, ast.Constant) and not isinstance(right.value, (bool, str)) and right.value == 0
        if is_zero:
            is_length = isinstance(node.left, ast.Call) and getattr(node.left.func, "id", "") == "len"
            matching.add("empty" if is_length else "negative")
        if isinstance(op, (ast.In, ast.NotIn)):
            matching.add("contain")
        if isinstance(right, ast.Constant) and (right.value is None or right.value == ""):
            matching.add("empty")
    return matching


def keywords(nodes: Iterable[ast.AST], extra: Iterable[str] = ()) -> tuple[str, ...]:
    """Lower-case words for a fact about some code: its names, its texts and the words of its roles.

    Args:
        nodes: Statements and expressions that the fact describes.
        extra: Names of further roles from `ROLE_WORDS`.
    """
    every = [node for root in nodes for node in ast.walk(root)]
    words: dict[str, None] = {}
    for node in every:
        text = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= 40:
            text = "".join(char if char.isalnum() else " " for char in node.value)
        words.update(dict.fromkeys(word for word in plain_name(text).split() if len(word) > 1 and text))
    named = list(words)[: MAX_KEYWORDS // 2]
    for role in [*extra, *sorted(roles(every))]:
        named.extend(word for word in ROLE_WORDS[role] if word not in named)
    return tuple(named[:MAX_KEYWORDS])
