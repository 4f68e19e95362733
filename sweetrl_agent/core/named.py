"""What a setting names as "package.module:NAME"."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any


def find_beside() -> None:
    """Let modules be found in the folder that the command is given in, however it is given."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def load_named(setting: str, name: str) -> Any:
    """Import a module, which may lie in the folder that the command is given in, and take what is named there.

    Args:
        setting: The setting, for errors.
        name: "package.module:NAME".

    Raises:
        ValueError: If the name has another form, or there is nothing of that name. Errors of the module itself are raised as they are.
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
        raise ValueError(f"`{setting}` names a module that is not there: {module!r}.") from None
    except AttributeError:
        if module in sys.modules and not hasattr(sys.modules[module], attribute):
            raise ValueError(f"`{setting}`: the module {module!r} has no {attribute!r}.") from None
        raise
