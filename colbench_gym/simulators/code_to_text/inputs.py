"""Facts about the parameters, the result, and the cases that a reference does not handle specially."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from colbench_gym.simulators.code_to_text.keywords import ROLE_WORDS, roles
from colbench_gym.simulators.code_to_text.kinds import infer_kinds, kind_of
from colbench_gym.simulators.code_to_text.plain_names import be, joined, plain_name, quoted, the
from colbench_gym.simulators.code_to_text.sentences import Piece, Slot, Subject, Writer

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_KINDS = {
    "number": "a number", "text": "a text", "list": "a list", "dictionary": "a dictionary", "flag": "true or false",
    "tuple": "a tuple", "set": "a set",
}  # fmt: skip
MAX_KEYS = 12
_REORDERING = frozenset(
    [
        "set",
        "frozenset",
        "reversed",
        "reverse",
        "insert",
        "shuffle",
        "sample",
        "argsort",
        "rotate",
        "pop",
        "popleft",
        "appendleft",
        "heappush",
        "heappop",
        "heapify",
    ]
)
_FAULT_WORDS = ("invalid", "error", "not found", "unknown", "must ", "cannot", "not allowed", "not valid", "required")


def tell_parameters(writer: Writer, function: _Function) -> None:
    """State for each parameter its kind, its relevant keys and values, its default, and whether it is used at all."""
    kinds = infer_kinds(function)
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for argument in arguments:
        name = the(argument.arg)
        words = (*plain_name(argument.arg).split(), *ROLE_WORDS["input"])
        topic = plain_name(argument.arg)
        if argument.arg not in used:
            writer.tell(Subject(topic, (*words, "used", "matter", "affect")), [f"{name} {be(name)} not used at all"])
            continue
        elements = set(_element_names(function, argument.arg))
        keys = _text_keys(function, {argument.arg})
        inner = _text_keys(function, elements)
        kind = kinds.get(argument.arg)
        if kind:
            if inner and kind in ("list", "dictionary"):
                element = "entries" if kind == "dictionary" else "dictionaries"
                text = f"the {topic} input is {_KINDS[kind]} whose {element} have {joined(inner[:MAX_KEYS])}"
                writer.tell(Subject(topic, (*words, "key", "keys", "field", "entries")), [text])
            elif keys:
                writer.tell(
                    Subject(topic, (*words, "key", "keys", "field")),
                    [f"the {topic} input has the keys {joined(keys[:MAX_KEYS])}"],
                )
            else:
                writer.tell(Subject("type", words, False), [f"the {topic} input is {_KINDS[kind]}"])
        values = list(dict.fromkeys(_compared_texts(function, argument.arg)))
        if values:
            subject = Subject(topic, (*words, "values", "options", "possible", "valid", "categories", "expected"))
            _tell_values(writer, subject, name, values)
    for argument, default in _defaults(function.args):
        name = the(argument.arg)
        words = (*plain_name(argument.arg).split(), "default", "optional", "omitted")
        pieces: list[Piece] = [f"unless given, {name} {be(name)} ", Slot(default)]
        writer.tell(Subject(plain_name(argument.arg), words), pieces)


def _tell_values(writer: Writer, subject: Subject, name: str, values: list[str]) -> None:
    step = 8
    for start in range(0, len(values), step):
        extra = "further " if start else ""
        listed = joined([quoted(value) for value in values[start : start + step]])
        if len(values) == 1:
            writer.tell(subject, [f"the one value of {name.removeprefix('the ')} that matters is {listed}"])
        else:
            writer.tell(subject, [f"the {extra}values of {name.removeprefix('the ')} that matter are {listed}"])


def _defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    yield from zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield argument, default


def _element_names(function: _Function, parameter: str) -> Iterator[str]:
    """Names that stand for one element of a parameter in loops over it."""
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            sources = {part.id for part in ast.walk(node.iter) if isinstance(part, ast.Name)}
            if parameter in sources:
                yield from (part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.Call):
            is_over = any(
                isinstance(part, ast.Name) and part.id == parameter for value in node.args for part in ast.walk(value)
            )
            for keyword in node.keywords:
                if keyword.arg == "key" and isinstance(keyword.value, ast.Lambda) and is_over:
                    yield from (argument.arg for argument in keyword.value.args.args)


def _text_keys(function: _Function, names: set[str]) -> list[str]:
    """Constant text keys that variables are indexed with or tested for, as quoted words, in order of appearance."""
    quoted_keys: dict[str, None] = {}
    for node in ast.walk(function):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", None) in names:
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            key = node.args[0] if getattr(node.func.value, "id", None) in names else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            quoted_keys[quoted(key.value)] = None
    return list(quoted_keys)


def _compared_texts(function: _Function, parameter: str) -> Iterator[str]:
    """Texts that a parameter is compared with."""
    for node in ast.walk(function):
        if isinstance(node, ast.Match) and _is_parameter(node.subject, parameter):
            values = (value for case in node.cases for value in _matched(case.pattern))
            yield from (value.value for value in values if _is_text_constant(value))  # type: ignore[attr-defined]
        if not isinstance(node, ast.Compare) or not _is_parameter(node.left, parameter):
            continue
        for right in node.comparators:
            options = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else [right]
            for option in options:
                if isinstance(option, ast.Constant) and isinstance(option.value, str):
                    yield option.value


def _matched(pattern: ast.pattern) -> Iterator[ast.expr]:
    """The values that a pattern compares the whole subject with."""
    if isinstance(pattern, ast.MatchValue):
        yield pattern.value
    inner = (
        pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern.pattern] if isinstance(pattern, ast.MatchAs) else []
    )
    for part in inner:
        if part is not None:
            yield from _matched(part)


def _is_parameter(node: ast.expr, parameter: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "upper", "strip"):
        node = node.func.value
    return isinstance(node, ast.Name) and node.id == parameter


def tell_result(writer: Writer, function: _Function) -> None:
    """State the kind of the result, and its keys if it is a dictionary."""
    kinds = infer_kinds(function)
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    words = (*ROLE_WORDS["result"], "type", "format", "structure", "kind")
    if not values:
        writer.tell(Subject("result", words), ["nothing is returned"])
        return
    result_kinds = {kind_of(value, kinds) if value is not None else None for value in values}
    keys = [quoted(k.value) for v in values if isinstance(v, ast.Dict) for k in v.keys if _is_text_constant(k)]  # type: ignore[union-attr]
    if keys:
        listed = joined(list(dict.fromkeys(keys))[:MAX_KEYS])
        writer.tell(Subject("result", (*words, "key", "keys")), [f"the result is a dictionary with the keys {listed}"])
    elif len(result_kinds) == 1 and None not in result_kinds:
        kind = next(iter(result_kinds))
        writer.tell(Subject("result", words, kind == "tuple"), [f"the result is {_KINDS[kind or '']}"])


def _is_text_constant(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def describe_unhandled_cases(writer: Writer, function: _Function) -> None:
    """State which of the usual cases the code does not handle specially, so that a question about them gets an answer.

    What may be handled in a way that is not read here is left out: no sentence rather than a false one.
    """
    every = list(ast.walk(function))
    done = roles(every)
    kinds = infer_kinds(function)
    texts = " ".join(str(node.value).lower() for node in every if isinstance(node, ast.Constant))
    has_arithmetic = "formula" in done
    compares_text = any(isinstance(n, (ast.Compare, ast.Dict)) and any(map(_is_text_constant, ast.walk(n))) for n in every)
    returns_list = any(isinstance(n, ast.Return) and n.value and kind_of(n.value, kinds) == "list" for n in every)
    has_errors = any(isinstance(node, (ast.Raise, ast.Try, ast.Assert)) for node in every)
    is_missing_covered = has_errors or any(_is_substitute(node) for node in every)
    ignores_case = "(?i" in texts or any(isinstance(node, ast.Attribute) and node.attr in ("IGNORECASE", "I") for node in every)
    plain = {
        "rounding": ("Nothing is rounded", has_arithmetic and "rounding" not in done),
        "empty": (
            "Empty or missing input gets no special treatment",
            not is_missing_covered and not {"empty", "default"} & done,
        ),
        "error": (
            "Bad input is not checked for, and no errors are raised",
            not has_errors and not any(word in texts for word in _FAULT_WORDS) and not any(map(_is_check, every)),
        ),
        "negative": ("Negative numbers get no special treatment", has_arithmetic and "negative" not in done),
        "case": ("Upper and lower case are told apart", compares_text and "case" not in done and not ignores_case),
        "sorting": (
            "Nothing is sorted, the order stays as it comes",
            returns_list and "sorting" not in done and not any(map(_may_reorder, every)),
        ),
        "limit": ("There is no upper or lower limit on the numbers", has_arithmetic and "limit" not in done),
    }
    for role, (sentence, is_absent) in plain.items():
        if is_absent:
            writer.tell(Subject(role, ROLE_WORDS[role], False), [sentence])


def _is_substitute(node: ast.AST) -> bool:
    """Whether it gives a value in place of a missing one: `max(xs, default=0)`, `next(rows, None)`, a `defaultdict`."""
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return (
        any(keyword.arg == "default" for keyword in node.keywords)
        or (name in ("next", "pop", "getattr", "setdefault") and len(node.args) > 1)
        or name in ("defaultdict", "Counter")
    )


def _is_check(node: ast.AST) -> bool:
    """Whether it tests a type, or returns nothing, minus 1, false or something empty early on, as code does for bad input."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in ("isinstance", "type")
    if isinstance(node, ast.IfExp):
        return any(isinstance(value, ast.Constant) and value.value is None for value in (node.body, node.orelse))
    if not isinstance(node, ast.If) or not isinstance(node.body[-1], ast.Return):
        return False
    value = node.body[-1].value
    if isinstance(value, ast.UnaryOp):
        return True
    if isinstance(value, (ast.List, ast.Dict, ast.Tuple)):
        return not getattr(value, "elts", getattr(value, "keys", []))
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def _may_reorder(node: ast.AST) -> bool:
    """Whether the order of items may change: sets, reversals, insertions, swaps, heaps."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return name in _REORDERING or (name == "range" and len(node.args) == 3)
    if isinstance(node, ast.BinOp):  # `[x] + rows`
        return isinstance(node.op, ast.Add) and isinstance(node.left, ast.List) and bool(node.left.elts)
    if isinstance(node, ast.Slice):
        return node.step is not None
    return isinstance(node, (ast.Set, ast.SetComp)) or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple))
