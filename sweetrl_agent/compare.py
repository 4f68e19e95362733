"""``python -m sweetrl_agent.compare``: several algorithms with the same initial policy, tasks, simulator and evaluation, over several seeds.

    python -m sweetrl_agent.compare --algorithms zero_shot rft mtdpo sweet --seeds 5 --output runs/compare [settings of the main job]

Every seed has its own run folder (`seed_0`, ...): a folder of the main job with the other algorithms' agents added. Finished stages
are not run again: a killed comparison resumes when started again, and algorithms or seeds can be added later.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.cpus import usable_cpus
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
from sweetrl_agent.evaluation.checks import check, own_settings, seed_numbers
from sweetrl_agent.evaluation.side_by_side import run_side_by_side

if TYPE_CHECKING:
    from sweetrl_agent.config.evaluation import CompareArguments
    from sweetrl_agent.config.job import Config
    from sweetrl_agent.core.algorithm import Algorithm
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.evaluation.steps import Steps


_log = logging.getLogger("sweetrl_agent.compare")  # `__name__` is "__main__" for a command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison from the command line; returns the exit status."""
    return exit_status(run, arguments)


def run(arguments: Sequence[str] | None, callbacks: Sequence[Any] = (), is_command: bool = True) -> int:
    """Run the missing stages of the comparison, write the report and print the results; returns the exit status.

    Args:
        arguments: Words of the command line.
        callbacks: See `run_compare`.
        is_command: Show log messages also where the caller has configured logging.

    Raises:
        CommandError: If a setting is invalid, or a service or the machine fails.
    """
    prepare_process()
    from colbench_gym.errors import ColBenchError
    from colbench_gym.stage_records import COMPARISON, FILE, StageRecords, refuse_other_kind
    from sweetrl_agent.config.pipeline import STAGES
    from sweetrl_agent.data.files import locked
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.evaluation.missing import packages
    from sweetrl_agent.trainers.bridge import find_callbacks
    from sweetrl_agent.trainers.preflight import check_packages
    from sweetrl_agent.trainers.resources import check_disk

    with contextlib.ExitStack() as held:
        with ending_with(ColBenchError, ValueError, ImportError, OSError):
            given, config = parse(arguments)
            held.enter_context(shown_logs(config.run.log_level, always=is_command))
            said = {**asdict(given), **config.settings()}
            out = Path(config.run.output)
            refuse_other_kind(out, COMPARISON)
            check(given, config)
            find_callbacks([*config.run.callbacks, *callbacks])
            if config.run.dry_run:
                return plan(given, config)
            held.enter_context(locked(out))
            check_packages(config, STAGES, packages(given.algorithms))
            if not (out / FILE).exists():
                check_disk([Run(one, is_dry=True) for one in _seeds(given, config)], _trained(given))
                StageRecords(out, kind=COMPARISON).save()
            write_settings(out, said)
        with ending_with(ColBenchError, ValueError):
            results = run_all(given, config, callbacks)
    from sweetrl_agent.algorithms.critics import CRITICS
    from sweetrl_agent.algorithms.registry import titles
    from sweetrl_agent.evaluation.comparison import table
    from sweetrl_agent.evaluation.costs import COLUMNS
    from sweetrl_agent.reporting.comparison import write_comparison

    print(table(results, titles()))
    page = write_comparison(out, titles(), {name: kind.title for name, kind in CRITICS.items()}, COLUMNS, bool(given.against))
    print(f"\nresults: {out / 'results.json'}\nreport:  {page} (and report.md)")
    return 0


def run_compare(callbacks: Sequence[Any] = (), **settings: Any) -> dict[str, Any]:
    """Run the comparison from Python; returns the content of `results.json`.

    Arguments and errors as in `run_train`, plus the comparison's own settings. A callback that is a class is made for every seed; an object is
    shared by all, and with `workers` it is pickled, so every process has a copy.
    """
    return run_command(partial(run, callbacks=callbacks, is_command=False), settings, "runs/compare")


def parse(arguments: Sequence[str] | None) -> tuple[CompareArguments, Config]:
    """Settings of the comparison and of the main job, from the command line and, with `--config`, a YAML file."""
    from sweetrl_agent.config.evaluation import CompareArguments
    from sweetrl_agent.config.job import Config
    from sweetrl_agent.config.run import RunArguments

    given, *parts = parse_parts(
        (CompareArguments, *config_parts(arguments)), arguments, program_name("sweetrl_agent.compare"), __doc__
    )
    if parts[0].output == RunArguments.output:
        parts[0].output = "runs/compare"
    return given, Config(*parts).with_settings({"initial_policy": "sft"})  # intervals over seeds include the variance of SFT


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write a comparison's settings, which shape its results, to config.yaml for `--config`; those of each seed are in its folder."""
    import yaml

    from sweetrl_agent.data.files import write_text

    shaping = {name: value for name, value in settings.items() if name != "workers"}
    if len(shaping.get("seeds", [])) == 1:  # how many
        shaping["seeds"] = shaping["seeds"][0]
    write_text(folder / "config.yaml", yaml.safe_dump(shaping, sort_keys=False))


