"""Settings: dataclass fields with a help text and bounds, and checks of single settings.

Types and bounds are declared with the field; pydantic checks them where a dataclass is made from values. Every check raises ValueError.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
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


Kind = TypeVar("Kind")
#: A declared setting: a field of a dataclass, made by `setting`.
Setting = dataclasses.Field[Any]


def setting(default: Any, text: str, least: float | None = 0, above: float | None = None, most: float | None = None) -> Any:
    """Declare a field of a dataclass of settings; a default list is copied for every instance.

    Type and bounds are checked by pydantic, which takes a field's metadata for the arguments of its `Field`.

    Args:
        default: Its default.
        text: Its help text, with the paper's value if that differs.
        least: Lower bound of a number, inclusive; 0 often means "all" or "automatic". None for none.
        above: Lower bound of a number, exclusive.
        most: Upper bound of a number, inclusive.
    """
    metadata: dict[str, Any] = {"description": text}
    if isinstance(default, list | tuple):
        return field(default_factory=lambda: list(default), metadata=metadata)
    if isinstance(default, int | float) and not isinstance(default, bool):
        is_whole = isinstance(default, int)
        metadata |= {"gt": above} if above is not None else {"ge": -LARGEST if least is None and is_whole else least}
        metadata |= {"le": LARGEST if most is None and is_whole else most, "allow_inf_nan": None if is_whole else False}
        metadata = {name: value for name, value in metadata.items() if value is not None}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Section:
    """Settings of a part, a command or an algorithm.

    Attributes:
        title: Its title.
        text: What it is.
        settings: The declared settings, by full name.
    """

    title: str
    text: str
    settings: Mapping[str, Setting]


def section(title: str, kind: type, names: Collection[str] = ()) -> Section:
    """The settings of a dataclass, described by the first line of its docstring.

    Args:
        title: Title of the section.
        kind: The dataclass.
        names: Those of its settings that are taken; () for all.
    """
    declared = {field.name: field for field in dataclasses.fields(kind) if not names or field.name in names}
    return Section(title, str(kind.__doc__).strip().splitlines()[0], declared)


def default_of(declared: Setting) -> Any:
    """The default of a setting."""
    return declared.default if declared.default_factory is dataclasses.MISSING else declared.default_factory()


def build(kind: type[Kind], values: Mapping[str, Any], full_name: Callable[[str], str] = str) -> Kind:
    """Make a dataclass of settings from values, of which texts are converted to the type of their setting.

    Args:
        kind: The dataclass.
        values: Values by name; settings without one have their defaults, and values of other names are left out.
        full_name: Maps the name of a field to that of its setting, such as "grpo.clip", for errors.

    Raises:
        ValueError: Names the setting and its type or bound.
    """
    declared = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {name: value for name, value in values.items() if name in declared}
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and encodable(item) != item:
                raise ValueError(f"`{full_name(name)}` must be text in UTF-8, got {ascii(item)[:200]}.")
            if isinstance(item, bool) and type_of(declared[name]) in (int, float):  # which pydantic takes for 0 and 1
                raise ValueError(f"`{full_name(name)}` must be a number, got {item}.")
    from pydantic import ValidationError  # here: without extras, commands say in one sentence that it is lacking

    untyped: Any = kind
    try:
        made: Kind = _adapter(untyped).validate_python(values)
        return made
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
    if cause := error.get("ctx", {}).get("error"):  # of the dataclass's own check
        raise ValueError(_NAME.sub(lambda match: f"`{full_name(match[1]) if match[1] in declared else match[1]}`", str(cause)))
    # pydantic's sentence, such as "must be a valid integer, unable to parse string as an integer"
    expected, value = error["msg"].replace("Input should be", "must be"), error["input"]
    for words, short in _SHORTER.items():
        expected = expected.replace(words, short)
    is_long = isinstance(value, int) and abs(value) > LARGEST  # Python refuses to write out very long ones
    shown = "" if is_long else value if "ctx" in error else ascii(value) if isinstance(value, str) else repr(value)
    got = "" if is_long else f", got {str(shown)[:200]}"
    raise ValueError(f"`{full_name(str(error['loc'][0]))}` {expected}{got}.")


_NAME = re.compile(r"`(\w+)`")
#: pydantic's words for bounds -> ours.
_SHORTER = {"greater than or equal to": "at least", "less than or equal to": "at most", "greater than": "above"}


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def type_of(declared: Setting) -> type:
    """Type of a setting, of a list that of its items: bool, int, float or str."""
    default = default_of(declared)
    return (int if "int" in str(declared.type).lower() else str) if isinstance(default, list) else type(default)


def changed(config: Any, names: Collection[str]) -> list[str]:
    """The settings with these names that differ from their defaults."""
    return [
        item.name
        for item in dataclasses.fields(config)
        if item.name in names and getattr(config, item.name) != default_of(item)
    ]


def require(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not one of those allowed."""
    if value not in allowed:
        raise unknown(name, value, allowed, others="")


def are_names(values: Sequence[str]) -> bool:
    """Whether names of agents are different, and folders can have them."""
    return len({*values}) == len(values) and all(re.fullmatch(r"\w[\w .-]*", value) for value in values)


def require_names(name: str, values: Sequence[str]) -> None:
    """Refuse names of agents that are not `are_names`."""
    if not are_names(values):
        raise ValueError(f"`{name}` must be different names that folders can have, got {list(values)}.")


def typed_names(name: str, values: Sequence[str]) -> str:
    """A setting of names of agents as it is typed in a shell; "" if `require_names` refuses them."""
    return f"--{name} {shlex.join(values)}" if are_names(values) else ""


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
