"""Calls of Python's builtins and common methods in plain words, as templates.

In a template ``{0}`` is the first argument (for a method: the object before the dot), and ``{1}``, ``{2}`` are the next ones.
The template with as many slots as there are arguments is used, so calls with optional arguments have their own wording.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from colbench_gym.simulators.code_to_text.plain_names import joined, plain_name

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "abs": ("the absolute value of {0}",),
    "all": ("all of {0}",),
    "any": ("any of {0}",),
    "bin": ("{0} in binary",),
    "bool": ("whether {0} is set",),
    "chr": ("the character with code {0}",),
    "dict": ("an empty dictionary", "a dictionary made from {0}"),
    "divmod": ("the quotient and the remainder of {0} by {1}",),
    "enumerate": ("{0} with positions from 0", "{0} with positions from {1}"),
    "float": ("{0} as a number",),
    "int": ("{0} cut to a whole number", "{0} read as a number in base {1}"),
    "isinstance": ("whether {0} is of type {1}",),
    "len": ("the length of {0}",),
    "list": ("an empty list", "{0} as a list"),
    "map": ("the outcome of {0} for each of {1}",),
    "max": ("the largest of {0}", "the larger of {0} and {1}"),
    "min": ("the smallest of {0}", "the smaller of {0} and {1}"),
    "ord": ("the character code of {0}",),
    "pow": ("{0} to the power of {1}",),
    "range": (
        "the whole numbers from 0 up to but not including {0}",
        "the whole numbers from {0} up to but not including {1}",
        "the whole numbers from {0} up to but not including {1} in steps of {2}",
    ),
    "reversed": ("{0} in reverse order",),
    "round": ("{0} rounded to the nearest whole number", "{0} rounded to {1} decimals"),
    "set": ("an empty set", "the distinct items of {0}"),
    "sorted": ("{0} sorted",),
    "str": ("{0} as text",),
    "sum": ("the sum of {0}", "the sum of {0} on top of {1}"),
    "tuple": ("an empty tuple", "{0} as a tuple"),
    "type": ("the type of {0}",),
    "zip": ("{0}", "{0} and {1} side by side", "{0}, {1} and {2} side by side"),
    "filter": ("those of {1} that pass {0}",),
    "Counter": ("an empty tally", "a tally of {0}"),
    "timedelta": ("a span of {0} days",),
}
METHODS: dict[str, tuple[str, ...]] = {
    "lower": ("{0} in lower case",),
    "upper": ("{0} in upper case",),
    "title": ("{0} with every word capitalised",),
    "capitalize": ("{0} with a capital first letter",),
    "casefold": ("{0} in lower case",),
    "strip": ("{0} without spaces around it", "{0} with {1} stripped off both ends"),
    "lstrip": ("{0} without leading spaces", "{0} with {1} stripped off the front"),
    "rstrip": ("{0} without trailing spaces", "{0} with {1} stripped off the end"),
    "split": ("the words of {0}", "{0} split at each {1}", "{0} split at {1} at most {2} times"),
    "splitlines": ("the lines of {0}",),
    "replace": ("{0} with every {1} replaced by {2}",),
    "startswith": ("", "whether {0} starts with {1}"),
    "endswith": ("", "whether {0} ends with {1}"),
    "find": ("", "the position of {1} in {0}, or minus 1 if absent"),
    "index": ("", "the position of {1} in {0}"),
    "count": ("", "how often {1} occurs in {0}"),
    "join": ("{1}, joined with {0} in between",),
    "format": ("{0} filled in", "{0} filled in with {1}", "{0} filled in with {1} and {2}"),
    "get": ("", "the entry of {0} for {1}, or None if absent", "the entry of {0} for {1}, or {2} if absent"),
    "items": ("the pairs of key and value in {0}",),
    "keys": ("the keys of {0}",),
    "values": ("the values of {0}",),
    "pop": ("the last item of {0}, taken out", "the entry of {0} at {1}, taken out"),
    "copy": ("a copy of {0}",),
    "isdigit": ("whether {0} is all digits",),
    "isalpha": ("whether {0} is all letters",),
    "isalnum": ("whether {0} is all letters and digits",),
    "isupper": ("whether {0} is in upper case",),
    "islower": ("whether {0} is in lower case",),
    "union": ("{0} together with {1}",),
    "intersection": ("", "what {0} and {1} have in common"),
    "difference": ("", "what is in {0} but not in {1}"),
    "issubset": ("", "whether all of {0} is in {1}"),
    "zfill": ("{0} padded with zeros to {1} characters",),
}
#: Functions reached through a module: ``math.sqrt(x)``.
MODULE_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "sqrt": ("", "the square root of {1}"),
    "sin": ("", "the sine of {1}"),
    "cos": ("", "the cosine of {1}"),
    "tan": ("", "the tangent of {1}"),
    "atan2": ("", "", "the angle whose tangent is {1} over {2}"),
    "radians": ("{1} turned from degrees to radians",),
    "degrees": ("{1} turned from radians to degrees",),
    "ceil": ("{1} rounded up",),
    "floor": ("{1} rounded down",),
    "log": ("", "the natural logarithm of {1}", "the logarithm of {1} to base {2}"),
    "log10": ("", "the logarithm of {1} to base 10"),
    "exp": ("", "e to the power of {1}"),
    "pow": ("{1} to the power of {2}",),
    "choice": ("", "a random one of {1}"),
    "random": ("a random number between 0 and 1",),
    "randint": ("", "", "a random whole number from {1} to {2}"),
    "findall": ("", "", "all matches of the pattern {1} in {2}"),
    "search": ("", "", "the first match of the pattern {1} in {2}"),
    "match": ("", "", "the match of the pattern {1} at the start of {2}"),
    "split": ("", "", "{2} split at each match of the pattern {1}"),
    "fullmatch": ("", "", "the match of the pattern {1} with all of {2}"),
    "sub": ("{3} with every match of the pattern {1} replaced by {2}",),
}
_MAX_ARGUMENTS, _LONG_ARGUMENT = 12, 5
_TYPES = {"int": "whole number", "float": "decimal number", "str": "text", "dict": "dictionary", "bool": "true or false"}


def call_words(call: ast.Call, phrase: Callable[[ast.expr], str], modules: Collection[str] = ()) -> str:
    """A call in words. Without a template, it is described by its function and arguments.

    Args:
        call: The call.
        phrase: Puts an expression into words.
        modules: Names of modules, which are no objects with methods.
    """
    arguments = [phrase(argument) for argument in call.args[:_MAX_ARGUMENTS]]
    if isinstance(call.func, ast.Name):
        name, templates = call.func.id, FUNCTIONS.get(call.func.id, ())
        if name == "isinstance" and len(call.args) == 2:
            kinds = [*_types(call.args[1])]
            names = [kind.id if isinstance(kind, ast.Name) else getattr(kind, "attr", "another kind") for kind in kinds]
            arguments[1] = joined([_TYPES.get(name, plain_name(name)) for name in names], "or")
        words = _filled(templates, arguments) if arguments or not call.keywords else ""
        if name in ("max", "min") and len(arguments) > 2:
            words = f"the {'largest' if name == 'max' else 'smallest'} of {joined(arguments)}"
        return (words or _unknown(name, arguments)) + _ordering(call, phrase)
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
        everything = [phrase(call.func.value), *arguments]
        if isinstance(call.func.value, ast.Name) and call.func.value.id in modules:
            return _filled(MODULE_FUNCTIONS.get(name, ()), everything) or _unknown(name, arguments)
        words = _filled(METHODS.get(name, ()), everything) or _filled(MODULE_FUNCTIONS.get(name, ()), everything)
        return words or _unknown(name, everything)
    return _unknown("it", arguments)


def _types(node: ast.expr) -> Iterator[ast.expr]:
    """The types that are named one by one, or as `int | float`."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node.left, node.right] if isinstance(node, ast.BinOp) else []
    for part in parts:
        yield from _types(part)
    if not parts:
        yield node


