"""The scripted human's answers about a function's arguments and result, derived from the example call and the plain reference.

They do not depend on the hidden wishes: the plain reference takes the plain choice on every topic.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.simulators.code_to_text.expressions import Speaker
from colbench_gym.simulators.code_to_text.inputs import describe_unhandled_cases, tell_parameters
from colbench_gym.simulators.code_to_text.kinds import infer_kinds, kind_of
from colbench_gym.simulators.code_to_text.plain_names import joined
from colbench_gym.simulators.code_to_text.sentences import Writer
from colbench_gym.tasks.function import definitions
from colbench_gym.tasks.task import Task

MAX_VALUE_CHARS = 120
_KINDS: dict[type, str] = {
    bool: "flag",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    tuple: "tuple",
    dict: "dictionary",
}
_NOUNS = {
    "flag": "true or false", "number": "a number", "text": "a text", "list": "a list", "tuple": "a pair", "dictionary": "a table (dict)",
    "set": "a set",
}  # fmt: skip
_PLURALS = {"a number": "numbers", "a text": "texts", "a list": "lists", "a pair": "pairs"}


def plain_answer(task: Task, kind: str, text: str) -> str:
    """The answer to a question about the call or the result.

    Args:
        task: Supplies the signature, the example and the plain reference.
        kind: "example", "argument", "returned" or "malformed".
        text: The question. If it names an argument, only this argument is described.

    Returns:
        One or two sentences; empty if nothing is known.
    """
    if kind == "example" and task.example:
        return f"A call looks like this: {task.example}."
    if kind == "returned":
        return _returned(task.hidden.plain, task.example, task.function_name)
    if kind == "malformed":
        return _malformed(task.hidden.plain, task.function_name)
    described = _arguments(task.example, task.hidden.plain, task.function_name)
    named = [sentence for name, sentence in described.items() if name.lower() in text.lower()]
    return " ".join((named or list(described.values()))[:2])


@lru_cache(maxsize=512)
def _arguments(example: str, plain: str, name: str) -> Mapping[str, str]:
    """A sentence for each argument, by its name."""
    function = _function(plain, name)
    if function is None:
        return {}
    values = _example_values(example, function)
    if not values:
        writer = Writer(Speaker())
        tell_parameters(writer, function)
        return {f"{number} {fact.topic}": fact.sentence for number, fact in enumerate(writer.facts)}
    return {name: _sentence(name, value, _part_names(function, name)) for name, value in values.items()}


def _sentence(name: str, value: object, parts: tuple[str, ...]) -> str:
    shown = repr(value)
    named = f" ({', '.join(parts)})" if parts else ""
    such = f", for example {shown}" if len(shown) <= MAX_VALUE_CHARS else ""
    return f"The argument {name} is {_shape(value)}{named}{such}."


def _shape(value: object) -> str:
    """A value's kind in words: "a list of pairs of a text and a number"."""
    if isinstance(value, (list, set)):
        inner = {_shape(element) for element in value}
        return f"{_NOUNS[type(value).__name__]} of {_plural(inner.pop())}" if len(inner) == 1 else _NOUNS[type(value).__name__]
    if isinstance(value, tuple):
        size = {2: "a pair", 3: "a triple"}.get(len(value), f"a tuple of {len(value)}")
        return f"{size}: {joined([_shape(element) for element in value])}" if value else size
    if isinstance(value, dict) and value:
        kinds = {(_shape(key), _shape(element)) for key, element in value.items()}
        key, element = kinds.pop()
        return (
            f"a table (dict) with the keys {joined(list(map(str, value)))}"
            if kinds
            else f"a table (dict) from {key} to {element}"
        )
    return _NOUNS.get(_KINDS.get(type(value), ""), "a value")


def _plural(shape: str) -> str:
    head, colon, rest = shape.partition(":")
    first, of, inner = head.partition(" of ")
    return f"{_PLURALS.get(first, first.removeprefix('a ') + 's')}{of}{inner}{colon}{rest}".replace(":", " of")


def _example_values(example: str, function: ast.FunctionDef) -> dict[str, object]:
    """The example's arguments by name; empty if there is none or one of them is not a plain value."""
    try:
        call = ast.parse(example, mode="eval").body
        if not isinstance(call, ast.Call):
            return {}
        values = [ast.literal_eval(node) for node in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    except (*PARSE_ERRORS, ValueError, TypeError):
        return {}
    return {**dict(zip((argument.arg for argument in function.args.args), values, strict=False)), **named}


def _part_names(function: ast.FunctionDef, parameter: str) -> tuple[str, ...]:
    """Names in the code for the parts of a parameter's elements: quantity and price in ``for quantity, price in lines``."""
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Tuple):
            is_over = isinstance(node.iter, ast.Name) and node.iter.id == parameter
            names = [part.id for part in node.target.elts if isinstance(part, ast.Name)]
            if is_over and len(names) == len(node.target.elts) and "_" not in names:
                return tuple(names)
    return ()


@lru_cache(maxsize=512)
def _returned(plain: str, example: str, name: str) -> str:
    function = _function(plain, name)
    if function is None:
        return ""
    kinds = infer_kinds(function)
    kinds |= {name: _KINDS[type(value)] for name, value in _example_values(example, function).items() if type(value) in _KINDS}
    for name, value in _assignments(function):
        kind = _kind(value, kinds)
        if kind:
            kinds[name] = kind
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
    result_kinds = {_kind(value, kinds) for value in returned} - {None}
    return f"The function returns {_NOUNS[result_kinds.pop() or '']}." if len(result_kinds) == 1 else ""


def _assignments(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _kind(node: ast.expr, kinds: Mapping[str, str]) -> str | None:
    """The kind of an expression. A slice has the kind of the sliced value; a text times a number is a text."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _kind(node.value, kinds)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        sides = {_kind(node.left, kinds), _kind(node.right, kinds)}
        return next((kind for kind in ("text", "list", "number") if kind in sides), None)
    return kind_of(node, kinds)


@lru_cache(maxsize=512)
def _malformed(plain: str, name: str) -> str:
    function = _function(plain, name)
    if function is None:
        return ""
    writer = Writer(Speaker())
    describe_unhandled_cases(writer, function)
    return next((fact.sentence for fact in writer.facts if fact.topic == "error"), "")


def _function(source: str, name: str) -> ast.FunctionDef | None:
    try:
        definition = definitions(parse_source(source)).get(name)
    except PARSE_ERRORS:
        return None
    return definition if isinstance(definition, ast.FunctionDef) else None
