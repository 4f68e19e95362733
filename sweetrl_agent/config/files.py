"""Files of settings: those of the package by name, such as `--config quick`, and a user's own by path."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from sandboxes.named import nearest
from sweetrl_agent.core.settings import LARGEST

#: Folder of the files of the package.
FOLDER = Path(__file__).resolve().parents[1] / "configs"
#: Settings that take JSON; in a file they may be mappings, and lists of mappings.
JSON_SETTINGS = (
    "algorithm",
    "algorithms",
    "critic",
    "critics",
    "credit_algorithms",
    "env_kwargs",
    "sandbox",
    "simulator",
    "simulators",
)
#: Numbers that YAML 1.1 reads as text.
_SCIENTIFIC = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")


def names() -> list[str]:
    """Names of the package's files of settings, for `--config`."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(name: str) -> Path:
    """Find a file: a path, or the name of a file of the package, with or without ".yaml".

    Raises:
        ValueError: If there is neither; lists the package's names.
    """
    path, packaged = Path(name), FOLDER / f"{name.removesuffix('.yaml')}.yaml"
    try:
        if path.is_file():
            return path
        if packaged.is_file() and packaged.resolve().is_relative_to(FOLDER):
            return packaged
    except (OSError, ValueError):  # too long, or not a valid file name
        pass
    near = nearest(path.name.removesuffix(".yaml"), names())
    raise ValueError(f"`config` names no file: {name[:500]!r}; by name the package has {', '.join(names())}.{near}")


def describe(name: str) -> str:
    """First comment of a file of the package, on one line."""
    lines = find(name).read_text(encoding="utf-8").splitlines()
    return lines[0].removeprefix("#").strip() if lines and lines[0].startswith("#") else ""


def read(name: str) -> dict[str, Any]:
    """Read a file of settings. Mappings of `JSON_SETTINGS` become JSON, as on the command line.

    Raises:
        ValueError: If there is no such file, or it is not a YAML mapping of settings.
    """
    import yaml  # an extra brings it

    path = find(name)
    try:
        settings = yaml.load(path.read_text(encoding="utf-8"), _loader())
    except OSError as error:
        raise ValueError(f"`config` names no file that can be read: {name!r} ({error.strerror}).") from None
    except _TwiceError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"`config` is not YAML: {error}") from None
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise ValueError(f"`config` must be a YAML mapping of settings, got {name!r}.")
    return plain(settings)


class _TwiceError(ValueError):
    pass


def _loader() -> Any:
    """PyYAML's safe loader, which also refuses a key that a mapping has twice, or once with a dot and once in a mapping."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            names = [str(key.value) for key, _ in node.value]
            nested = [
                f"{key.value}.{sub.value}" for key, of in node.value if isinstance(of, yaml.MappingNode) for sub, _ in of.value
            ]
            if twice := [name for name, count in Counter([*names, *nested]).items() if count > 1]:
                raise _TwiceError(f"`config` has `{twice[0]}` twice; a setting is given once.")
            return cast(dict[Any, Any], super().construct_mapping(node, deep))

    return Loader


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a file or of Python as values of the command line: mappings of `JSON_SETTINGS` as JSON, paths and classes by their names.

    Raises:
        ValueError: If a value is neither a setting, a list of them nor a mapping of an algorithm's.
    """
    return {name: _value(name, value) for name, value in settings.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, int) and abs(value) > LARGEST:  # which Python refuses to write out, if it is very long
        raise ValueError(f"`{name}` must be at most {LARGEST}.")
    if isinstance(value, list | tuple):
        return [_item(name, item) for item in value]
    if isinstance(value, Mapping) and name not in JSON_SETTINGS and "." not in name:  # settings of an algorithm
        return {str(key): _value(f"{name}.{key}", item) for key, item in value.items()}
    return _item(name, value)


def _item(name: str, value: Any) -> Any:
    if isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, Mapping) and name in JSON_SETTINGS:
        try:
            return json.dumps(_with_numbers(value))
        except (TypeError, ValueError, RecursionError):  # a date, or an anchor within itself
            raise ValueError(f"`{name}` must be a mapping of texts and numbers.") from None
    if isinstance(value, Mapping | list):
        raise ValueError(f"`{name}` must be a setting or a list of settings, got a nested {type(value).__name__}.")
    return str(value) if isinstance(value, Path) else value


def _with_numbers(value: Any) -> Any:
    """A value of a mapping with texts such as "1e-4" as numbers: YAML 1.1 wants "1.0e-4". A setting by itself is converted by its type."""
    if isinstance(value, dict):
        return {key: _with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    return float(value) if isinstance(value, str) and _SCIENTIFIC.fullmatch(value) else value
