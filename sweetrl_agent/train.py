"""The main job: ``python -m sweetrl_agent.train`` trains an agent by SWEET-RL and says how much better it became.

Without arguments: embedded tasks, scripted human, a tiny Llama, six minutes on two cores (pages: fifteen). `--config file.yaml` sets
defaults, the command line overrides. Kill it at any moment and start it again with the same arguments: it goes on.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.cpus import usable_cpus
from sweetrl_agent.rollouts.processes import yield_idle_threads

if TYPE_CHECKING:
    from sweetrl_agent.data.run import Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the main job; returns the exit status."""
    prepare_process()
    from colbench_gym.errors import ColBenchError

    with contextlib.ExitStack() as held:
        try:
            config = parse(arguments)
            from sweetrl_agent.algorithms.registry import refuse_missing, register
            from sweetrl_agent.data.distributed import is_first
            from sweetrl_agent.data.files import locked
            from sweetrl_agent.data.run import Run
            from sweetrl_agent.trainers.preflight import check_packages

            if config.run.dry_run:
                return dry_run(config)
            config.record.check(config)
            refuse_missing([register(config.run.algorithm)], config.record.capabilities(config), config.task.env)
            if is_first():
                held.enter_context(locked(Path(config.run.output)))
            run = Run(config)
            check_order(run, config.run.stage)
            check_packages(config, left(run))
        except (ColBenchError, ValueError, ImportError, OSError) as error:
            return refuse(error)
        try:
            run_stages(run, config.run.stage)
        except ColBenchError as error:
            return refuse(error)
    return 0


def run_train(**settings: Any) -> dict[str, Any]:
    """The main job from Python: what `results.json` holds in the end.

    Args:
        **settings: Those of the command line, such as `output="runs/mine", algorithm="grpo"`; a list stands for several words, a class for where
            it is found.

    Raises:
        ValueError: If the job ends with an error, which it has printed.
    """
    return run_command(main, settings, "runs/sweet")


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


def run_command(command: Callable[[Sequence[str]], int], settings: Mapping[str, Any], output: str) -> dict[str, Any]:
    """Run a command with settings -> results.json of its folder, which is `output` unless they name another; errors as `run_train`."""
    if status := command(as_words(settings)):
        raise ValueError(f"The command ended with status {status}; it has printed why.")
    from sweetrl_agent.data.files import read_object

    return read_object(Path(settings.get("output", output)) / "results.json")


def prepare_process() -> None:
    """Settings of libraries that must stand before they are loaded, and silence of what they say on every run."""
    yield_idle_threads()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():  # a log file wants a line now and then, not ten a second
        os.environ.setdefault("TQDM_MININTERVAL", "10")
    _quieten()


def parse(arguments: Sequence[str] | None) -> Any:
    """The configuration from the command line and, with `--config`, a YAML file."""
    from sweetrl_agent.config.job import Config

    return Config(*parse_parts(config_parts(arguments), arguments, "python -m sweetrl_agent.train", __doc__))


def config_parts(arguments: Sequence[str] | None) -> tuple[Any, ...]:
    """`Config.parts`, with the settings of an algorithm that is named on the command line or in the file and is not ours.

    Raises:
        ValueError: If there is no such algorithm.
    """
    import argparse

    from sweetrl_agent.algorithms.registry import register
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
            register(name)
    return Config.parts()


def parse_parts(parts: Sequence[Any], arguments: Sequence[str] | None, program: str, description: str | None) -> list[Any]:
    """Instances of dataclasses, one for each, from the command line and, with `--config`, a YAML file.

    Raises:
        ValueError: If a setting is unknown, or the file is missing or no YAML.
    """
    from trl import TrlParser

    from sweetrl_agent.envs.registry import find_record

    parser = TrlParser(parts, prog=program, description=description, allow_abbrev=False)
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of settings, such as a run folder's; the command line overrides it."
    )
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Not TrlParser's own reading of the file: it takes the key `env`, which is a setting here, for environment variables.
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
    """What to say of words on the command line or keys of the configuration that are no settings."""
    names = [word.lstrip("-").partition("=")[0] for word in words if word.startswith("--")] or list(words)
    known = [setting.name for part in parts for setting in fields(part)]
    near = difflib.get_close_matches(names[0].replace("-", "_"), known, 1)
    return f"Unknown settings: {', '.join(names)}. " + (f"Did you mean `{near[0]}`?" if near else "`--help` lists all.")


