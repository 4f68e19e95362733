"""Keywords that match a question to a fact derived from code. They depend on what the code does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from colbench_gym.simulators.code_to_text.patterns import pattern_test
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
    "abs": "negative", "fabs": "negative", "clip": "limit", "minimum": "limit", "maximum": "limit", "quantize": "rounding", "trunc": "rounding", "title": "case", "capitalize": "case",
    "swapcase": "case", "isupper": "case", "islower": "case", "most_common": "sorting", "nlargest": "sorting", "nsmallest": "sorting",
}  # fmt: skip
#: A format with decimals: ".2f" of an f-string, "%.2f" and "{:.2f}" within a text.
_DECIMALS = re.compile(r"(^|[%:])[-+ ,<>^_0-9]*\.\d+[feEgG%]")
_WHOLE = re.compile(r"%[-+ 0-9]*d")
FLAGS = ("is", "has", "was", "are", "can", "should", "use", "do", "does", "include")
_CUTS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


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
        elif isinstance(node, ast.Constant):
            matching |= {"rounding"} if isinstance(node.value, str) and _DECIMALS.search(node.value) else set()
        elif isinstance(node, ast.JoinedStr):
            matching.add("text")
        elif isinstance(node, ast.FormattedValue) and re.search(
            r"\.\d", ast.dump(node.format_spec) if node.format_spec else ""
        ):
            matching.add("rounding")
        elif isinstance(node, ast.Dict) and len(node.keys) > 1:
            matching.add("table")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            matching.add("empty")
        elif isinstance(node, ast.comprehension) and node.ifs:
            matching.add("filter")
        elif (isinstance(node, ast.MatchSingleton) and node.value is None) or (
            isinstance(node, ast.MatchSequence) and not node.patterns
        ):
            matching.add("empty")
        matching |= _branch_roles(node)
    return matching


def _branch_roles(node: ast.AST) -> set[str]:
    """Roles of a test by what depends on it."""
    if isinstance(node, ast.Match):
        cases = (pattern_test(node.subject, case.pattern)[0] for case in node.cases)
        return {role for test in cases if isinstance(test, ast.Compare) for role in _comparison_roles(test)}
    tests = [node.test] if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)) else []
    tests += node.values[: -1 if isinstance(node.op, ast.Or) else None] if isinstance(node, ast.BoolOp) else []
    tests += node.ifs if isinstance(node, ast.comprehension) else []
    then = [node.body, node.orelse] if isinstance(node, ast.IfExp) else []
    then += (
        [step.value for step in node.body if isinstance(step, (ast.Assign, ast.Return)) and step.value]
        if isinstance(node, ast.If)
        else []
    )
    return {role for test in tests for part in _simple_tests(test) for role in test_roles(part, then)}


def _simple_tests(test: ast.expr) -> list[ast.expr]:
    """The tests that "not", "and" and "or" join."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _simple_tests(test.operand)
    return [part for value in test.values for part in _simple_tests(value)] if isinstance(test, ast.BoolOp) else [test]


def test_roles(test: ast.AST, values: Iterable[ast.AST] = ()) -> set[str]:
    """Roles of a test that its own expression does not show: "empty" of `if items`, and "limit" of `if x > 100: x = 100`.

    Args:
        test: The test.
        values: What is assigned or returned if it holds.
    """
    matching = set()
    is_measured = isinstance(test, ast.Call) and getattr(test.func, "id", "") == "len"
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    if is_measured or isinstance(test, ast.Subscript) or (name and plain_name(name).split()[0] not in FLAGS):
        matching.add("empty")
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], _CUTS):
        sides = {ast.dump(side) for side in (test.left, *test.comparators)}
        if any(isinstance(value, ast.expr) and _as_read(value) in sides for value in values):
            matching.add("limit")
    return matching


def _as_read(node: ast.expr) -> str:
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")


def _call_roles(node: ast.Call) -> set[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = [keyword.value for keyword in node.keywords if keyword.arg == "key"] + (
        node.args[:1] if name in ("map", "apply", "filter") else []
    )
    passed = {part.id for part in given if isinstance(part, ast.Name)} & {"round", "abs", "int"}  # `map(round, xs)`
    passed |= {part.attr for part in given if isinstance(part, ast.Attribute)} & {"lower", "upper", "casefold", "floor", "ceil"}
    matching = {_CALLS[part] for part in passed}
    if name in ("max", "min"):
        bounds = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], (ast.List, ast.Tuple)) else node.args
        is_at_zero = any(isinstance(argument, ast.Constant) and argument.value == 0 for argument in bounds)
        return matching | ({"limit", *(["negative"] if is_at_zero else [])} if len(bounds) > 1 else {"sorting"})
    if name == "get" and len(node.args) == 2:
        return {"default"}
    return matching | ({_CALLS[name]} if name in _CALLS else set())


def _operation_roles(node: ast.BinOp) -> set[str]:
    matching = {"formula"}
    if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
        return {"text", *(["rounding"] if _WHOLE.search(node.left.value) else [])}
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
    operands = [node.left, *node.comparators]
    for op, *sides in zip(node.ops, operands, operands[1:], strict=False):
        if isinstance(op, (ast.In, ast.NotIn)):
            matching.add("contain")
        for side, other in (sides, sides[::-1]):
            matching |= _bound_roles(side, other, is_below=isinstance(op, (ast.Lt, ast.LtE)) == (side is sides[0]))
    return matching


def _bound_roles(side: ast.expr, bound: ast.expr, is_below: bool) -> set[str]:
    """Roles of a comparison of `side` with a constant; `is_below` in `side < bound`."""
    if isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub) and isinstance(bound.operand, ast.Constant):
        return {"negative"}
    if isinstance(bound, (ast.List, ast.Dict, ast.Tuple, ast.Set)):
        return set() if getattr(bound, "elts", getattr(bound, "keys", [])) else {"empty"}
    if not isinstance(bound, ast.Constant) or isinstance(bound.value, bool):
        return set()
    if bound.value is None or bound.value == "":
        return {"empty"}
    if isinstance(side, ast.Call) and getattr(side.func, "id", "") == "len":
        return {"empty"} if is_below or bound.value in (0, 1) else set()
    return {"negative"} if bound.value == 0 else set()


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
