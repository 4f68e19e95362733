"""Objects by name: a name of ours, or "package.module:NAME" of somebody else's, with keyword arguments in a mapping or in JSON.

Simulated humans, sandboxes, critics, algorithms, environment records and sources of tasks are all named this way, with the same errors.
The module stands here because every package may import `sandboxes`.
"""

from __future__ import annotations

import difflib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

#: A name, or a mapping with a "name" and keyword arguments.
Spec = str | Mapping[str, Any]


def find_beside() -> None:
    """Make modules in the current folder importable, however the command is started."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def nearest(name: object, known: Collection[str]) -> str:
    """A hint for an error message: " Did you mean 'NAME'?" with the nearest known name; "" if none is near."""
    near = difflib.get_close_matches(str(name), known, 1) or difflib.get_close_matches(str(name).lower(), known, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def unknown(setting: str, name: object, known: Collection[str], others: str = "or 'package.module:Class'") -> ValueError:
    """The error for a name that is not known.

    Args:
        setting: Name of the setting.
        name: The value.
        known: The known names.
        others: What else is allowed, after the names; "" for nothing.
    """
    allowed = f"one of {tuple(known)}{', ' + others if others else ''}"
    return ValueError(f"`{setting}` must be {allowed}, got {name!r}.{nearest(name, known)}")


def spec_of(setting: str, text: str) -> str | dict[str, Any]:
    """Parse a setting of the command line: a name as it is, or JSON with a "name" and keyword arguments.

    Raises:
        ValueError: If it starts like JSON and is not a JSON object; the text is not repeated, since it may hold a password.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{setting}` must be a name or valid JSON: {error}.") from None
    return found


def name_and_arguments(setting: str, spec: Spec) -> tuple[str, dict[str, Any]]:
    """Split a specification into its name and its keyword arguments.

    Raises:
        ValueError: If a mapping has no "name".
    """
    if isinstance(spec, str):
        return spec, {}
    arguments = dict(spec)
    name = arguments.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f'`{setting}` as a mapping needs a "name", such as {{"name": "package.module:Class"}}, got {name!r}.')
    return name, arguments


def load_named(setting: str, name: str) -> Any:
    """Import a module, which may be in the current folder, and return the named attribute.

    Args:
        setting: Name of the setting, for errors.
        name: "package.module:NAME".

    Raises:
        ValueError: If the name has another form, the module or attribute does not exist, or the module itself fails; says where.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"`{setting}` must be 'package.module:NAME', got {name!r}.")
    find_beside()
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise ValueError(_failed(setting, module, error)) from error  # a package that the module needs
        raise ValueError(f"`{setting}` names a module that does not exist: {module!r}.") from None
    except Exception as error:  # an external module may fail in any way
        if isinstance(error, AttributeError) and module in sys.modules and not hasattr(sys.modules[module], attribute):
            near = nearest(attribute, [one for one in dir(sys.modules[module]) if not one.startswith("_")])
            raise ValueError(f"`{setting}`: the module {module!r} has no {attribute!r}.{near}") from None
        raise ValueError(_failed(setting, module, error)) from error


def load_class(setting: str, name: str, kind: str, methods: Sequence[str] = (), base: type | None = None) -> type[Any]:
    """Load a class by "package.module:Class" and check its type.

    Args:
        setting: Name of the setting, for errors.
        name: "package.module:Class".
        kind: What it must be, for errors, such as "a `Simulator` of `colbench_gym.simulators`".
        methods: Methods that it must define.
        base: Class that it must be derived from; None if its methods are enough.

    Raises:
        ValueError: If it cannot be loaded, is no class, lacks a method, or is not derived from `base`.
    """
    found = load_named(setting, name)
    if not isinstance(found, type):
        raise ValueError(f"`{setting}` must name {kind}, got {name!r}, which is no class but a {type(found).__name__}.")
    abstract: Collection[str] = getattr(found, "__abstractmethods__", ())
    if lacking := [method for method in methods if method in abstract or not callable(getattr(found, method, None))]:
        raise ValueError(
            f"`{setting}` must name {kind}, got {name!r}, which has no method {' and no '.join(map(repr, lacking))}."
        )
    if base is not None and base not in found.__mro__:
        raise ValueError(f"`{setting}` must name {kind}, got {name!r}, which is not derived from it.")
    return found


def make_named(
    setting: str,
    spec: Spec,
    known: Mapping[str, str],
    expected: str,
    method: str,
    base: type,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """Make the object that a name, or a mapping with a "name" and its arguments, stands for.

    Args:
        setting: Name of the setting, for errors.
        spec: The name or mapping.
        known: Names of ours -> "package.module:Class".
        expected: As `kind` of `load_class`.
        method: The method that its class must define.
        base: Class that it must be derived from.
        given: As in `build`.

    Raises:
        ValueError: If the name is unknown, the class is another one, or an argument is missing or unknown to it.
    """
    name, arguments = name_and_arguments(setting, spec)
    if ":" not in name and name not in known:
        raise unknown(setting, name, known)
    kind = load_class(setting, known.get(name, name), expected, (method,), base)
    return build(setting, name, kind, arguments, given)


def build(setting: str, name: str, kind: Any, arguments: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Any:
    """Make an object of a class, with errors that name the setting.

    Args:
        setting: Name of the setting.
        name: The name by which the class was found.
        kind: The class.
        arguments: The user's keyword arguments.
        given: Arguments that the program adds. A class of somebody else's gets those that it takes and that the user does not give.

    Raises:
        ValueError: If an argument is unknown or missing, or the constructor of somebody else's class fails; says where.
    """
    added, is_own = dict(given or {}), ":" not in name
    parameters = inspect.signature(kind).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not is_own and not takes_any:
        added = {one: value for one, value in added.items() if one in parameters}
    if not is_own:
        added = {one: value for one, value in added.items() if one not in arguments}
    try:
        inspect.signature(kind).bind(**added, **arguments)
    except TypeError as error:
        taken = ", ".join(one for one in parameters if one not in added) or "no arguments"
        near = next((hint for one in arguments if one not in parameters and (hint := nearest(one, list(parameters)))), "")
        raise ValueError(
            f"The {name!r} {setting} takes {taken}; got {list(arguments)!r}: {error}.{near} "
            f'Give a mapping (JSON on the command line) such as {{"name": "{name}", ...}}.'
        ) from None
    try:
        return kind(**added, **arguments)
    except (ValueError, ImportError, OSError):
        raise
    except Exception as error:  # somebody else's class may fail in any way
        if is_own:
            raise
        raise ValueError(f"`{setting}` {name!r} cannot be made ({where(error)}).") from error


def where(error: BaseException) -> str:
    """File and line in which an error was raised, and the error: the end of its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""
    return f"{at}{type(error).__name__}: {error}"


def _failed(setting: str, module: str, error: BaseException) -> str:
    return f"`{setting}`: the module {module!r} cannot be imported ({where(error)})."
