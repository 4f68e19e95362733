"""Runs the stages of a run in order, each once, and prints the plan of a dry run."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import sandboxes
from colbench_gym.errors import ColBenchError
from sandboxes.cpus import usable_cpus
from sweetrl_agent.trainers.forecast import Forecast, as_lines, in_words, make_forecast, time_left
from sweetrl_agent.trainers.planning import gpu_lines
from sweetrl_agent.trainers.resources import disk_line, warnings

if TYPE_CHECKING:
    from sweetrl_agent.data.run import Run

_log = logging.getLogger(__name__)


def check_order(run: Run, wanted: str, invalid: Mapping[str, str]) -> None:
    """Refuse to run a single stage before its input files exist.

    Args:
        run: The run.
        wanted: The stage; "all" for all.
        invalid: Stages that are to be done again, and why.

    Raises:
        ValueError: If an earlier stage is not done.
    """
    names = [name for name in run.stages if name != "sft" or run.config.has_sft or name == wanted]
    if wanted not in ("all", *names):
        raise ValueError(f"`stage` must be one of {tuple(run.stages)} for {run.algorithm.name!r}, or all, got {wanted!r}.")
    missing = [
        name for name in names[: 0 if wanted == "all" else names.index(wanted)] if not run.is_done(name) or name in invalid
    ]
    if missing:
        why = next((f" ({invalid[name]})" for name in missing if name in invalid), "")
        raise ValueError(f"Stage {wanted!r} needs the files of {missing}{why}; run these first, or leave out `--stage`.")


def left(run: Run, invalid: Collection[str] = ()) -> list[str]:
    """Requested stages that are not done, or are to be done again."""
    wanted = run.config.run.stage
    return [name for name in run.stages if wanted in ("all", name) and (not run.is_done(name) or name in invalid)]


def run_stages(run: Run, wanted: str) -> None:
    """Run the requested stages that are not done; the report is always made again."""
    import torch

    from sweetrl_agent.data.distributed import is_first, num_processes
    from sweetrl_agent.data.files import write_text
    from sweetrl_agent.data.folder_guide import folder_guide
    from sweetrl_agent.models.loading import dtype_line

    def say(text: str) -> None:
        _log.log(logging.INFO if is_first() else logging.DEBUG, "%s", text)

    if run.record.has_sandbox:
        say("sandbox: {} ({})".format(*sandboxes.resolve(run.config.task.sandbox_spec())))
    if run.note:
        say(run.note)
    torch.set_num_threads(run.config.run.threads or max(usable_cpus() // num_processes(), 1))
    todo = left(run, ["report"])
    if not run.config.is_tiny:
        say(f"dtype: {dtype_line(run.config.model)}")
    forecast = _forecast(run, todo) if is_first() else None
    if forecast is not None:
        expected = forecast.expected(run.seconds)
        for line in [*as_lines(expected, todo, run.seconds, forecast.uncertainty), *forecast.about()]:
            say(line)
        for sentence in warnings(run, todo, {name: work for name, (work, _) in expected.items()}, forecast.lengths):
            _log.warning("%s", sentence)
        write_text(run.path("README.md"), folder_guide(run.algorithm.title, run.stages, run.algorithm.policy))
    for name, stage in run.stages.items():
        if wanted not in ("all", name):
            continue
        if name != "report" and run.is_done(name):
            say(f"{name}: done before, {run.seconds[name]:.0f} s")
        elif is_first() or stage.is_distributed:
            if name != "report" and forecast is not None:
                say(_heading(forecast, name, left(run, ["report"])))
            with run.stage(stage):
                stage.run(run)
        if not is_first() and name != "report":  # the report is the last stage, no process waits for it
            run.wait_for(name)


def _heading(forecast: Forecast, name: str, todo: list[str]) -> str:
    """What a stage does, how long it takes, and how long the rest of the run takes."""
    run: Any = forecast.run
    expected = forecast.expected(run.seconds)
    work, seconds = expected[name]
    number, text = list(run.stages).index(name) + 1, work.text or run.stages[name].purpose
    left = time_left(expected, todo)
    rest = f"; {in_words(left)} left in all" if left is not None and len(todo) > 1 else ""
    return f"[{number}/{len(run.stages)}] {name}: {text}, {in_words(seconds)}{rest}"


def _forecast(run: Run, todo: Collection[str]) -> Forecast:
    """The forecast of the run's stages on this machine."""
    return make_forecast(run, run.stages, [run.algorithm], todo)


def print_plan(run: Run, invalid: Mapping[str, str]) -> None:
    """Print what the run would do.

    Args:
        run: The run.
        invalid: Stages that are to be done again, and why.
    """
    from sweetrl_agent.models.loading import dtype_line
    from sweetrl_agent.trainers.preflight import check_model

    config, sources = run.config, run.sources
    num_tasks, per_task = len(run.tasks), config.collect.trajectories_per_task
    limits = [run.record.turn_limit(task, config.task) for task in run.tasks]
    turns = f"at most {per_task * sum(filter(None, limits))} turns" if all(limits) else "turns"
    print(f"model      {config.model.model} ({config.model.engine}, {'LoRA' if config.model.lora else 'all weights'})")
    if not config.is_tiny:
        print(f"dtype      {dtype_line(config.model)}")
        with suppress(ColBenchError):  # a fault is printed with the others
            print(f"template   {check_model('model', config.model.model, config.model)}")
    human = f"; human: {config.task.simulator}" if run.record.simulators else ""
    measured = ", ".join(f"{len(own)} {name} ({sources[name]})" for name, own in run.held_out.items())
    print(f"tasks      {num_tasks} of {len(run.train)} train ({sources['train']}), {measured}{human}")
    if run.note:
        print(run.note)
    if run.record.has_sandbox:
        print("sandbox    {} ({})".format(*sandboxes.resolve(config.task.sandbox_spec())))
    print(f"algorithm  {run.algorithm.title}: {', '.join(run.stages)}")
    if "collect" in run.stages:
        print(f"collect    {num_tasks * per_task} trajectories, {turns} of {config.model.max_new_tokens} tokens")
    for line in run.algorithm.plan(run):
        print(line)
    _print_times(run, invalid)


def _print_times(run: Run, invalid: Mapping[str, str]) -> None:
    """Print the stages with their times here, what they need of disk and memory, and the plan for named GPUs."""
    import torch

    torch.set_num_threads(run.config.run.threads or usable_cpus())
    todo = left(run, invalid)
    forecast = _forecast(run, todo)
    expected = forecast.expected({name: seconds for name, seconds in run.seconds.items() if name not in invalid})
    works = {name: work for name, (work, _) in expected.items()}
    for line in [*as_lines(expected, todo, run.seconds, forecast.uncertainty), *forecast.about()]:
        print(line)
    for name, why in invalid.items():
        print(f"again      {name}: {why}")
    print(disk_line(run))
    for sentence in warnings(run, todo, works, forecast.lengths):
        print(f"warning    {sentence}")
    for line in gpu_lines(run, run.stages, todo, forecast.lengths):
        print(line)
