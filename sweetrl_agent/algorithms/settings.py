"""From names to objects: the settings of a command become a `Config` with its algorithms. `train`, `compare` and `evaluate` call this once.

Later sources override earlier ones: declared defaults, those of the environment's record, those of a pretrained model, settings from Python, the
file of `--config`, the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sweetrl_agent.algorithms import settings_help
from sweetrl_agent.algorithms.critic_settings import SWEET
from sweetrl_agent.algorithms.registry import ALGORITHMS, register, register_own_critic
from sweetrl_agent.config import files
from sweetrl_agent.config.command_line import NONE
from sweetrl_agent.config.job import COMPARE, PARTS, SECTIONS, Config
from sweetrl_agent.config.model import TINY, pretrained_defaults
from sweetrl_agent.config.reading import Known, flat, from_file, options, refuse_unknown, value_of
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.settings import Section, build, refuse_secrets
from sweetrl_agent.envs.registry import find_record
from sweetrl_agent.models.loading import ENGINES


def known_settings(sections: Sequence[Section], has_algorithms: bool = True) -> Known:
    """Settings by full name.

    Args:
        sections: The settings that a command takes.
        has_algorithms: Also those of all registered algorithms.
    """
    known = {name: declared for part in sections for name, declared in part.settings.items()}
    if has_algorithms:
        known |= {
            f"{name}.{declared.name}": declared
            for name, algorithm in ALGORITHMS.items()
            for declared in fields(algorithm.Config)
        }
    return known


def read(
    words: Sequence[str] | None,
    program: str,
    description: str | None,
    sections: Sequence[Section] = SECTIONS,
    has_algorithms: bool = True,
    defaults: Mapping[str, Any] = NONE,
) -> dict[str, Any]:
    """The settings that a command line, its file of `--config`, and Python give, by full name.

    Args:
        words: The words; None for those of this process.
        program: The command.
        description: What the command does, for `--help`, which ends the process.
        sections: The settings that the command takes.
        has_algorithms: Whether it takes those of algorithms.
        defaults: Settings from Python, which the words and their file override; their own "config" is a file that they override.

    Raises:
        ValueError: If a setting is unknown or given twice, or the file is missing or not YAML.
    """
    words, help_of = settings_help.split_help(sys.argv[1:] if words is None else words)
    given, below = options(words), files.plain(defaults)
    named = {**below, **given}
    if COMPARE in sections and "algorithm" in named:  # it would have no effect
        texts = named["algorithm"] if isinstance(named["algorithm"], list) else [named["algorithm"]]
        raise ValueError(f"`algorithm` is a setting of `train`; `compare` takes `--algorithms {' '.join(texts)}`.")
    paths = given.pop("config", None)
    if paths is not None and len(paths) != 1:
        raise ValueError(f"`config` takes one value, got {' '.join(paths) or 'none'}.")
    first = files.read(str(below.pop("config"))) if "config" in below else {}
    below = {**flat(first), **flat(below), **flat(files.read(paths[0]) if paths else {})}
    if has_algorithms:
        _register_users({**below, **given})
    known = known_settings(sections, has_algorithms)
    refuse_unknown([*given, *below], known, program, COMPARE.settings)
    values = {name: value_of(name, texts, known[name], program) for name, texts in given.items()}
    settings = {**from_file(below, known), **values}
    if help_of:
        chosen = [register(name) for name in settings.get("algorithms") or [settings.get("algorithm", SWEET)]]
        shown = list(ALGORITHMS) if help_of == "all" else chosen
        settings = with_defaults_of_environment(settings, sections)
        settings_help.show(program, description, sections, settings, shown if has_algorithms else [])
        raise SystemExit(0)
    return settings


def _register_users(given: Mapping[str, Any]) -> None:
    """Register the user's own algorithms and critics that settings name, so that their settings are known."""
    algorithms, critics = ("algorithm", "algorithms", "credit_algorithms"), ("critic", "critics")
    of_settings = {**dict.fromkeys(algorithms, register), **dict.fromkeys(critics, register_own_critic)}
    for setting, of_setting in of_settings.items():
        values = given.get(setting) or []
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, str) and (":" in value or value.lstrip().startswith("{")):
                of_setting(value, setting)


