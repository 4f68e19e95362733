"""Settings: dataclass fields with a help text and bounds, and checks of single settings.

Bounds are declared with the field; the check of a dataclass reads them from there. Every check raises ValueError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from colbench_gym.errors import TaskError
from colbench_gym.outside_text import encodable
from colbench_gym.user_file import refuse_folder
from sandboxes.lists import refuse_list
from sandboxes.named import unknown

#: Patterns of secrets: an address with a user or password, an address with a key in its query, and a JSON argument with such a name.
_SECRET = re.compile(
    r'://[^/?#\s"]*@|[?&](api[-_]?key|key|token|password|secret)=|"(api_?key|key|token|password|secret|authorization)"\s*:',
    re.I,
)

#: Name of a function that returns tasks.
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
#: Larger integers overflow in the tensors, seeds or thread counts of the libraries used.
LARGEST = 2**31 - 1


class Help(str):
    """A help text that carries the bounds of its setting. Other keys in a field's metadata would be passed to argparse by TRL's parser.

    Attributes:
        least: Lower bound, inclusive; None for none.
        above: Lower bound, exclusive; None for none.
        most: Upper bound, inclusive; None for none.
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None


def setting(default: Any, text: str, least: float | None = 0, above: float | None = None, most: float | None = None) -> Any:
    """Declare a field of a dataclass of settings; a default list is copied for every instance.

    Args:
        default: Its default, which also determines its type.
        text: Its help text, with the paper's value if that differs.
        least: Lower bound of a number, inclusive; 0 often means "all" or "automatic". None for none.
        above: Lower bound of a number, exclusive.
        most: Upper bound of a number, inclusive.
    """
    described = Help(text)
    described.least, described.above, described.most = least, above, most
    metadata = {"help": described}
    if isinstance(default, list | tuple):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check_settings(part: Any) -> None:
    """Refuse settings with another type than their default's, which a YAML file may contain, and numbers out of bounds.

    Args:
        part: A dataclass of settings, each with a default.

    Raises:
        ValueError: Names the setting and its bound or type.
    """
    empty = type(part)()
    for one in fields(part):
        value, kind = getattr(part, one.name), type(getattr(empty, one.name))
        values = value if isinstance(value, list) else [value]
        kinds = ((int,) if str(one.type) == "list[int]" else (str,)) if kind is list else (kind,)
        allowed = (float, int) if kinds == (float,) else kinds
        if isinstance(value, list) != (kind is list) or not all(type(item) in allowed for item in values):
            raise ValueError(
                f"`{one.name}` must be of type {'list of ' if kind is list else ''}{kinds[0].__name__}, got {value!r}."
            )
        for item in values:
            if isinstance(item, float) and not math.isfinite(item):
                raise ValueError(f"`{one.name}` must be a finite number, got {item}.")
            if isinstance(item, int) and abs(item) > LARGEST:
                raise ValueError(f"`{one.name}` must be at most {LARGEST}, got {item}.")
            if isinstance(item, str) and encodable(item) != item:
                raise ValueError(f"`{one.name}` must be text in UTF-8, got {ascii(item)[:200]}.")
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_bounds(one.name, value, one.metadata["help"])


def _check_bounds(name: str, value: float, given: Help) -> None:
    bound = ""
    if given.above is not None and value <= given.above:
        bound = f"above {given.above}"
    elif given.least is not None and value < given.least:
        bound = f"at least {given.least}"
    elif given.most is not None and value > given.most:
        bound = f"at most {given.most}"
    if bound:
        raise ValueError(f"`{name}` must be {bound}, got {value}.")


def require(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not one of those allowed."""
    if value not in allowed:
        raise unknown(name, value, allowed, others="")


def require_folder(name: str, path: str) -> None:
    """Refuse an obvious path that does not exist; anything else may be a name on the hub."""
    try:
        is_missing = path.startswith(("/", ".", "~")) and not Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or an unknown user's home
        is_missing = True
    if is_missing:
        raise ValueError(f"`{name}` names no folder: {path!r}.")


def require_file(name: str, source: str) -> None:
    """Refuse a source of tasks that is neither a file (with or without a slice), nor on the hub, nor "package.module:function"."""
    refuse_list(name, source, "put the rows into one file, or name a function that returns all, 'package.module:function'")
    path = source.partition("[")[0]
    try:
        refuse_folder(Path(path))
    except TaskError as error:
        raise ValueError(f"`{name}`: {error}") from None
    if not source.startswith("hub:") and not _FUNCTION.fullmatch(path) and not is_file(path):
        raise ValueError(f"`{name}` names no file and no known source: {source!r}.")


def check_servers(engine: str, urls: Sequence[str]) -> None:
    """Refuse malformed addresses, a server engine without addresses, and addresses for another engine."""
    if engine == "server" and not urls:
        raise ValueError("`engine` 'server' needs `server_urls`, such as http://127.0.0.1:8000/v1.")
    if engine != "server" and urls:
        raise ValueError(f"`server_urls` are for `engine` 'server', got {engine!r}.")
    for url in urls:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # the port is not a number
            is_address = False
        if not is_address:
            raise ValueError(
                f"`server_urls` must be addresses separated by blanks or commas, such as http://127.0.0.1:8000/v1, got {url!r}."
            )


def refuse_secrets(name: str, value: str) -> None:
    """Refuse a setting that contains a secret, without repeating it: settings are written to files that anybody may read.

    Limits: It recognizes addresses and JSON arguments by form and name; it does not recognize a secret in other text.
    """
    if _SECRET.search(value):
        raise ValueError(
            f"`{name}` must not contain a password or key, since settings are written to files and to the screen; set the environment "
            "variable OPENAI_API_KEY, or the one named by `api_key_env` of the simulator."
        )


def is_file(path: str) -> bool:
    """Whether a path is a file; false for a text that is not a valid path."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long, or not a valid file name
        return False
