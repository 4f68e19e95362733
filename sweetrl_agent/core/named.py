"""Imports of objects that a setting names as "package.module:NAME"."""

from __future__ import annotations

import os
import sys
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
        ValueError: If the name has another form, or the module or attribute does not exist. Errors raised by the module itself propagate.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"`{setting}` must be 'package.module:NAME', got {name!r}.")
    find_beside()
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # a package that the module needs
        raise ValueError(f"`{setting}` names a module that does not exist: {module!r}.") from None
    except AttributeError:
        if module in sys.modules and not hasattr(sys.modules[module], attribute):
            raise ValueError(f"`{setting}`: the module {module!r} has no {attribute!r}.") from None
        raise
