"""Shared by the commands: settings from the command line and YAML files, one-line errors, and process setup."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from sandboxes.extras import pip_install
from sweetrl_agent.config import files
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.lists import (
    compare_command,
    evaluated_as,
    from_file,
    refuse_repeated,
    refuse_several,
    split_words,
    stray_values,
)
from sweetrl_agent.config.model import TINY, pretrained_defaults
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.core.processes import yield_idle_threads

_FILES = """
`--config NAME` sets defaults from a YAML file: a path, such as config.yaml of a run folder, or one of the package: {}.
Flags override it. A boolean setting takes true or false, and alone means true.
"""
#: Modules that the extra "train" brings and that every command imports.
TRAIN_MODULES = {"torch", "trl", "transformers", "datasets", "accelerate", "peft", "scipy", "tqdm", "yaml"}


def prepare_process() -> None:
    """Set environment variables that libraries read on import, and silence messages that they print on every run."""
    yield_idle_threads()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():  # in a log file, a progress line every ten seconds is enough
        os.environ.setdefault("TQDM_MININTERVAL", "10")
    _quieten()


def config_parts(arguments: Sequence[str] | None) -> tuple[Any, ...]:
    """`Config.parts`, including the settings of external algorithms that the command line or the file names.

    Raises:
        ValueError: If a named algorithm does not exist.
    """
    from sweetrl_agent.config.job import Config

    registry = import_module("sweetrl_agent.algorithms.registry")
    for setting, name in _named_algorithms(arguments):
        if isinstance(name, str) and (":" in name or name.lstrip().startswith("{")):
            registry.register(registry.split(name, setting)[0], setting)
    return Config.parts()


def _named_algorithms(arguments: Sequence[str] | None) -> list[tuple[str, Any]]:
    """Algorithms as the command line or the file names them, with the name of the setting."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--algorithm")
    parser.add_argument("--algorithms", nargs="+", default=[])
    words = sys.argv[1:] if arguments is None else arguments
    named = parser.parse_known_args(split_words(words, [CompareArguments]))[0]
    written = from_file(files.read(_config_of(words)), [CompareArguments])
    one, others = named.algorithm or written.get("algorithm"), named.algorithms or written.get("algorithms") or []
    return [("algorithm", one), *(("algorithms", other) for other in (others if isinstance(others, list) else []))]


def parse_parts(parts: Sequence[Any], arguments: Sequence[str] | None, program: str, description: str | None) -> list[Any]:
    """Parse the command line and, with `--config`, a YAML file into one instance of each dataclass.

    Raises:
        ValueError: If a setting is unknown, or the file is missing or not YAML.
    """
    from trl import TrlParser

    from sweetrl_agent.config.sections import as_help, sections
    from sweetrl_agent.envs.registry import find_record

    usage = f"{program} [--config NAME] [--SETTING VALUE ...]"
    parser = TrlParser(parts, prog=program, usage=f"{usage}; --help lists all settings", allow_abbrev=False)
    parser.add_argument("--config", metavar="NAME")
    words = split_words(sys.argv[1:] if arguments is None else arguments, parts)
    refuse_repeated(words)
    refuse_several(words, program)
    # The file is not read by TrlParser: it takes the key `env`, which is a setting here, for environment variables.
    asked = [word for word in words if word not in ("-h", "--help")]  # help comes last: it shows the environment's own defaults
    settings = from_file(files.read(_config_of(asked)), parts)
    unknown = parser.set_defaults_with_config(**settings)
    known = {setting.name for part in parts for setting in fields(part)} - settings.keys()
    named = parser.parse_known_args(asked)[0]
    record = find_record(str(named.env), str(named.env_record))
    own_defaults = {
        **record.all_defaults(TaskArguments(env_kwargs=str(named.env_kwargs)).keyword_arguments()),
        **(pretrained_defaults(record) if str(getattr(named, "model", TINY)) != TINY else {}),
        **_settings_of_algorithms(_named_algorithms(arguments)),
    }
    parser.set_defaults_with_config(**{name: value for name, value in own_defaults.items() if name in known})
    if len(asked) < len(words):
        defaults = {name: parser.get_default(name) for part in parts for name in (one.name for one in fields(part))}
        width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
        text = f"{description}\n{_FILES.format(', '.join(files.names()))}"
        print(as_help(sections(parts, record, defaults), usage, text, width), end="")
        raise SystemExit(0)
    *found, _, left = parser.parse_args_into_dataclasses(words, return_remaining_strings=True)
    if unknown := [*unknown, *left]:
        raise ValueError(stray_values(words, unknown, program) or _unknown_settings(unknown, parts, words, program))
    return [_plainly_named(part) for part in found]


