"""Shared by the commands: settings from Python, one-line errors, and process setup."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sandboxes.extras import pip_install
from sweetrl_agent.core.contract import ContractError
from sweetrl_agent.core.processes import yield_idle_threads

NONE: Mapping[str, Any] = MappingProxyType({})
#: Modules that the extra "train" brings. Some are imported only when a model is trained, which is late to learn that one is missing.
TRAIN_MODULES = ("torch", "trl", "transformers", "datasets", "accelerate", "peft", "scipy", "tqdm", "yaml", "pydantic")


def prepare_process() -> None:
    """Set environment variables that libraries read on import, and silence messages that they print on every run.

    Raises:
        ModuleNotFoundError: Names a module of the extra "train" that is not installed.
    """
    for name in TRAIN_MODULES:
        if find_spec(name) is None:
            raise ModuleNotFoundError(name=name)
    yield_idle_threads()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():  # in a log file, a progress line every ten seconds is enough
        os.environ.setdefault("TQDM_MININTERVAL", "10")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")  # it takes seconds to import, which only training does
    _quieten()


class CommandError(ValueError):
    """Error of a command: an invalid setting, or a failure of a service or of the machine."""


@contextmanager
def ending_with(*errors: type[Exception]) -> Iterator[None]:
    """Raise these errors as `CommandError`."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from error


def results_of(command: Callable[[], int], settings: Mapping[str, Any], output: str) -> dict[str, Any]:
    """Run a command with settings from Python.

    Args:
        command: Runs it and returns an exit status.
        settings: The settings that it has; those of their file `config` have less weight.
        output: Default of its folder, which the settings may override.

    Returns:
        Content of `results.json` of the folder; {} after a dry run.

    Raises:
        CommandError: If the command fails.
    """
    if command():
        raise CommandError("The run would fail, for the reasons printed above.")
    from sweetrl_agent.config import files
    from sweetrl_agent.config.reading import flat

    in_file = flat(files.read(str(settings["config"]))) if "config" in settings else {}
    used = {"output": output, **in_file, **settings}
    if used.get("dry_run"):
        return {}
    results: dict[str, Any] = json.loads((Path(used["output"]) / "results.json").read_text(encoding="utf-8"))
    return results


def conclude(troubles: Sequence[str]) -> int:
    """Print the outcome of a dry run; returns the exit status."""
    for trouble in troubles:
        print(f"error: {trouble}", file=sys.stderr)
    print("Nothing was run, and the run would fail." if troubles else "The settings are valid; nothing was run.")
    return 2 if troubles else 0


def exit_status(command: Callable[[], int]) -> int:
    """Run a command; an error or an interrupt is printed in one line. Returns the exit status."""
    try:
        return command()
    except CommandError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except ContractError as error:  # after the trial, which did not see it
        print(
            f"error: the environment does not keep the contract of environments: {' '.join(str(error).split())}",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print(
            "\nInterrupted. What has ended is kept, and the same command, without `--redo`, resumes the run.", file=sys.stderr
        )
        return 130
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in TRAIN_MODULES:
            raise
        print(f"error: this command needs {error.name}: `{pip_install('[train]')}`", file=sys.stderr)
        return 2


def _quieten() -> None:
    """Silence library messages that appear on every run and that no user can act on; errors and our own output stay."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if datasets := sys.modules.get("datasets"):
        datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
