"""Files of settings: those of the package by name, such as `--config quick`, and a user's own by path."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

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
    "env_kwargs",
    "own_settings",
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
    own = names()
    near = nearest(path.name.removesuffix(".yaml"), own)
    raise ValueError(f"`config` names no file: {name[:500]!r}; by name the package has {', '.join(own)}.{near}")


def describe(name: str) -> str:
    """First comment of a file of the package, on one line."""
    lines = find(name).read_text(encoding="utf-8").splitlines()
    return lines[0].removeprefix("#").strip() if lines and lines[0].startswith("#") else ""


def read(name: str | None) -> dict[str, Any]:
    """Read a file of settings; {} for None. Mappings of `JSON_SETTINGS` become JSON, as on the command line.

    Raises:
        ValueError: If there is no such file, or it is not a YAML mapping of settings.
    """
    import yaml  # an extra brings it

    if name is None:
        return {}
    path = find(name)
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"`config` names no file that can be read: {name!r} ({error.strerror}).") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"`config` is not YAML: {error}") from None
    if not isinstance(settings, dict) or not all(isinstance(one, str) for one in settings):
        raise ValueError(f"`config` must be a YAML mapping of settings, got {name!r}.")
    return {one: _value(one, value) for one, value in settings.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, int) and abs(value) > LARGEST:  # before argparse writes it out, which Python refuses of very long ones
        raise ValueError(f"`{name}` must be at most {LARGEST}.")
    if name in JSON_SETTINGS:
        try:
            return [_as_json(item) for item in value] if isinstance(value, list) else _as_json(value)
        except (TypeError, ValueError, RecursionError):  # a date, or an anchor within itself
            raise ValueError(f"`{name}` must be a mapping of texts and numbers.") from None
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, list | dict) for item in value)):
        raise ValueError(f"`{name}` must be a setting or a list of settings, got a nested {type(value).__name__}.")
    return value


def _as_json(value: Any) -> Any:
    return json.dumps(_with_numbers(value)) if isinstance(value, dict) else value


def _with_numbers(value: Any) -> Any:
    """A value of a mapping with texts such as "1e-4" as numbers: YAML 1.1 wants "1.0e-4". A setting by itself is converted by its type."""
    if isinstance(value, dict):
        return {name: _with_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_numbers(one) for one in value]
    return float(value) if isinstance(value, str) and _SCIENTIFIC.fullmatch(value) else value