def _settings_of_algorithms(named: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Settings that are given as arguments of an algorithm, such as {"name": "grpo", "clip": 0.1}, by their flat names."""
    split = import_module("sweetrl_agent.algorithms.registry").split
    found: dict[str, Any] = {}
    for setting, name in named:
        found |= split(name, setting)[1] if isinstance(name, str) else {}
    return found


def _plainly_named(part: Any) -> Any:
    """A part of the settings with the algorithms' arguments left out of their names: they are settings now."""
    split = import_module("sweetrl_agent.algorithms.registry").split
    if isinstance(name := getattr(part, "algorithm", None), str):
        part.algorithm = split(name, "algorithm")[0]
    if isinstance(names := getattr(part, "algorithms", None), list):
        part.algorithms = [split(one, "algorithms")[0] if isinstance(one, str) else one for one in names]
    return part


def given_names(arguments: Sequence[str] | None) -> set[str]:
    """Names of the settings that the command line or its `--config` file gives.

    Raises:
        ValueError: If the file is missing or not YAML.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    names = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    return {name.replace("-", "_") for name in names} | set(files.read(_config_of(words)))


def _config_of(words: Sequence[str]) -> str | None:
    """The value of `--config`; None without one."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    return parser.parse_known_args(list(words))[0].config


def _unknown_settings(unknown: Sequence[str], parts: Sequence[Any], words: Sequence[str], program: str) -> str:
    """Error text for words of the command line, or keys of the file, that are not settings of a command."""
    names = [word.lstrip("-").partition("=")[0] for word in unknown if word.startswith("--")] or list(unknown)
    known = [setting.name for part in parts for setting in fields(part)]
    if program.endswith("evaluate") and (named := evaluated_as(words, names[0])):
        return f"Unknown settings: {', '.join(names)}. {named}"
    if names[0] in {setting.name for setting in fields(CompareArguments)}:
        return f"Unknown settings: {', '.join(names)}. `{names[0]}` is a setting of `compare`: `{compare_command(words, program)}`."
    ending = [name for name in known if name.endswith(f"_{names[0]}")]
    if len(ending) > 1:  # such as learning_rate, which every stage has
        return f"Unknown settings: {', '.join(names)}. Did you mean one of {', '.join(f'`{name}`' for name in ending)}?"
    near = ending or difflib.get_close_matches(names[0].replace("-", "_"), known, 1)
    return f"Unknown settings: {', '.join(names)}. " + (f"Did you mean `{near[0]}`?" if near else "`--help` lists all.")


def as_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command line: a list is several values, a class is its "module:Class", a mapping is JSON; see `run_train`."""
    words: list[str] = []
    for name, value in settings.items():
        values = [_word(one) for one in (value if isinstance(value, list | tuple) else [value])]
        if len(values) == 1:
            words.append(f"--{name}={values[0]}")  # also a value that starts with a dash
        elif values:
            words += [f"--{name}", *values]
    return words


def with_defaults(defaults: Mapping[str, Any], words: Sequence[str]) -> list[str]:
    """Words of a command line, behind those of settings that neither they nor their `--config` file give.

    Args:
        defaults: Settings by name, see `as_words`.
        words: The words, such as `sys.argv[1:]` of a script of one's own.
    """
    given = given_names(words)
    return [*as_words({name: value for name, value in defaults.items() if name not in given}), *words]


def _word(value: Any) -> str:
    if isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}"
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


class CommandError(ValueError):
    """Error of a command: an invalid setting, or a failure of a service or of the machine."""


@contextmanager
def ending_with(*errors: type[Exception]) -> Iterator[None]:
    """Raise these errors as `CommandError`."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from error


def run_command(command: Callable[[Sequence[str]], int], settings: Mapping[str, Any], output: str) -> dict[str, Any]:
    """Run a command with settings from Python.

    Args:
        command: Maps words of a command line to an exit status.
        settings: Settings by name; see `as_words`.
        output: Default of its folder, which the settings may override.

    Returns:
        Content of `results.json` of the folder; {} after a dry run.

    Raises:
        CommandError: If the command fails.
    """
    if command(as_words(settings)):
        raise CommandError("The run would fail, for the reasons printed above.")
    if settings.get("dry_run"):
        return {}
    found: dict[str, Any] = json.loads((Path(settings.get("output", output)) / "results.json").read_text(encoding="utf-8"))
    return found


def conclude(troubles: Sequence[str]) -> int:
    """Print the outcome of a dry run; returns the exit status."""
    for trouble in troubles:
        print(f"error: {trouble}", file=sys.stderr)
    print("Nothing was run, and the run would fail." if troubles else "The settings are valid; nothing was run.")
    return 2 if troubles else 0


def exit_status(command: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None) -> int:
    """Run a command; an error or an interrupt is printed in one line. Returns the exit status."""
    try:
        return command(arguments)
    except CommandError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. What has ended is kept, and the same command resumes the run.", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in TRAIN_MODULES:
            raise
        print(f"error: this command needs {error.name}: `{pip_install('[train]')}`", file=sys.stderr)
        return 2


def _quieten() -> None:
    """Silence library messages that appear on every run and that no user can act on; errors and our own output stay."""
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