def check_order(run: Run, wanted: str) -> None:
    """Refuse a stage asked for by name whose input is not there yet.

    Raises:
        ValueError: If a stage before it is not done.
    """
    names = [name for name in run.stages if name != "imitate" or run.config.is_tiny or name == wanted]
    if wanted not in ("all", *names):
        raise ValueError(f"`stage` must be one of {tuple(run.stages)} for {run.algorithm.name!r}, or all, got {wanted!r}.")
    missing = [name for name in names[: names.index(wanted)] if not run.is_done(name)] if wanted != "all" else []
    if missing:
        raise ValueError(f"Stage {wanted!r} needs the files of {missing}; run those first, or leave out `--stage`.")


def left(run: Run) -> list[str]:
    """Stages that are asked for and not done."""
    return [name for name in run.stages if run.config.run.stage in ("all", name) and not run.is_done(name)]


def run_stages(run: Run, wanted: str) -> None:
    """Run the wanted stages that are not done; the report is made anew each time."""
    import torch

    import sandboxes
    from sweetrl_agent.data.distributed import is_first, num_processes

    say = print if is_first() else (lambda _: None)
    if run.record.has_sandbox:
        say("sandbox: {} ({})".format(*sandboxes.resolve(run.config.task.sandbox)))
    if run.note:
        say(run.note)
    torch.set_num_threads(run.config.run.threads or max(usable_cpus() // num_processes(), 1))
    for name, stage in run.stages.items():
        if wanted not in ("all", name):
            continue
        if run.is_done(name) and name != "report":
            say(f"{name}: done before, {run.seconds[name]:.0f} s")
        elif is_first() or stage.is_distributed:
            with run.stage(name):
                stage.run(run)
        if not is_first() and name != "report":  # the last one, which nobody waits for
            run.wait_for(name)


def dry_run(config: Any) -> int:
    """Print the plan and check all that the run needs, without weights and without a file. Returns the exit status: 2 where the run would fail.

    What it cannot see is said in `preflight`.
    """
    from sweetrl_agent.algorithms.registry import refuse_missing, register
    from sweetrl_agent.data.files import check_output
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.trainers.preflight import troubles

    config.record.check(config)
    refuse_missing([register(config.run.algorithm)], config.record.capabilities(config), config.task.env)
    check_output(Path(config.run.output))
    run = Run(config, is_dry=True)
    check_order(run, config.run.stage)
    print_plan(run)
    return conclude(troubles(run, left(run)))


def print_plan(run: Run) -> None:
    """What the run would do."""
    import sandboxes

    config, sources = run.config, run.sources
    num_tasks, per_task = len(run.tasks), config.collect.trajectories_per_task
    limits = [run.record.turn_limit(task, config.task) for task in run.tasks]
    turns = f"at most {per_task * sum(filter(None, limits))} turns" if all(limits) else "turns"
    print(f"model      {config.model.model} ({config.model.engine}, {'LoRA' if config.model.lora else 'all weights'})")
    measured = ", ".join(f"{len(own)} {name} ({sources[name]})" for name, own in run.held_out.items())
    print(f"tasks      {num_tasks} of {len(run.train)} train ({sources['train']}), {measured}; human: {config.task.simulator}")
    if run.note:
        print(run.note)
    if run.record.has_sandbox:
        print("sandbox    {} ({})".format(*sandboxes.resolve(config.task.sandbox)))
    print(f"algorithm  {run.algorithm.title}: {', '.join(run.stages)}")
    if "collect" in run.stages:
        print(f"collect    {num_tasks * per_task} trajectories, {turns} of {config.model.max_new_tokens} tokens")
    for line in run.algorithm.plan(run):
        print(line)


def conclude(troubles: Sequence[str]) -> int:
    """Say how a dry run went; the exit status."""
    for trouble in troubles:
        print(f"error: {trouble}", file=sys.stderr)
    print("Nothing was run, and the run would fail." if troubles else "The settings are valid; nothing was run.")
    return 2 if troubles else 0


def refuse(error: Exception) -> int:
    """Say what is wrong in one line; the exit status."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


def _quieten() -> None:
    """Silence what libraries say on every run and no user can act on; errors and our own lines stay."""
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)


if __name__ == "__main__":
    sys.exit(main())
