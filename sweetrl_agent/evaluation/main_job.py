"""The work of `python -m sweetrl_agent.train`: one algorithm is trained and evaluated beside the initial policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.files import check_output, locked
from colbench_gym.servers.usage import metered_command
from sandboxes.logs import shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.algorithms.settings import make_config, read, with_defaults_of_environment
from sweetrl_agent.config.command_line import NONE, conclude, ending_with
from sweetrl_agent.config.job import Config
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.data.distributed import is_first, meet
from sweetrl_agent.evaluation import outcome
from sweetrl_agent.evaluation.checks import check, meter_of
from sweetrl_agent.rollouts.collection import collect, pair_outcomes
from sweetrl_agent.rollouts.trial import print_trial
from sweetrl_agent.trainers.callbacks import callback_context, find_callbacks
from sweetrl_agent.trainers.gpu_plan import gpu_lines, lines_by_settings
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm
from sweetrl_agent.trainers.preflight import check_models, check_packages, check_resources, unmet_requirements
from sweetrl_agent.trainers.resources import disk_line
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.sft_stage import train_initial
from sweetrl_agent.trainers.stage_runner import check_order, left, plan_lines, run_stages, set_threads, tell_plan, time_lines

#: The functions of the shared stages, which `config.pipeline` declares and no algorithm brings.
WORK: Mapping[str, Callable[[Any], None]] = {
    "sft": train_initial,
    "collect": collect,
    "pairs": pair_outcomes,
    "evaluate": outcome.evaluate,
    "report": outcome.report,
}


def with_work(stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Stages with the functions of those that are only declared."""
    return {name: stage if stage.work else replace(stage, work=WORK[name]) for name, stage in stages.items()}


def parse(words: Sequence[str] | None, defaults: Mapping[str, Any] = NONE, description: str | None = None) -> Config:
    """The configuration from the command line and, with `--config`, a YAML file; see `algorithms.settings.read`."""
    settings = read(words, program_name("sweetrl_agent.train"), description, defaults=defaults)
    return make_config(with_defaults_of_environment(settings))


def run(
    words: Sequence[str] | None,
    defaults: Mapping[str, Any],
    description: str | None,
    callbacks: Sequence[Any] = (),
    is_command: bool = True,
) -> int:
    """Run the main job; returns the exit status.

    Args:
        words: Words of the command line; None for those of this process.
        defaults: Settings that they override.
        description: What the command does, for `--help`.
        callbacks: See `sweetrl_agent.train.run_train`.
        is_command: Show log messages also where the caller has configured logging.

    Raises:
        CommandError: If a setting is invalid, or a service or the machine fails.
    """
    with ExitStack() as held:
        with ending_with(ColBenchError, ValueError, ImportError, OSError):
            config = parse(words, defaults, description)
            held.enter_context(shown_logs(config.run.log_level, always=is_command))
            find_callbacks([*config.run.callbacks, *callbacks])
            if config.evaluation.eval_every and not isinstance(config.algorithm, OnPolicyAlgorithm):
                raise ValueError(
                    f"`eval_every` is for on-policy algorithms, such as reinforce, grpo and turn_ppo, got `algorithm` {config.run.algorithm!r}."
                )
            check(config)
            if config.run.dry_run:
                return dry_run(config)
            if is_first():
                held.enter_context(locked(Path(config.run.output)))
            opened = Run(config)
            if is_first():
                _prepare(opened)
            meet(opened.folder)
            if not is_first():
                opened.records.reload()
        with ending_with(ColBenchError), metered_command(meter_of(config)), callback_context(opened, callbacks):
            set_threads(config.run.threads)
            forecast = tell_plan(opened)
            run_stages(opened, with_work(opened.stages), config.run.stage, forecast)
    return 0


def _prepare(run: Run) -> None:
    """Check what the stages need, and remove the files of stages that are to be done again."""
    invalid = run.find_invalid(run.stages.values())
    check_order(run, run.config.run.stage, invalid)
    stages = left(run, run.stages, invalid, run.config.run.stage)
    check_packages(run.config, stages)
    check_models(run.config, stages)
    check_resources(run, stages)
    run.prepare(run.stages.values(), invalid)


def dry_run(config: Config) -> int:
    """Print the plan and check all requirements of the run; loads no weights and writes no files. Returns the exit status, 2 if the run would fail.

    Limits: See `preflight`.
    """
    check_output(Path(config.run.output))
    try:
        planned = Run(config, is_dry=True)
    except ColBenchError as error:  # tasks that cannot be loaded here; a plan for GPUs does without them
        print("\n".join(lines_by_settings(config)))
        return conclude([str(error)])
    invalid = planned.find_invalid(planned.stages.values())
    check_order(planned, config.run.stage, invalid)
    stages = left(planned, planned.stages, invalid, config.run.stage)
    lines, forecast = time_lines(planned, planned.stages, [planned.algorithm], stages, invalid)
    again = [f"again      {name}: {why}" for name, why in invalid.items()]
    gpus = gpu_lines(planned, forecast.works(forecast.lengths), stages, forecast.lengths)
    print("\n".join([*plan_lines(planned, [planned.algorithm]), *lines, *again, disk_line(planned), *gpus]))
    print_trial(config)
    return conclude(unmet_requirements(planned, stages))
