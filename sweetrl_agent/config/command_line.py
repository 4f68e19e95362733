"""Shared by the commands: settings from the command line and YAML files, one-line errors, and process setup."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from sweetrl_agent.core.processes import yield_idle_threads


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

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--algorithm")
    parser.add_argument("--algorithms", nargs="+", default=[])
    parser.add_argument("--config")
    named = parser.parse_known_args(list(sys.argv[1:] if arguments is None else arguments))[0]
    written = _read_settings(named.config)
    others = named.algorithms or written.get("algorithms") or []
    for name in (named.algorithm or written.get("algorithm"), *(others if isinstance(others, list) else [])):
        if isinstance(name, str) and ":" in name:
            import_module("sweetrl_agent.algorithms.registry").register(name)
    return Config.parts()


def parse_parts(parts: Sequence[Any], arguments: Sequence[str] | None, program: str, description: str | None) -> list[Any]:
    """Parse the command line and, with `--config`, a YAML file into one instance of each dataclass.

    Raises:
        ValueError: If a setting is unknown, or the file is missing or not YAML.
    """
    from trl import TrlParser

    from sweetrl_agent.envs.registry import find_record

    parser = TrlParser(parts, prog=program, description=description, allow_abbrev=False)
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of settings, such as a run folder's; the command line overrides it."
    )
    for action in parser._actions:
        if any(option.startswith("--no_") for option in action.option_strings):
            action.help = f"Switches `--{action.dest}` off."
    words = list(sys.argv[1:] if arguments is None else arguments)
    # The file is not read by TrlParser: it takes the key `env`, which is a setting here, for environment variables.
    asked = [word for word in words if word not in ("-h", "--help")]  # help comes last: it shows the environment's own defaults
    settings = _read_settings(parser.parse_known_args(asked)[0].config)
    unknown = parser.set_defaults_with_config(**settings)
    known = {setting.name for part in parts for setting in fields(part)} - settings.keys()
    named = parser.parse_known_args(asked)[0]
    own_defaults = find_record(str(named.env), str(named.env_record)).all_defaults()
    parser.set_defaults_with_config(**{name: value for name, value in own_defaults.items() if name in known})
    *found, _, left = parser.parse_args_into_dataclasses(words, return_remaining_strings=True)
    if unknown := [*unknown, *left]:
        raise ValueError(_unknown_settings(unknown, parts))
    return found


def given_names(arguments: Sequence[str] | None) -> set[str]:
    """Names of the settings that the command line or its `--config` file gives.

    Raises:
        ValueError: If the file is missing or not YAML.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    names = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    return {name.replace("-", "_") for name in names} | set(_read_settings(parser.parse_known_args(words)[0].config))


def _read_settings(path: str | None) -> dict[str, Any]:
    import yaml

    from sweetrl_agent.core.settings import LARGEST

    if path is None:
        return {}
    try:
        settings = yaml.safe_load(Path(path).read_text())
    except FileNotFoundError:
        raise ValueError(f"`config` names no file: {path!r}.") from None
    except OSError as error:
        raise ValueError(f"`config` names no file that can be read: {path!r} ({error.strerror}).") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"`config` is not YAML: {error}") from None
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ValueError(f"`config` must be a YAML mapping of settings, got {path!r}.")
    for name, value in settings.items():
        if (
            isinstance(value, int) and abs(value) > LARGEST
        ):  # before argparse writes it out, which Python refuses of very long ones
            raise ValueError(f"`{name}` must be at most {LARGEST}.")
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, list | dict) for item in value)):
            raise ValueError(f"`{name}` must be a setting or a list of settings, got a nested {type(value).__name__}.")
    return settings


def _unknown_settings(words: Sequence[str], parts: Sequence[Any]) -> str:
    """Error text for words on the command line or keys of the file that are not settings."""
    names = [word.lstrip("-").partition("=")[0] for word in words if word.startswith("--")] or list(words)
    known = [setting.name for part in parts for setting in fields(part)]
    near = difflib.get_close_matches(names[0].replace("-", "_"), known, 1)
    return f"Unknown settings: {', '.join(names)}. " + (f"Did you mean `{near[0]}`?" if near else "`--help` lists all.")


def as_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command line; see `run_train`."""
    words: list[str] = []
    for name, value in settings.items():
        values = value if isinstance(value, list | tuple) else [value]
        words += [
            f"--{name}",
            *(f"{one.__module__}:{one.__qualname__}" if isinstance(one, type) else str(one) for one in values),
        ]
    return words


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
    """Run a command; an error is printed in one line. Returns the exit status."""
    try:
        return command(arguments)
    except CommandError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _quieten() -> None:
    """Silence library messages that appear on every run and that no user can act on; errors and our own output stay."""
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
