"""Types of arguments that arrive as JSON or from the user's own code: those of environments, and of all that is made by name (`sandboxes.named`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

_P = ParamSpec("_P")
_R = TypeVar("_R")
_NAMES: Mapping[Any, str] = {
    int: "an integer", float: "a number", bool: "true or false", str: "text", NoneType: "None", Sequence: "a sequence", Mapping: "a mapping",
}  # fmt: skip


def check_types(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Compare arguments with the annotations of a function.

    An integer is also a number; true, false and NaN are not. Of a `Literal` the type is checked, not the value, and of a generic type
    other than a sequence not the parameters.

    Raises:
        ValueError: If one is of another type. The message names it and its types.
    """
    hints = _hints(function)
    for name, value in arguments.items():
        if name in hints and not _is_of(value, hints[name]):
            is_plain = value is None or isinstance(value, (bool, int, float, str))
            got = (
                repr(value)[:200] if is_plain else type(value).__name__
            )  # a mapping or an object may contain anything, even a key
            raise ValueError(f"`{name}` must be {_name(hints[name])}, got {got}.")


def typed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that checks the types of its named arguments (`check_types`) at every call."""
    signature = inspect.signature(function)
    named = {name for name, parameter in signature.parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        given = signature.bind(*args, **kwargs).arguments
        check_types(function, {name: value for name, value in given.items() if name in named})
        return function(*args, **kwargs)

    return checked


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function)


def _is_of(value: Any, hint: Any) -> bool:
    origin, parameters = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_is_of(value, part) for part in parameters)
    if origin is Literal:
        return type(value) in map(type, parameters)
    if origin is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str) and all(_is_of(item, parameters[0]) for item in value)
    if hint in (int, float):  # NaN does not equal itself
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool) and value == value
    return isinstance(value, origin or hint)


def _name(hint: Any) -> str:
    origin, parameters = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        *first, last = dict.fromkeys(_name(part) for part in parameters)
        return f"{', '.join(first)} or {last}" if first else last
    if origin is Literal:
        return _name(type(parameters[0]))
    name = _NAMES.get(origin or hint) or f"a {getattr(hint, '__name__', hint)}"
    return f"{name} of {getattr(parameters[0], '__name__', parameters[0])}" if origin is Sequence else name
