"""Infer the kinds of a function's variables from their use: number, text, list, dictionary, flag, tuple, set."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping

from colbench_gym.simulators.code_to_text.keywords import FLAGS
from colbench_gym.simulators.code_to_text.plain_names import is_plural, plain_name

_TEXT_METHODS = {
    "lower", "upper", "title", "strip", "lstrip", "rstrip", "split", "splitlines", "startswith", "endswith", "replace", "join",
    "format", "isdigit", "isalpha", "find",
}  # fmt: skip
_DICT_METHODS = {"items", "keys", "values", "get", "setdefault"}
_LIST_METHODS = {"append", "extend", "insert", "sort"}
_LISTS = {"sorted", "list", "range", "reversed"}
_NUMBERS = {"len", "sum", "round", "abs", "int", "float"}
_NUMBER_METHODS = {"sqrt", "sin", "cos", "tan", "count", "find", "index", "ceil", "floor"}
_FLAG_CALLS = {"any", "all", "isinstance", "bool", "hasattr", "startswith", "endswith", "isdigit", "isalpha"}
_VIEWED_WHOLE = {"sum", "enumerate", "sorted", "set", "max", "min"}
_Vote = Callable[..., None]
_ARITHMETIC = (ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow)


def kind_of(node: ast.expr, kinds: Mapping[str, str]) -> str | None:
    """Kind of an expression, or None if its form does not determine it."""
    if isinstance(node, ast.Constant):
        return _constant_kind(node.value)
    if isinstance(node, ast.Name):
        return kinds.get(node.id)
    if isinstance(node, ast.Call):
        return _call_kind(node, kinds)
    if isinstance(node, ast.BinOp):
        return _operation_kind(node, kinds)
    if isinstance(node, ast.IfExp):
        kind = kind_of(node.body, kinds)
        return kind if kind == kind_of(node.orelse, kinds) else None
    if isinstance(node, ast.BoolOp):
        value_kinds = {kind_of(value, kinds) for value in node.values}
        return "flag" if value_kinds == {"flag"} else None
    if isinstance(node, ast.UnaryOp):
        return "flag" if isinstance(node.op, ast.Not) else "number"
    shapes: dict[type[ast.expr], str] = {
        ast.List: "list", ast.ListComp: "list", ast.Dict: "dictionary", ast.DictComp: "dictionary", ast.Tuple: "tuple",
        ast.Set: "set", ast.SetComp: "set", ast.JoinedStr: "text", ast.Compare: "flag",
    }  # fmt: skip
    return shapes.get(type(node))


def _is_flag(name: str) -> bool:
    """Whether a value that is only tested is true or false, by its name: `if items` asks for some."""
    words = plain_name(name)
    return words.split()[0] in FLAGS or not is_plural(f"the {words}")


def _constant_kind(value: object) -> str | None:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else None


def _call_kind(node: ast.Call, kinds: Mapping[str, str]) -> str | None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _FLAG_CALLS:
        return "flag"
    if name in _NUMBERS or name in _NUMBER_METHODS:
        return "number"
    if name in ("split", "splitlines") or (name in _LISTS and isinstance(node.func, ast.Name)):
        return "list"
    if name in ("max", "min"):
        argument_kinds = {kind_of(argument, kinds) for argument in node.args}
        return "number" if len(node.args) > 1 and "number" in argument_kinds else None
    if name in ("dict", "tuple", "set", "str"):
        return {"dict": "dictionary", "str": "text"}.get(name, name)
    return "text" if name in _TEXT_METHODS else None


def _operation_kind(node: ast.BinOp, kinds: Mapping[str, str]) -> str | None:
    operand_kinds: set[str | None] = set()
    current: ast.expr = node
    for _ in range(60):
        if not isinstance(current, ast.BinOp):
            break
        if isinstance(current.op, _ARITHMETIC):
            return "number"
        operand_kinds.add(_leaf_kind(current.right, kinds))
        current = current.left
    operand_kinds.add(_leaf_kind(current, kinds))
    return next((kind for kind in ("text", "list", "number") if kind in operand_kinds), None)


def _leaf_kind(node: ast.expr, kinds: Mapping[str, str]) -> str | None:
    """Kind of an operand, looked up one level deep so that long sums stay cheap."""
    return "number" if isinstance(node, ast.BinOp) else kind_of(node, kinds)


def infer_kinds(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """Kinds of the parameters and variables of a function: the kind of the assigned value, else the one that most uses suggest."""
    votes: dict[str, Counter[str]] = {}

    def vote(node: ast.AST | None, kind: str | None, weight: int = 1) -> None:
        if isinstance(node, ast.Name) and kind:
            votes.setdefault(node.id, Counter())[kind] += weight

    for node in ast.walk(function):
        _vote_on_use(node, vote)
    parameters = {argument.arg for argument in function.args.args}
    for name in parameters:
        if set(votes.get(name, ())) == {"tested"} and _is_flag(name):
            votes[name] = Counter(flag=1)
    kinds = {}
    for name, counter in votes.items():
        for use in ("tested", "compared"):
            counter.pop(use, None)
        if counter:
            kinds[name] = max(sorted(counter), key=lambda kind: counter[kind])
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            kind = kind_of(node.value, kinds)
            if kind and node.targets[0].id not in parameters:
                kinds[node.targets[0].id] = kind
    return kinds


def _vote_on_use(node: ast.AST, vote: _Vote) -> None:
    if isinstance(node, (ast.For, ast.comprehension)):
        vote(node.iter, "list")
    elif isinstance(node, ast.Attribute):
        for names, kind in ((_TEXT_METHODS, "text"), (_DICT_METHODS, "dictionary"), (_LIST_METHODS, "list")):
            if node.attr in names:
                vote(node.value, kind, 3)
    elif isinstance(node, ast.Subscript):
        is_text_key = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        vote(node.value, "dictionary" if is_text_key else None, 4)
        is_index = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
        vote(node.value, "list" if isinstance(node.slice, ast.Slice) or is_index else None)
    elif isinstance(node, ast.BinOp):
        if isinstance(node.op, _ARITHMETIC):
            vote(node.left, "number")
            vote(node.right, "number")
    elif isinstance(node, ast.Compare):
        _vote_on_comparison(node, vote)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        is_alone = len(node.args) == 1
        for argument in node.args:
            if node.func.id == "zip" or (is_alone and node.func.id in _VIEWED_WHOLE):
                vote(argument, "list")
            elif node.func.id in ("max", "min"):
                vote(argument, "number")
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        vote(node.test, "tested")
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            vote(value, "tested")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        vote(node.operand, "tested")


def _vote_on_comparison(node: ast.Compare, vote: _Vote) -> None:
    operands = [node.left, *node.comparators]
    for operand in operands:
        vote(operand, "compared")
    for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
        for side, opposite in ((left, right), (right, left)):
            if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                vote(side, "number")
            elif isinstance(op, (ast.Eq, ast.NotEq)) and isinstance(opposite, ast.Constant):
                vote(side, _constant_kind(opposite.value), 2)
        first = right.elts[0] if isinstance(right, (ast.List, ast.Tuple, ast.Set)) and right.elts else None
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(first, ast.Constant):
            vote(left, _constant_kind(first.value), 2)
