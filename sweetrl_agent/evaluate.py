"""``python -m sweetrl_agent.evaluate POLICY...``: evaluate any policies on any environment and tasks, in one command.

    python -m sweetrl_agent.evaluate random oracle --tasks "embedded:test[:100]" --output runs/eval
    python -m sweetrl_agent.evaluate runs/first runs/first:initial
    python -m sweetrl_agent.evaluate Qwen/Qwen2.5-Coder-0.5B-Instruct openai:MODEL@http://HOST:PORT/v1 --prices prices.json

A run folder brings its environment, held-out tasks, system prompt and sampling settings; flags override them. All policies meet the same
tasks with the same seeds. OUTPUT gets evaluation.jsonl, results.json and report.html. A killed evaluation resumes with the same command.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.logs import shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.config.command_line import (
    as_words,
    conclude,
    ending_with,
    exit_status,
    given_names,
    parse_parts,
    prepare_process,
    run_command,
)

if TYPE_CHECKING:
    from sweetrl_agent.evaluation.evaluations import Evaluation
    from sweetrl_agent.evaluation.policies import PolicySpec


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation from the command line; returns the exit status."""
    return exit_status(run, arguments)


def run(arguments: Sequence[str] | None, is_command: bool = True) -> int:
    """Play the missing episodes, write results and report, and print them; returns the exit status.

    Raises:
        CommandError: If a setting is invalid, or a service or the machine fails.
    """
    prepare_process()
    from colbench_gym.errors import ColBenchError
    from colbench_gym.evaluation.table import table
    from sweetrl_agent.data.files import locked

    with contextlib.ExitStack() as held:
        with ending_with(ColBenchError, ValueError, ImportError, OSError):
            evaluation = parse(arguments)
            held.enter_context(shown_logs(evaluation.shared.log_level, always=is_command))
            from sweetrl_agent.evaluation.evaluation_plan import refuse
            from sweetrl_agent.evaluation.evaluations import run_evaluation
            from sweetrl_agent.evaluation.wishes import wish_lines

            refuse(evaluation)
            if evaluation.shared.dry_run:
                return dry_run(evaluation)
            held.enter_context(locked(evaluation.folder))
        with ending_with(ColBenchError, ValueError, ImportError, OSError):
            results = run_evaluation(evaluation)
    print("\n".join([table(results), "", *wish_lines(results.get("wishes", []))]).rstrip())
    void = sum(score["void"] for name in results["policies"] for score in results.get(name, {}).values())
    if void:
        print(f"\n{void} episodes are void: counted, and in no mean. `--replay_void true` plays them again.")
    out = evaluation.folder
    print(f"\nresults: {out / 'results.json'}\nreport:  {out / 'report.html'}")
    return 0


def run_evaluate(policies: Sequence[str] | str, **settings: Any) -> dict[str, Any]:
    """Run the evaluation from Python; returns the content of `results.json`, {} after a dry run.

    Args:
        policies: Policies as on the command line.
        **settings: Settings of the command line, such as `tasks="embedded:test[:100]", output="runs/eval"`.

    Raises:
        ValueError: If a setting is invalid, or a service or the machine fails; says what is wrong.
    """
    return run_command(partial(run, is_command=False), {"policies": policies, **settings}, "runs/eval")


def parse(arguments: Sequence[str] | None) -> Evaluation:
    """The evaluation of the command line and, with `--config`, a YAML file.

    Raises:
        ValueError: If a setting is invalid.
    """
    from colbench_gym.evaluation.prices import read_prices
    from sweetrl_agent.config.evaluate import EvaluateArguments, SharedArguments
    from sweetrl_agent.core.settings import check_settings, refuse_secrets
    from sweetrl_agent.evaluation.evaluations import Evaluation
    from sweetrl_agent.evaluation.policies import find_policies

    words = _with_policies(list(sys.argv[1:] if arguments is None else arguments))
    parts = (EvaluateArguments, SharedArguments)
    program = program_name("sweetrl_agent.evaluate")
    explicit = given_names(words)
    first: Any = parse_parts(parts, words, program, __doc__)[0]
    for text in (*first.policies, *first.tasks):
        refuse_secrets("policies", text)
    policies = find_policies(first.policies)
    brought = _brought(policies, explicit)
    given, shared = parse_parts(parts, [*as_words(brought), *words], program, __doc__)
    given.tasks = list(given.tasks) if "tasks" in explicit else []
    settings = next((spec.settings for spec in policies if spec.settings), {})
    given.seeds = list(given.seeds) or [int(settings.get("seed", 0))]
    for name, own in (("num_tasks", "eval_tasks"), ("episodes", "eval_episodes")):
        if not {name, "tasks"} & explicit:  # the run's own held-out tasks, as often as the run played them
            setattr(given, name, int(settings.get(own, getattr(given, name))))
    for part in (given, shared):
        check_settings(part)
    if len(set(given.seeds)) < len(given.seeds):
        raise ValueError(f"`seeds` must not contain duplicates, got {given.seeds}.")
    return Evaluation(given, shared, tuple(policies), frozenset(explicit), read_prices(given.prices))


def _with_policies(words: Sequence[str]) -> list[str]:
    """The words before the first option are policies."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return [*(["--policies", *words[:first]] if first else []), *words[first:]]


def _brought(policies: Sequence[PolicySpec], explicit: set[str]) -> dict[str, Any]:
    """Settings of the environment that the run folders bring.

    Raises:
        ValueError: If run folders differ in one that is not given.
    """
    from sweetrl_agent.config.evaluate import TASK_SETTINGS

    runs = [spec for spec in policies if spec.settings]
    brought: dict[str, Any] = {}
    for name in TASK_SETTINGS:
        values = {str(spec.settings[name]): spec for spec in runs if name in spec.settings}
        if len(values) > 1 and name not in explicit:
            one, other = list(values.values())[:2]
            raise ValueError(
                f"Policies of run folders with different `{name}`, {one.settings[name]!r} in {one.text!r} and {other.settings[name]!r} in "
                f"{other.text!r}: give `--{name}`, or evaluate them one at a time."
            )
        if values and name not in explicit:
            brought[name] = next(iter(values.values())).settings[name]
    return {name: value for name, value in brought.items() if value != ""}


def dry_run(evaluation: Evaluation) -> int:
    """Print the plan and check all requirements; plays nothing and writes no files. Returns the exit status, 2 if it would fail."""
    from colbench_gym.evaluation.cells import find_invalid
    from colbench_gym.evaluation.folder import merged_settings
    from colbench_gym.stage_records import EVALUATION, StageRecords
    from sweetrl_agent.data.files import check_output
    from sweetrl_agent.evaluation.evaluation_plan import checks, episodes_left, plan
    from sweetrl_agent.evaluation.evaluation_times import time_lines
    from sweetrl_agent.trainers.preflight import MISSING

    check_output(Path(evaluation.given.output))
    records = StageRecords(evaluation.folder, kind=EVALUATION)
    merged_settings(records, evaluation.settings())
    plan(evaluation)
    invalid = find_invalid(records, evaluation.cells(), evaluation.given.redo)
    for name, why in invalid.items():
        print(f"again      {name}: {why}")
    left = episodes_left(evaluation, invalid)
    print(f"left       {sum(left.values())} episodes in {evaluation.folder}")
    for line in time_lines(evaluation, left):
        print(line)
    troubles = []
    for check in checks(evaluation):
        try:
            check()
        except MISSING as error:
            troubles.append(" ".join(str(error).split()))
    return conclude(list(dict.fromkeys(troubles)))


if __name__ == "__main__":
    sys.exit(main())
