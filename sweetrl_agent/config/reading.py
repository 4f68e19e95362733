"""Settings of a command line and of its file, by full name: "num_tasks", or "grpo.clip" of an algorithm. Types and bounds are checked by `core.settings`.

Lists are separated by blanks or commas, a boolean alone means true, and nothing may be given twice.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sandboxes.lists import listed
from sweetrl_agent.config import files
from sweetrl_agent.core.settings import Setting, default_of, type_of

#: The settings of a command, by full name.
Known = Mapping[str, Setting]
#: Lists of texts whose values contain no blanks outside of JSON. Paths and names of steps may.
_WORDS = ("algorithms", "critics", "credit_algorithms", "simulators", "report_to", "callbacks", "server_urls")
#: Settings of one value -> the setting of `compare` that takes several.
_PLURALS = {"algorithm": "algorithms", "critic": "algorithms", "seed": "seeds"}
#: Settings of `train` -> the setting of `evaluate` that takes their value.
_OF_EVALUATE = {
    "seed": "seeds", "eval_tasks": "num_tasks", "eval_episodes": "episodes", "test_tasks": "tasks", "unseen_tasks": "tasks", "novel_tasks": "tasks",
    "model": "policies",
}  # fmt: skip


def options(words: Sequence[str]) -> dict[str, list[str]]:
    """The values of the options of a command line, by full name and in order.

    Raises:
        ValueError: If a word belongs to no option, or a setting is given twice.
    """
    values: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            if name in values:
                raise ValueError(f"`{name}` is given more than once, and one of its values would be ignored; give it once.")
            values[name] = [value] if equals else []
        elif values:
            values[[*values][-1]].append(word)
        else:
            raise ValueError(f"Expected `--SETTING VALUE`, got {word}.")
    return values


def value_of(name: str, values: list[str], declared: Setting, program: str) -> Any:
    """The value of an option, a text or a list of texts; a boolean alone is true.

    Args:
        name: Name of the setting.
        values: As `options` returns them.
        declared: The setting.
        program: The command, such as "python -m sweetrl_agent.train".

    Raises:
        ValueError: If a setting takes one value and has another number of them.
    """
    if isinstance(default_of(declared), list) and values:
        return [item for text in values for item in listed(text, _splits_blanks(name, declared))]
    several = [item for text in values for item in listed(text, splits_blanks=True)] if name in _PLURALS else values
    if len(several) == 1:
        return values[0]
    if not values:
        if type_of(declared) is bool:
            return True
        raise ValueError(f"`{name}` needs a value.")
    advice = "" if all(value.replace(".", "").isdigit() for value in values) else "; quote a value with blanks"
    if program.endswith("evaluate"):
        advice = "; policies come first"
    elif name in _PLURALS:
        compare = program.replace("sweetrl_agent.train", "sweetrl_agent.compare").replace("sweetrl-train", "sweetrl-compare")
        advice = f"; several are compared by `{compare} --{_PLURALS[name]} {shlex.join(several)}`"
    raise ValueError(f"`{name}` takes one value, got {' '.join(several)}{advice}.")


def _splits_blanks(name: str, declared: Setting) -> bool:
    return type_of(declared) is int or name in _WORDS


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by full name, where those of an algorithm may be a mapping under its name."""
    by_full_name: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and name not in files.JSON_SETTINGS:
            by_full_name |= {f"{name}.{setting}": of_algorithm for setting, of_algorithm in value.items()}
        else:
            by_full_name[name] = value
    return by_full_name


def from_file(settings: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """Settings of a file or of Python with lists where lists are expected: `seeds: 5` and `seeds: 0, 1` are two lists of numbers."""
    values = dict(settings)
    for name, value in settings.items():
        if isinstance(default_of(known[name]), list) and value is not None and not isinstance(value, list):
            is_text = isinstance(value, str)
            values[name] = (listed(value, _splits_blanks(name, known[name])) if value else []) if is_text else [value]
    return values


def refuse_unknown(names: Collection[str], known: Known, program: str = "", of_compare: Collection[str] = ()) -> None:
    """Refuse names that are not settings of a command.

    Args:
        names: The names.
        known: The settings of the command.
        program: The command, such as "python -m sweetrl_agent.train".
        of_compare: Settings of `compare` alone.

    Raises:
        ValueError: Names them, and what may be meant by the first.
    """
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    name = unknown[0]
    if program.endswith("evaluate") and name in _OF_EVALUATE:
        meant = f"`{name}` is a setting of `train`; `evaluate` takes `--{_OF_EVALUATE[name]}`."
    elif name in of_compare:
        meant = f"`{name}` is a setting of `compare`."
    else:
        meant = _meant(name, known)
    raise ValueError(f"Unknown settings: {', '.join(unknown)}. {meant}")


def _meant(name: str, known: Known) -> str:
    """What may be meant by a name that is not known."""
    if inner := next((other for other in known if other.startswith(f"{name}.")), ""):
        return f"`{name}` takes settings of its own, such as `--{inner}`; in a file, a mapping of them."
    near = [other for other in known if other.endswith((f"_{name}", f".{name}"))]
    near = [
        other for other in near if "." not in other or other.startswith("sweet.")
    ] or near  # all critics have those of `sweet`
    near = near or difflib.get_close_matches(name, [*known, "help"], 1)
    if not near:
        return "`--help all` lists all."
    return f"Did you mean {'one of ' if len(near) > 1 else ''}{', '.join(f'`{other}`' for other in near)}?"
