"""The main job: ``python -m sweetrl_agent.train`` trains an agent with SWEET-RL and reports the improvement over the initial policy.

Without arguments: embedded tasks, a scripted simulated human, a tiny Llama, two and a half minutes on two cores (pages: fifteen). `--config file.yaml`
sets defaults, the command line overrides them. A killed job resumes when it is started again with the same arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.config.command_line import NONE, exit_status, prepare_process, results_of


def main(arguments: Sequence[str] | None = None, defaults: Mapping[str, Any] = NONE) -> int:
    """Run the main job from the command line; returns the exit status.

    Args:
        arguments: Words of the command line; None for those of this process.
        defaults: Settings by name, which the command line and its `--config` file override.
    """
    return exit_status(lambda: _job().run(arguments, defaults, __doc__))


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
    return results_of(lambda: _job().run([], settings, None, callbacks, is_command=False), settings, "runs/sweet")


def _job() -> Any:
    """The module with the work, whose libraries are loaded when the process is prepared."""
    prepare_process()
    from sweetrl_agent.evaluation import main_job

    return main_job


if __name__ == "__main__":
    sys.exit(main())
