"""A setting: a field of a dataclass with its help text and its bounds; and what single settings must be.

The check of a whole dataclass reads the bounds off its fields, so they stand where the setting does. Every check raises ValueError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: What holds a secret: an address with a user or password or with a key in its query, and a JSON argument of such a name.
_SECRET = re.compile(
    r'://[^/?#\s"]*@|[?&](api[-_]?key|key|token|password|secret)=|"(api_?key|key|token|password|secret|authorization)"\s*:',
    re.I,
)

#: Whole numbers beyond this fit into no tensor, seed or thread count of the libraries below.
LARGEST = 2**31 - 1


class Help(str):
    """A setting's help text, which knows its bounds: what else is in a field's metadata, TRL's parser would hand to argparse.

    Attributes:
        least: The least value; None for any.
        above: What the value must be above; None for nothing.
        most: The largest value; None for any.
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None


def setting(default: Any, text: str, least: float | None = 0, above: float | None = None, most: float | None = None) -> Any:
    """A field of a dataclass of settings; a list is a default of its own for every instance.

    Args:
        default: Its default, which also says its type.
        text: What it is, with the paper's value where that is another.
        least: Of a number, the least value that makes sense; 0 often stands for "all" or "automatic". None for any.
        above: What a number must be above.
        most: The largest that makes sense.
    """
    described = Help(text)
    described.least, described.above, described.most = least, above, most
    metadata = {"help": described}
    if isinstance(default, list | tuple):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check_settings(part: Any) -> None:
    """Refuse settings of another type than their defaults', which a YAML file may hold, and numbers out of their bounds.

    Args:
        part: A dataclass of settings, each with a default.

    Raises:
        ValueError: Names the setting, and its bound or type.
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
    """Refuse a value that is none of those allowed."""
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {allowed}, got {value!r}.")


def require_folder(name: str, path: str) -> None:
    """Refuse what is plainly a path and not there; anything else may be a name of the hub."""
    try:
        is_missing = path.startswith(("/", ".", "~")) and not Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or a user's home that is not known
        is_missing = True
    if is_missing:
        raise ValueError(f"`{name}` names no folder: {path!r}.")


def require_file(name: str, source: str) -> None:
    """Refuse a source of tasks that is neither a file, with or without a slice, nor on the hub."""
    path = source.partition("[")[0]
    if not source.startswith("hub:") and not _is_file(path):
        raise ValueError(f"`{name}` names no file and no known source: {source!r}.")


def check_servers(engine: str, urls: Sequence[str]) -> None:
    """Refuse addresses that are none, and an engine that has them and needs none or needs them and has none."""
    if engine == "server" and not urls:
        raise ValueError("`engine` 'server' needs `server_urls`, such as http://127.0.0.1:8000/v1.")
    if engine != "server" and urls:
        raise ValueError(f"`server_urls` are for `engine` 'server', got {engine!r}.")
    for url in urls:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "," not in url
        except ValueError:  # a port that is no number
            is_address = False
        if not is_address:
            raise ValueError(
                f"`server_urls` must be addresses with blanks between them, such as http://127.0.0.1:8000/v1, got {url!r}."
            )


def refuse_secrets(name: str, value: str) -> None:
    """Refuse a setting that holds a secret, without repeating it: settings are written to files that anybody may read.

    Limits: It knows addresses and JSON arguments by their form and name, and not a secret that looks like any other text.
    """
    if _SECRET.search(value):
        raise ValueError(
            f"`{name}` must not hold a password or key, for settings are written to files and to the screen; set the environment "
            "variable OPENAI_API_KEY, or another that `api_key_env` of the simulator names."
        )


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a name that is too long, or that no file can have
        return False