def steps_of(given: CompareArguments) -> Steps:
    """All steps of a seed, by name, in order."""
    from sweetrl_agent.evaluation.steps import algorithm_steps, experiment_steps

    return {**algorithm_steps(given.algorithms, own_settings(given)), **experiment_steps(given)}


def plan(given: CompareArguments, config: Config) -> int:
    """Print the plan and check all requirements; runs nothing. Returns the exit status, 2 if the comparison would fail.

    Raises:
        ColBenchError: If tasks cannot be loaded.
        ValueError: If a folder cannot be written or has another run, or there are fewer trajectories than `scaling` requires.
    """
    from sweetrl_agent.algorithms.registry import ALGORITHMS, scaled
    from sweetrl_agent.config.pipeline import STAGES
    from sweetrl_agent.data.files import check_output
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.evaluation.missing import describe_seed, left, packages
    from sweetrl_agent.rollouts.trial import print_trial
    from sweetrl_agent.trainers.preflight import troubles
    from sweetrl_agent.trainers.resources import check_disk

    check_output(Path(config.run.output))
    steps = steps_of(given)
    runs = [Run(one, is_dry=True) for one in _seeds(given, config)]
    for name in given.algorithms:
        ALGORITHMS[name].plan(runs[0])
    invalid = [run.find_invalid(steps.values()) for run in runs]
    for run, again in zip(runs, invalid, strict=True):
        print(describe_seed(run, steps, again))
    unfinished = [run for run, again in zip(runs, invalid, strict=True) if left(run, steps, again)]
    for line in _times(given, runs[0], left(runs[0], steps, invalid[0])):
        print(line)
    if runs[0].note:
        print(runs[0].note)
    print_trial(config)
    most = len(runs[0].tasks) * config.collect.trajectories_per_task
    for count in given.scaling:
        if count > most:
            raise ValueError(
                f"`scaling` takes counts up to {most}, the trajectories of {len(runs[0].tasks)} tasks, got {count}."
            )
        print(f"with the first {count} trajectories of each seed: {', '.join(scaled(given.algorithms))}")
    more, disk = list(_checks(given, runs[0]) if unfinished else ()), partial(check_disk, unfinished, _trained(given))
    return conclude(troubles(runs[0], STAGES if unfinished else (), packages(given.algorithms), more, disk))


def _trained(given: CompareArguments) -> list[Algorithm]:
    """The algorithm of each policy that is trained in a seed's folder, those of `scaling` included."""
    from sweetrl_agent.algorithms.registry import ALGORITHMS, scaled

    names = [*given.algorithms, *scaled(given.algorithms) * len(given.scaling)]
    return [ALGORITHMS[name] for name in names if ALGORITHMS[name].stages]


def _times(given: CompareArguments, run: Run, todo: Sequence[str]) -> list[str]:
    """Work and expected times of a seed's training and evaluation; other experiments have none."""
    from sweetrl_agent.algorithms.registry import ALGORITHMS
    from sweetrl_agent.config.pipeline import STAGES
    from sweetrl_agent.evaluation.steps import algorithm_steps
    from sweetrl_agent.trainers.forecast import as_lines, make_forecast

    evaluations = {f"evaluate {name}": STAGES["evaluate"] for name in given.algorithms}
    trained = {name: step for name, step in algorithm_steps(given.algorithms).items() if name not in evaluations}
    stages = {**trained, **evaluations}
    mine = [name for name in todo if name in stages]
    if not mine:
        return []
    forecast = make_forecast(run, stages, [ALGORITHMS[name] for name in given.algorithms], mine)
    each = "each of the seeds takes" if len(_seeds(given, run.config)) > 1 else "it takes"
    lines = as_lines(forecast.expected(run.seconds), mine, set(stages), forecast.uncertainty)
    return [f"{each}:", *(f"  {line}" for line in lines), *forecast.about()]


def _checks(given: CompareArguments, run: Run) -> Iterator[Callable[[], object]]:
    """Further checks of a comparison: the models of critics, and the servers of other simulators."""
    from sweetrl_agent.evaluation.simulators import simulator_spec
    from sweetrl_agent.trainers.preflight import check_human, check_model

    critic, used = run.config.algorithms, {*given.algorithms, *given.critics}
    for name, setting, path in (
        ("judge", "judge_model", critic.judge_model),
        ("vision_head", "vision_model", critic.vision_model),
    ):
        if name in used and path:
            yield partial(check_model, setting, path, run.config.model)

    def look(simulator: str) -> None:
        with closing(run.record.make_simulator(simulator_spec(simulator, run.record))) as human:
            check_human(run.record, human)

    for simulator in given.simulators:
        yield partial(look, simulator)


