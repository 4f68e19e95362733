"""The main job: ``python -m sweetrl_agent.train`` trains an agent with SWEET-RL and reports the improvement over the initial policy.

Without arguments: embedded tasks, a scripted simulated human, a tiny Llama, two and a half minutes on two cores (pages: fifteen). `--config file.yaml`
sets defaults, the command line overrides them. A killed job resumes when it is started again with the same arguments.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sandboxes.logs import shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.config.command_line import (
    conclude,
    config_parts,
    ending_with,
    exit_status,
    parse_parts,
    prepare_process,
    run_command,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the main job from the command line; returns the exit status."""
    return exit_status(run, arguments)


def run(arguments: Sequence[str] | None, callbacks: Sequence[Any] = (), is_command: bool = True) -> int:
    """Run the main job; returns the exit status.

    Args:
        arguments: Words of the command line.
        callbacks: See `run_train`.
        is_command: Show log messages also where the caller has configured logging.

    Raises:
        CommandError: If a setting is invalid, or a service or the machine fails.
    """
    prepare_process()
    from colbench_gym.errors import ColBenchError

    with contextlib.ExitStack() as held:
        with ending_with(ColBenchError, ValueError, ImportError, OSError):
            config = parse(arguments)
            held.enter_context(shown_logs(config.run.log_level, always=is_command))
            from sweetrl_agent.data.distributed import is_first, meet
            from sweetrl_agent.data.files import locked
            from sweetrl_agent.data.run import Run
            from sweetrl_agent.trainers.bridge import find_callbacks, watched
            from sweetrl_agent.trainers.preflight import check_models, check_packages, check_resources
            from sweetrl_agent.trainers.stage_runner import check_order, left, run_stages

            find_callbacks([*config.run.callbacks, *callbacks])
            _check_eval_every(config)
            if config.run.dry_run:
                return dry_run(config)
            check(config)
            if is_first():
                held.enter_context(locked(Path(config.run.output)))
            opened = Run(config)
            if is_first():
                stages = opened.stages.values()
                invalid = opened.find_invalid(stages)
                check_order(opened, config.run.stage, invalid)
                check_packages(config, left(opened, invalid))
                check_models(config, left(opened, invalid))
                check_resources(opened, left(opened, invalid))
                opened.prepare(stages, invalid)
            meet(opened.folder)
            if not is_first():
                opened.records.reload()
        with ending_with(ColBenchError), watched(opened, callbacks):
            run_stages(opened, config.run.stage)
    return 0


def run_train(callbacks: Sequence[Any] = (), **settings: Any) -> dict[str, Any]:
    """Run the main job from Python; returns the content of `results.json`.

    Where the caller has not configured logging, the messages of a command are shown, without a change to the root logger.

    Args:
        callbacks: `Callback` or `transformers.TrainerCallback` objects, classes, or their names, "module:Class".
        **settings: Settings of the command line, such as `output="runs/mine", algorithm="grpo"`; a list gives several values, a class its
            "module:Class".

    Raises:
        ValueError: If a setting is invalid, or a service or the machine fails; says what is wrong.
    """
    return run_command(partial(run, callbacks=callbacks, is_command=False), settings, "runs/sweet")


def parse(arguments: Sequence[str] | None) -> Any:
    """The configuration from the command line and, with `--config`, a YAML file."""
    from sweetrl_agent.config.job import Config

    return Config(*parse_parts(config_parts(arguments), arguments, program_name("sweetrl_agent.train"), __doc__))


def _check_eval_every(config: Any) -> None:
    """Refuse `eval_every` for an algorithm that has no iterations.

    Raises:
        ValueError: Says which algorithms take it.
    """
    from sweetrl_agent.algorithms.registry import find_algorithm
    from sweetrl_agent.core.on_policy import OnPolicyAlgorithm

    if config.evaluation.eval_every and not isinstance(find_algorithm(config.run.algorithm), OnPolicyAlgorithm):
        raise ValueError(
            f"`eval_every` is for on-policy algorithms, such as reinforce, grpo and turn_ppo, got `algorithm` {config.run.algorithm!r}."
        )


def check(config: Any) -> None:
    """Refuse settings that no run can work with.

    Raises:
        ValueError: Names the setting, or the capability that the environment lacks.
    """
    from sweetrl_agent.algorithms.critics import check_needs
    from sweetrl_agent.algorithms.registry import refuse_missing
    from sweetrl_agent.rollouts.trial import check_trial
    from sweetrl_agent.trainers.gpus import parse_gpus

    if config.run.gpu:
        parse_gpus(config.run.gpu)
    config.record.check(config)
    refuse_missing([config.algorithm.name], config.record.capabilities(config), config.task.env)
    check_needs([config.algorithm.critic], config)
    check_trial(config)


def dry_run(config: Any) -> int:
    """Print the plan and check all requirements of the run; loads no weights and writes no files. Returns the exit status, 2 if the run would fail.

    Limits: See `preflight`.
    """
    from colbench_gym.errors import ColBenchError
    from sweetrl_agent.data.files import check_output
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.rollouts.trial import print_trial
    from sweetrl_agent.trainers.planning import lines_by_settings
    from sweetrl_agent.trainers.preflight import troubles
    from sweetrl_agent.trainers.stage_runner import check_order, left, print_plan

    check(config)
    check_output(Path(config.run.output))
    try:
        planned = Run(config, is_dry=True)
    except ColBenchError as error:  # tasks that cannot be loaded here; a plan for GPUs does without them
        print("\n".join(lines_by_settings(config)))
        return conclude([str(error)])
    invalid = planned.find_invalid(planned.stages.values())
    check_order(planned, config.run.stage, invalid)
    print_plan(planned, invalid)
    print_trial(config)
    return conclude(troubles(planned, left(planned, invalid)))


if __name__ == "__main__":
    sys.exit(main())
