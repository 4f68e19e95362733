"""The main job: ``python -m sweetrl_agent.train`` trains an agent with SWEET-RL and reports the improvement over the initial policy.

Without arguments: embedded tasks, a scripted simulated human, a tiny Llama, six minutes on two cores (pages: fifteen). `--config file.yaml`
sets defaults, the command line overrides them. A killed job resumes when it is started again with the same arguments.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def run(arguments: Sequence[str] | None) -> int:
    """Run the main job; returns the exit status.

    Raises:
        CommandError: If a setting is invalid, or a service or the machine fails.
    """
    prepare_process()
    from colbench_gym.errors import ColBenchError

    with contextlib.ExitStack() as held:
        with ending_with(ColBenchError, ValueError, ImportError, OSError):
            config = parse(arguments)
            from sweetrl_agent.algorithms.registry import refuse_missing, register
            from sweetrl_agent.data.distributed import is_first
            from sweetrl_agent.data.files import locked
            from sweetrl_agent.data.run import Run
            from sweetrl_agent.trainers.preflight import check_packages
            from sweetrl_agent.trainers.stage_runner import check_order, left, run_stages

            if config.run.dry_run:
                return dry_run(config)
            config.record.check(config)
            refuse_missing([register(config.run.algorithm)], config.record.capabilities(config), config.task.env)
            if is_first():
                held.enter_context(locked(Path(config.run.output)))
            opened = Run(config)
            check_order(opened, config.run.stage)
            check_packages(config, left(opened))
        with ending_with(ColBenchError):
            run_stages(opened, config.run.stage)
    return 0


def run_train(**settings: Any) -> dict[str, Any]:
    """Run the main job from Python; returns the content of `results.json`.

    Args:
        **settings: Settings of the command line, such as `output="runs/mine", algorithm="grpo"`; a list gives several values, a class its
            "module:Class".

    Raises:
        ValueError: If a setting is invalid, or a service or the machine fails; says what is wrong.
    """
    return run_command(run, settings, "runs/sweet")


def parse(arguments: Sequence[str] | None) -> Any:
    """The configuration from the command line and, with `--config`, a YAML file."""
    from sweetrl_agent.config.job import Config

    return Config(*parse_parts(config_parts(arguments), arguments, program_name("sweetrl_agent.train"), __doc__))


def dry_run(config: Any) -> int:
    """Print the plan and check all requirements of the run; loads no weights and writes no files. Returns the exit status, 2 if the run would fail.

    Limits: See `preflight`.
    """
    from sweetrl_agent.algorithms.registry import refuse_missing, register
    from sweetrl_agent.data.files import check_output
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.trainers.preflight import troubles
    from sweetrl_agent.trainers.stage_runner import check_order, left, print_plan

    config.record.check(config)
    refuse_missing([register(config.run.algorithm)], config.record.capabilities(config), config.task.env)
    check_output(Path(config.run.output))
    planned = Run(config, is_dry=True)
    check_order(planned, config.run.stage)
    print_plan(planned)
    return conclude(troubles(planned, left(planned)))


if __name__ == "__main__":
    sys.exit(main())
