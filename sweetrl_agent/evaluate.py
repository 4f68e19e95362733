"""``python -m sweetrl_agent.evaluate POLICY...``: evaluate any policies on any environment and tasks, in one command.

    python -m sweetrl_agent.evaluate random oracle --tasks "embedded:test[:100]" --output runs/eval
    python -m sweetrl_agent.evaluate runs/first runs/first:initial
    python -m sweetrl_agent.evaluate Qwen/Qwen2.5-Coder-0.5B-Instruct openai:MODEL@http://HOST:PORT/v1 --prices prices.json

A run folder brings its environment, held-out tasks, system prompt and sampling settings; flags override them. All policies play the same
tasks with the same seeds. OUTPUT gets evaluation.jsonl, results.json and report.html. A killed evaluation resumes with the same command.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.config.command_line import NONE, exit_status, prepare_process, results_of


def main(arguments: Sequence[str] | None = None, defaults: Mapping[str, Any] = NONE) -> int:
    """Run the evaluation from the command line; returns the exit status.

    Args:
        arguments: Words of the command line; None for those of this process.
        defaults: Settings by name, which the command line and its `--config` file override.
    """
    return exit_status(lambda: _job().run(arguments, defaults, __doc__))


def run_evaluate(policies: Sequence[str] | str, **settings: Any) -> dict[str, Any]:
    """Run the evaluation from Python; returns the content of `results.json`, {} after a dry run.

    Args:
        policies: Policies as on the command line.
        **settings: Settings of the command line, such as `tasks="embedded:test[:100]", output="runs/eval"`.

    Raises:
        ValueError: If a setting is invalid, or a service or the machine fails; says what is wrong.
    """
    settings["policies"] = policies
    return results_of(lambda: _job().run([], settings, None, is_command=False), settings, "runs/eval")


def _job() -> Any:
    """The module with the work, whose libraries are loaded when the process is prepared."""
    prepare_process()
    from sweetrl_agent.evaluation import evaluation_job

    return evaluation_job


if __name__ == "__main__":
    sys.exit(main())