def run_all(given: CompareArguments, config: Config, callbacks: Sequence[Any] = ()) -> dict[str, Any]:
    """Run the missing stages of every seed; writes results.json of the whole comparison."""
    from colbench_gym.stage_records import COMPARISON, StageRecords
    from sweetrl_agent.data.files import read_rows, write_json
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.evaluation.comparison import all_results
    from sweetrl_agent.evaluation.failures import explain_shown, failures_of
    from sweetrl_agent.evaluation.missing import failure
    from sweetrl_agent.evaluation.pictures import keep_pictures
    from sweetrl_agent.evaluation.steps import EXPLANATIONS
    from sweetrl_agent.trainers.trackers import make_trackers

    out, configs = Path(config.run.output), _seeds(given, config)
    for tracker in make_trackers(config.run.report_to, out):
        tracker.prepare()
    if given.workers == 1:
        failed = _run_in_turn(given, configs, callbacks)
    else:
        failed = run_side_by_side(partial(run_one, given, callbacks=callbacks), configs, given.workers)
    if failed:
        raise failure([Run(one, is_dry=True) for one in configs], failed, steps_of(given))
    results = all_results(given, [Run(one) for one in configs])
    _keep_what_shows_more(out, results)
    records = StageRecords(out, is_new=True, kind=COMPARISON)
    records.begin("results", (), (), ("results.json",))
    write_json(out / "results.json", results)
    records.finish("results")
    first = Run(configs[0])
    with first.stage(EXPLANATIONS):
        rows = [row for row in read_rows(first.path("evaluation.jsonl")) if row["agent"] in given.algorithms]
        explain_shown(first, rows, failures_of(first, rows))
        if first.record.has_pages:
            keep_pictures(first)
    return results


def _seeds(given: CompareArguments, config: Config) -> list[Config]:
    """The configuration of every seed, with its own folder."""
    out = Path(config.run.output)
    return [
        replace(config, run=replace(config.run, seed=seed, output=str(out / f"seed_{seed}")))
        for seed in seed_numbers(given.seeds, config.run.seed)
    ]


def _keep_what_shows_more(out: Path, results: dict[str, Any]) -> None:
    """Rename the files of an earlier report that shows more or cannot be read, before they are overwritten."""
    from colbench_gym.errors import ColBenchError
    from sweetrl_agent.data.files import read_object

    if not (out / "results.json").exists():
        return
    try:
        before = read_object(out / "results.json")
        lost = sorted({*before} - {*results}) + sorted({*before["algorithms"]} - {*results["algorithms"]})
        lost += [f"seed {seed}" for seed in before["ledger"] if seed not in map(str, results["ledger"])]
    except (ColBenchError, KeyError, TypeError):
        lost = ["unreadable results"]
    if lost:
        for name in ("results.json", "report.html", "report.md"):
            if (out / name).exists():
                (out / name).replace(out / f"earlier_{name}")
        _log.warning(
            "This report shows less than the previous one (without %s), which is kept as earlier_report.html.", ", ".join(lost)
        )


def _run_in_turn(given: CompareArguments, configs: Sequence[Config], callbacks: Sequence[Any]) -> dict[int, Exception]:
    """Run the seeds one after the other; returns the errors of failed seeds, by seed."""
    from colbench_gym.errors import ColBenchError

    failed: dict[int, Exception] = {}
    for one in configs:
        try:
            run_one(given, one, callbacks)
        except ColBenchError as error:
            failed[one.run.seed] = error
    return failed


def run_one(given: CompareArguments, config: Config, callbacks: Sequence[Any] = ()) -> None:
    """Run all requested stages of one seed that are not done."""
    import torch

    from sweetrl_agent.algorithms.registry import scaled
    from sweetrl_agent.config.pipeline import STAGES
    from sweetrl_agent.data.run import Run
    from sweetrl_agent.evaluation.missing import left
    from sweetrl_agent.evaluation.scaling import scaled_run
    from sweetrl_agent.evaluation.steps import algorithm_steps, refuse_other_settings, run_steps
    from sweetrl_agent.trainers.bridge import watched
    from sweetrl_agent.trainers.preflight import check_models, check_resources

    torch.set_num_threads(config.run.threads or usable_cpus())
    run = Run(config)
    if run.note:
        _log.info(run.note)
    steps, root = steps_of(given), Path(config.run.output).parent
    refuse_other_settings(run, steps)
    invalid = run.find_invalid(steps.values())
    check_models(config, STAGES if left(run, steps, invalid) else ())
    check_resources(run, STAGES if left(run, steps, invalid) else ())
    run.prepare(steps.values(), invalid)
    with watched(run, callbacks, root):
        run_steps(run, steps)
    for count in given.scaling:
        steps = algorithm_steps(scaled(given.algorithms), own_settings(given))
        small = scaled_run(run, count, steps)
        _log.info("seed %d: the first %d trajectories", run.seed, count)
        with watched(small, callbacks, root):
            run_steps(small, steps)


if __name__ == "__main__":
    sys.exit(main())
