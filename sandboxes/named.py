"""Objects by name: a name of ours, or a user-defined "package.module:NAME", with keyword arguments in a mapping or in JSON.

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

from sandboxes.arguments import check_types

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
        spec: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{setting}` must be a name or valid JSON: {error}.") from None
    return spec


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
        loaded = import_module(module)
        if hasattr(loaded, attribute):
            return getattr(loaded, attribute)
    except Exception as error:  # an external module may fail in any way
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ValueError(f"`{setting}` names a module that does not exist: {module!r}.") from None
        raise ValueError(f"`{setting}`: the module {module!r} cannot be imported ({where(error)}).") from error
    near = nearest(attribute, [name_there for name_there in dir(loaded) if not name_there.startswith("_")])
    raise ValueError(f"`{setting}`: the module {module!r} has no {attribute!r}.{near}")


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
    loaded = load_named(setting, name)
    abstract: Collection[str] = getattr(loaded, "__abstractmethods__", ())
    if not isinstance(loaded, type):
        why = f"is no class but a {type(loaded).__name__}"
    elif lacking := [method for method in methods if method in abstract or not callable(getattr(loaded, method, None))]:
        why = f"has no method {' and no '.join(map(repr, lacking))}"
    elif base is not None and base not in loaded.__mro__:
        why = "is not derived from it"
    else:
        return loaded
    raise ValueError(f"`{setting}` must name {kind}, got {name!r}, which {why}.")


def make_named(
    setting: str,
    spec: Spec,
    known: Mapping[str, str],
    expected: str,
    method: str,
    base: type,
    added: Mapping[str, Any] | None = None,
) -> Any:
    """Make the object that a name, or a mapping with a "name" and its arguments, stands for.

    Args:
        setting: Name of the setting, for errors.
        spec: The name or mapping.
        known: Names of ours -> "package.module:Class".
        expected: As `kind` of `load_class`.
        method: The method that its class must define.
        base: Class that it must be derived from.
        added: As in `build`.

    Raises:
        ValueError: If the name is unknown, the class is another one, or an argument is missing or unknown to it.
    """
    name, arguments = name_and_arguments(setting, spec)
    if ":" not in name and name not in known:
        raise unknown(setting, name, known)
    kind = load_class(setting, known.get(name, name), expected, (method,), base)
    return build(setting, name, kind, arguments, added)


def build(setting: str, name: str, kind: Any, arguments: Mapping[str, Any], added: Mapping[str, Any] | None = None) -> Any:
    """Make an object of a class, with errors that name the setting.

    Args:
        setting: Name of the setting.
        name: The name by which the class was found.
        kind: The class.
        arguments: The user's keyword arguments.
        added: Arguments that the program adds. A user-defined class gets those that it takes and that the user does not give.

    Raises:
        ValueError: If an argument is unknown, missing or of another type, or the constructor of a user-defined class fails; says where.
    """
    is_user_defined, added = ":" in name, dict(added or {})
    parameters = inspect.signature(kind).parameters
    if is_user_defined:
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        added = {key: value for key, value in added.items() if key not in arguments and (takes_any or key in parameters)}
    try:
        inspect.signature(kind).bind(**added, **arguments)
    except TypeError as error:
        taken = ", ".join(argument for argument in parameters if argument not in added) or "no arguments"
        near = next(filter(None, (nearest(key, list(parameters)) for key in arguments if key not in parameters)), "")
        raise ValueError(
            f"The {name!r} {setting} takes {taken}; got {list(arguments)!r}: {error}.{near} "
            f'Give a mapping (JSON on the command line) such as {{"name": "{name}", ...}}.'
        ) from None
    if not is_user_defined:
        check_types(kind.__init__ if isinstance(kind, type) else kind, arguments)  # type: ignore[misc]
    try:
        return kind(**added, **arguments)
    except (ValueError, ImportError, OSError):
        raise
    except Exception as error:  # a user-defined class may fail in any way
        if not is_user_defined:
            raise
        raise ValueError(f"`{setting}` {name!r} cannot be made ({where(error)}).") from error


def where(error: BaseException) -> str:
    """File and line in which an error was raised, and the error: the end of its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""
    return f"{at}{type(error).__name__}: {error}"
