"""Runs the stages of a run in order, each once, and says beforehand what they do and how long they take."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

import sandboxes
from colbench_gym.errors import ColBenchError
from colbench_gym.files import write_text
from colbench_gym.progress import tell_stage
from sandboxes.cpus import usable_cpus
from sweetrl_agent.config.pipeline import stages_of, trained_folders
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.data.distributed import is_first, num_processes
from sweetrl_agent.data.folder_guide import folder_guide
from sweetrl_agent.models.loading import dtype_line
from sweetrl_agent.trainers.forecast import Forecast, as_lines, in_words, make_forecast, time_left
from sweetrl_agent.trainers.preflight import check_model
from sweetrl_agent.trainers.resources import warnings
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.stage_work import works_of

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
    missing = left(run, names[: 0 if wanted == "all" else names.index(wanted)], invalid)
    if missing:
        why = next((f" ({invalid[name]})" for name in missing if name in invalid), "")
        raise ValueError(f"Stage {wanted!r} needs the files of {missing}{why}; run these first, or leave out `--stage`.")


def left(run: Run, stages: Collection[str], invalid: Collection[str] = (), wanted: str = "all") -> list[str]:
    """Requested stages that are not done, or are to be done again."""
    return [name for name in stages if wanted in ("all", name) and (not run.is_done(name) or name in invalid)]


def set_threads(threads: int) -> None:
    """Set torch's threads; 0 for an equal share of the cores for each process."""
    torch.set_num_threads(threads or max(usable_cpus() // num_processes(), 1))


def run_stages(
    run: Run, stages: Mapping[str, Stage], wanted: str = "all", forecast: Forecast | None = None, label: str = ""
) -> None:
    """Run the requested stages that are not done; the report is always made again.

    Args:
        run: The run.
        stages: Its stages with their functions, by name.
        wanted: The stage; "all" for all.
        forecast: Forecast of the stages; None to show no times.
        label: Text before every message.
    """
    for number, (name, stage) in enumerate(stages.items(), 1):
        if wanted not in ("all", name):
            continue
        if name != "report" and run.is_done(name):
            _say(f"{label}{name}: done before, {run.seconds[name]:.0f} s")
        elif is_first() or stage.is_distributed:
            if name != "report":
                what = (
                    stage.purpose
                    if forecast is None
                    else _with_times(run, stage, forecast, left(run, stages, ["report"], wanted))
                )
                _say(f"{label}[{number}/{len(stages)}] {name}: {what}")
            tell_stage(name, f"{number} of {len(stages)}")
            with run.stage(stage):
                stage.run(run)
        if not is_first() and name != "report":  # the report is the last stage, no process waits for it
            run.wait_for(name)


def _say(text: str) -> None:
    _log.log(logging.INFO if is_first() else logging.DEBUG, "%s", text)


def _with_times(run: Run, stage: Stage, forecast: Forecast, todo: list[str]) -> str:
    """What a stage does, how long it takes, and how long the rest of the run takes."""
    expected = forecast.expected(run.seconds)
    work, seconds = expected[stage.name]
    total = time_left(expected, todo)
    rest = f"; {in_words(total)} left in all" if total is not None and len(todo) > 1 else ""
    return f"{work.text or stage.purpose}, {in_words(seconds)}{rest}"


def tell_plan(run: Run) -> Forecast | None:
    """Log what a run is about to do, and write the guide of its folder; returns the forecast of its stages, None but in the first process."""
    if run.record.has_sandbox:
        _say(_sandbox_line(run))
    if run.note:
        _say(run.note)
    if not run.config.is_tiny:
        _say(f"dtype: {dtype_line(run.config.model)}")
    if not is_first():
        return None
    todo = left(run, run.stages, ["report"], run.config.run.stage)
    forecast = make_forecast(run, partial(works_of, run, run.stages, [run.algorithm]), todo, run.algorithm.has_model)
    lines, warned = _times(run, forecast, todo, run.seconds)
    for line in lines:
        _say(line)
    for sentence in warned:
        _log.warning("%s", sentence)
    write_text(run.path("README.md"), folder_guide(run.algorithm.title, run.stages, trained_folders(run.algorithm)))
    return forecast


def _sandbox_line(run: Run) -> str:
    return "sandbox: {} ({})".format(*sandboxes.resolve(run.config.task.sandbox_spec()))


def _times(run: Run, forecast: Forecast, todo: Collection[str], done: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Lines of the stages with their times here, and warnings of settings without effect and of what the stages need of disk and memory."""
    expected = forecast.expected(done)
    works = {name: work for name, (work, _) in expected.items()}
    lines = [*as_lines(expected, todo, run.seconds, forecast.uncertainty), *forecast.about()]
    return lines, [*_without_effect(run), *warnings(run, todo, works, forecast.lengths)]


def _without_effect(run: Run) -> list[str]:
    """A sentence on settings that have no effect; in a comparison, those of SWEET-RL are for critics of all kinds."""
    names = run.algorithm.without_effect if len(run.config.algorithms) == 1 else ()
    settings = ", ".join(f"`{name}`" for name in names)
    return [f"{settings}: no effect with {run.algorithm.name!r} and its other settings."] if names else []


def time_lines(
    run: Run, stages: Mapping[str, Stage], algorithms: Sequence[Any], todo: Sequence[str], invalid: Collection[str]
) -> tuple[list[str], Forecast]:
    """Lines of a dry run on the times of stages, with warnings; and their forecast.

    Args:
        run: The run.
        stages: Its stages by name.
        algorithms: The algorithms that have stages of their own among them.
        todo: Stages that are left to do.
        invalid: Stages that are to be done again.
    """
    set_threads(run.config.run.threads)
    has_model = any(algorithm.has_model for algorithm in algorithms)
    forecast = make_forecast(run, partial(works_of, run, stages, algorithms), todo, has_model)
    done = {name: seconds for name, seconds in run.seconds.items() if name not in invalid}
    lines, warned = _times(run, forecast, todo, done)
    return [*lines, *(f"warning    {sentence}" for sentence in warned)], forecast


def plan_lines(run: Run, algorithms: Sequence[Any]) -> list[str]:
    """Lines of a dry run: model, tasks, sandbox, and what each algorithm does.

    Args:
        run: The run.
        algorithms: The algorithms that are trained in its folder.

    Raises:
        ValueError: If a trainer refuses a setting.
    """
    config, sources = run.config, run.sources
    num_tasks, per_task = len(run.tasks), config.collect.trajectories_per_task
    limits = [run.record.turn_limit(task, config.task) for task in run.tasks]
    turns = f"at most {per_task * sum(filter(None, limits))} turns" if all(limits) else "turns"
    weights, has_model = "LoRA" if config.model.lora else "all weights", any(algorithm.has_model for algorithm in algorithms)
    lines = [f"model      {f'{config.model.model} ({config.model.engine}, {weights})' if has_model else 'none'}"]
    if has_model and not config.is_tiny:
        lines.append(f"dtype      {dtype_line(config.model)}")
        with suppress(ColBenchError):  # a fault is printed with the others
            lines.append(f"template   {check_model('model', config.model.model, config.model)}")
    human = f"; human: {config.task.simulator}" if run.record.simulators else ""
    measured = ", ".join(f"{len(tasks)} {split} ({sources[split]})" for split, tasks in run.held_out.items())
    lines.append(f"tasks      {num_tasks} of {len(run.train)} train ({sources['train']}), {measured}{human}")
    lines += [run.note] if run.note else []
    lines += [_sandbox_line(run).replace("sandbox: ", "sandbox    ", 1)] if run.record.has_sandbox else []
    if any("collect" in algorithm.shared for algorithm in algorithms):
        count = num_tasks * per_task
        lines.append(f"collect    {count} trajectories, {turns} of {config.model.max_new_tokens} tokens")
    for algorithm in algorithms:
        lines += [f"algorithm  {algorithm.title}: {', '.join(stages_of(algorithm))}", *algorithm.plan(run)]
    return lines