def _filled(templates: tuple[str, ...], arguments: list[str]) -> str:
    """The template with one slot per argument, filled in; empty if there is no such template."""
    words = next((t for t in templates if _num_slots(t) == len(arguments)), "")
    if words.startswith("{0} ") and len(arguments[0].split()) > _LONG_ARGUMENT:
        words = "{0}, " + words[4:]
    for number, argument in enumerate(arguments):
        # Parsed source cannot contain a zero byte, so it protects braces inside arguments from being read as slots.
        words = words.replace(f"{{{number}}}", argument.replace("{", "\0"))
    return words.replace("\0", "{")


def _num_slots(template: str) -> int:
    """Number of arguments of a template. For functions of a module, the module itself is the first argument."""
    return max(
        (number + 1 for number in range(_MAX_ARGUMENTS) if f"{{{number}}}" in template),
        default=1 if "random" in template else 0,
    )


def _unknown(name: str, arguments: list[str]) -> str:
    return f"the outcome of {plain_name(name)}" + (f" for {joined(arguments)}" if arguments else "")


def _ordering(call: ast.Call, phrase: Callable[[ast.expr], str]) -> str:
    """The words that `key`, `reverse` and `default` add to sorted, max and min."""
    words = ""
    for keyword in call.keywords:
        if keyword.arg == "key" and isinstance(keyword.value, ast.Attribute) and keyword.value.attr == "get":
            words += f" by its entry in {phrase(keyword.value.value)}"
        elif keyword.arg == "key":
            words += f" by {phrase(keyword.value)}"
        elif keyword.arg == "reverse" and isinstance(keyword.value, ast.Constant) and keyword.value.value:
            words += ", from high to low"
        elif keyword.arg == "default":
            words += f", or {phrase(keyword.value)} if there is none"
    return words