def with_defaults_of_environment(settings: Mapping[str, Any], sections: Sequence[Section] = SECTIONS) -> dict[str, Any]:
    """Settings with the defaults of their environment's record and, for a pretrained model, of such models.

    Args:
        settings: The settings that are given, by full name.
        sections: The settings that the command takes; defaults of others are left out.
    """
    record = find_record(str(settings.get("env", TaskArguments.env)), str(settings.get("env_record", "")))
    arguments = TaskArguments(env_kwargs=str(settings.get("env_kwargs", ""))).keyword_arguments()
    is_tiny = str(settings.get("model", TINY)) == TINY
    defaults = {**flat(record.all_defaults(arguments)), **({} if is_tiny else pretrained_defaults(record))}
    known = known_settings(sections)
    return {**{name: value for name, value in defaults.items() if name in known}, **settings}


def make_config(settings: Mapping[str, Any] | None = None, algorithms: Sequence[str] | None = None) -> Config:
    """All settings of a run, with its algorithms.

    Args:
        settings: Values by name; those of an algorithm by full name or in a mapping. Others have their declared defaults.
        algorithms: Names of the algorithms in the registry; None for the one of the settings `algorithm` and `critic`.

    Raises:
        ValueError: If a setting is unknown, has a wrong type, or is out of bounds.
    """
    given = flat(settings or {})
    if algorithms is None:
        algorithms = [_trained(given)]
    refuse_unknown([*given], known_settings(SECTIONS))
    parts: dict[str, Any] = {part: build(kind, given) for part, kind in PARTS.items()}
    ENGINES.find(parts["model"].engine)
    for name in {name.partition(".")[0] for name in given if "." in name} - {*algorithms}:
        _with_settings(name, given)  # checked, although they have no effect
    return Config(**parts, algorithms=make_algorithms(algorithms, given))


def _trained(settings: dict[str, Any]) -> str:
    """Name of the algorithm of the settings `algorithm` and `critic`; a critic becomes the algorithm of its name."""
    name, critic = register(str(settings.get("algorithm", SWEET))), str(settings.pop("critic", SWEET))
    if critic == SWEET:
        return name
    refuse_secrets("critic", critic)
    if name != SWEET:
        raise ValueError(f"`critic` is a setting of `--algorithm sweet`, got `--algorithm {name}`; leave out one of them.")
    settings["algorithm"] = critic
    return register_own_critic(critic, "critic")


def make_algorithms(names: Iterable[str], settings: Mapping[str, Any]) -> dict[str, Algorithm]:
    """Algorithms with their settings, by name.

    Raises:
        ValueError: As `make_config`; or if critics that share candidates have other settings of them.
    """
    made = {name: _with_settings(name, flat(settings)) for name in names}
    sharing = [algorithm for algorithm in made.values() if algorithm.critic]
    for other in sharing[1:]:
        for name, value in vars(sharing[0].config).items():
            if other.first_stage(name) == "candidates" and (wrong := getattr(other.config, name)) != value:
                raise ValueError(
                    f"`{other.name}.{name}` must be {value}, as of {sharing[0].name!r}, got {wrong}: candidates are the same for all critics; "
                    f"give `--sweet.{name}`."
                )
    return made


def _with_settings(name: str, settings: Mapping[str, Any]) -> Algorithm:
    """An algorithm with its settings; those of `sweet` are the defaults of SWEET-RL with any other critic."""
    algorithm = ALGORITHMS[name]
    full_names = {
        full.partition(".")[2]: full
        for part in ([SWEET, name] if algorithm.critic else [name])
        for full in settings
        if full.startswith(f"{part}.")
    }
    values = {setting: settings[full] for setting, full in full_names.items()}
    return algorithm.with_config(build(algorithm.Config, values, lambda setting: full_names.get(setting, f"{name}.{setting}")))
