"""``python -m sweetrl_agent.compare``: several algorithms with the same initial policy, tasks, simulator and evaluation, over several seeds.

    python -m sweetrl_agent.compare --algorithms initial rft mtdpo sweet --seeds 5 --output runs/compare [settings of the main job]

Every seed has its own run folder (`seed_0`, ...), with the policies of all algorithms. Finished stages are not run again: a killed
comparison resumes with the same command, and algorithms or seeds can be added later.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.config.command_line import NONE, exit_status, prepare_process, results_of


def main(arguments: Sequence[str] | None = None, defaults: Mapping[str, Any] = NONE) -> int:
    """Run the comparison from the command line; returns the exit status.

    Args:
        arguments: Words of the command line; None for those of this process.
        defaults: Settings by name, which the command line and its `--config` file override.
    """
    return exit_status(lambda: _job().run(arguments, defaults, __doc__))


def run_compare(callbacks: Sequence[Any] = (), **settings: Any) -> dict[str, Any]:
    """Run the comparison from Python; returns the content of `results.json`.

    Arguments and errors as in `run_train`, plus the comparison's own settings. A callback that is a class is made for every seed; an object is
    shared by all, and with `workers` it is pickled, so every process has a copy.
    """
    return results_of(lambda: _job().run([], settings, None, callbacks, is_command=False), settings, "runs/compare")


def _job() -> Any:
    """The module with the work, whose libraries are loaded when the process is prepared."""
    prepare_process()
    from sweetrl_agent.evaluation import comparison_job

    return comparison_job


if __name__ == "__main__":
    sys.exit(main())
