"""Runs the stages of a run in order, each once, and prints the plan of a dry run."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import sandboxes
from colbench_gym.errors import ColBenchError
from sandboxes.cpus import usable_cpus
from sweetrl_agent.trainers.forecast import Work, as_lines, disk_bytes, forecast, in_words, model_bytes, time_left

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
    from sweetrl_agent.models.loading import dtype_line, speed_line

    def say(text: str) -> None:
        _log.log(logging.INFO if is_first() else logging.DEBUG, "%s", text)

    if run.record.has_sandbox:
        say("sandbox: {} ({})".format(*sandboxes.resolve(run.config.task.sandbox_spec())))
    if run.note:
        say(run.note)
    torch.set_num_threads(run.config.run.threads or max(usable_cpus() // num_processes(), 1))
    todo = left(run, ["report"])
    if not run.config.is_tiny:
        say(f"dtype: {dtype_line(run.config.model)}{speed_line(run.config.model)}")
    for line in as_lines(_forecast(run), todo, run.seconds):
        say(line)
    if is_first():
        write_text(run.path("README.md"), folder_guide(run.algorithm.title, run.stages, run.algorithm.policy))
    for name, stage in run.stages.items():
        if wanted not in ("all", name):
            continue
        if name != "report" and run.is_done(name):
            say(f"{name}: done before, {run.seconds[name]:.0f} s")
        elif is_first() or stage.is_distributed:
            if name != "report":
                say(_heading(run, name, left(run, ["report"])))
            with run.stage(stage):
                stage.run(run)
        if not is_first() and name != "report":  # the report is the last stage, no process waits for it
            run.wait_for(name)


def _heading(run: Run, name: str, todo: list[str]) -> str:
    """What a stage does, how long it takes, and how long the rest of the run takes."""
    works = _forecast(run)
    number, text = list(run.stages).index(name) + 1, works[name].text or run.stages[name].purpose
    left = time_left(works, todo)
    rest = f"; {in_words(left)} left in all" if left is not None and len(todo) > 1 else ""
    return f"[{number}/{len(run.stages)}] {name}: {text}, {in_words(works[name].seconds)}{rest}"


def _forecast(run: Run) -> dict[str, Work]:
    """The work of the run's stages on this machine."""
    from sweetrl_agent.models.loading import cpu_speed

    return forecast(run, run.stages, run.seconds, cpu_speed(run.config.model))


def print_plan(run: Run, invalid: Mapping[str, str]) -> None:
    """Print what the run would do.

    Args:
        run: The run.
        invalid: Stages that are to be done again, and why.
    """
    from sweetrl_agent.models.loading import dtype_line, speed_line
    from sweetrl_agent.trainers.preflight import check_model

    config, sources = run.config, run.sources
    num_tasks, per_task = len(run.tasks), config.collect.trajectories_per_task
    limits = [run.record.turn_limit(task, config.task) for task in run.tasks]
    turns = f"at most {per_task * sum(filter(None, limits))} turns" if all(limits) else "turns"
    print(f"model      {config.model.model} ({config.model.engine}, {'LoRA' if config.model.lora else 'all weights'})")
    if not config.is_tiny:
        print(f"dtype      {dtype_line(config.model)}{speed_line(config.model)}")
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
    for work in as_lines(_forecast(run), left(run, invalid), run.seconds):
        print(work)
    for name, why in invalid.items():
        print(f"again      {name}: {why}")
    weights = model_bytes(run)
    print(
        f"disk       up to {disk_bytes(run, weights or 0) / 2**20:,.0f} MiB{'' if weights else ', and six times the weights of the model'}"
    )
