"""Imports of objects that a setting names as "package.module:NAME"."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import Any


def find_beside() -> None:
    """Make modules in the current folder importable, however the command is started."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


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
            raise ValueError(f"`{setting}`: the module {module!r} has no {attribute!r}.") from None
        raise ValueError(_failed(setting, module, error)) from error


def where(error: BaseException) -> str:
    """File and line in which an error was raised, and the error: the end of its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""
    return f"{at}{type(error).__name__}: {error}"


def _failed(setting: str, module: str, error: BaseException) -> str:
    return f"`{setting}`: the module {module!r} cannot be imported ({where(error)})."
