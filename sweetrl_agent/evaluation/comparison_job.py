"""The work of `python -m sweetrl_agent.compare`: the stages of all seeds, then the results of the whole comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from colbench_gym.errors import ColBenchError
from colbench_gym.files import check_output, locked, read_json, read_rows, write_json, write_text
from colbench_gym.servers.usage import metered_command
from colbench_gym.stage_records import COMPARISON, FILE, StageRecords, refuse_other_kind
from sandboxes.logs import shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.registry import register, register_own_critic, scaled, specification, titles
from sweetrl_agent.algorithms.settings import make_algorithms, make_config, read, with_defaults_of_environment
from sweetrl_agent.config.command_line import NONE, conclude, ending_with
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import COMPARE, SECTIONS, Config
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.settings import build
from sweetrl_agent.data.machine import git_commit
from sweetrl_agent.evaluation.checks import check_comparison, chosen_critics, meter_of, seed_numbers
from sweetrl_agent.evaluation.comparison import all_results, table
from sweetrl_agent.evaluation.costs import COLUMNS
from sweetrl_agent.evaluation.failures import explain_shown, failures_of
from sweetrl_agent.evaluation.pictures import keep_pictures
from sweetrl_agent.evaluation.scaling import scaled_run
from sweetrl_agent.evaluation.side_by_side import run_side_by_side
from sweetrl_agent.evaluation.simulators import simulator_spec
from sweetrl_agent.evaluation.steps import EXPLANATIONS, Steps, algorithm_steps, experiment_steps
from sweetrl_agent.evaluation.submission import entry, refuse_entry, refuse_submission
from sweetrl_agent.reporting.comparison import write_comparison
from sweetrl_agent.rollouts.trial import print_trial
from sweetrl_agent.trainers.callbacks import callback_context, find_callbacks
from sweetrl_agent.trainers.preflight import (
    Package,
    check_human,
    check_models,
    check_packages,
    check_resources,
    unmet_requirements,
)
from sweetrl_agent.trainers.resources import check_disk
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.stage_runner import left, plan_lines, run_stages, set_threads, time_lines
from sweetrl_agent.trainers.trackers import make_trackers

_log = logging.getLogger(__name__)


def run(
    words: Sequence[str] | None,
    defaults: Mapping[str, Any],
    description: str | None,
    callbacks: Sequence[Any] = (),
    is_command: bool = True,
) -> int:
    """Run the missing stages of the comparison, write the report and print the results; returns the exit status.

    Arguments and errors as in `main_job.run`.
    """
    with ExitStack() as held:
        with ending_with(ColBenchError, ValueError, ImportError, OSError):
            given, config = parse(words, defaults, description)
            held.enter_context(shown_logs(config.run.log_level, always=is_command))
            settings = {**asdict(given), **config.settings()}
            for name in ("algorithms", "critics", "credit_algorithms"):
                settings[name] = [specification(named) for named in settings[name]]
            out, configs = Path(config.run.output), config_of_seeds(given, config)
            refuse_other_kind(out, COMPARISON)
            check_comparison(given, config)
            if given.submit:
                refuse_submission(seed_numbers(given.seeds, config.run.seed), git_commit(__file__) or "")
            find_callbacks([*config.run.callbacks, *callbacks])
            if config.run.dry_run:
                return dry_run(given, config)
            held.enter_context(locked(out))
            check_packages(config, STAGES, _packages(given, config))
            if not (out / FILE).exists():
                check_disk([Run(of_seed, is_dry=True) for of_seed in configs], trained(given, config))
                StageRecords(out, kind=COMPARISON).save()
            write_settings(out, settings)
        with ending_with(ColBenchError, ValueError), metered_command(meter_of(config)):
            results = _run_all(given, config, callbacks)
    print(table(results, {**titles(), **results.get("titles", {})}))
    page = write_comparison(out, titles(), {name: kind.title for name, kind in CRITICS.items()}, COLUMNS, bool(given.against))
    print(f"\nresults: {out / 'results.json'}\nreport:  {page} (and report.md)")
    if given.submit:
        row = entry(results, given, config)
        with ending_with(ColBenchError):
            refuse_entry(row)
        write_json(Path(given.submit), row)
        print(f"entry:   {given.submit}")
    return 0


def parse(
    words: Sequence[str] | None, defaults: Mapping[str, Any] = NONE, description: str | None = None
) -> tuple[CompareArguments, Config]:
    """Settings of the comparison and of the main job, from the command line and, with `--config`, a YAML file; see `algorithms.settings.read`."""
    program = program_name("sweetrl_agent.compare")
    settings = read(words, program, description, (COMPARE, *SECTIONS), defaults=defaults)
    settings = {"output": "runs/compare", **with_defaults_of_environment(settings, (COMPARE, *SECTIONS))}
    settings["initial_policy"] = "sft"  # intervals over seeds include the variance of SFT
    given = build(CompareArguments, settings)
    settings = {name: value for name, value in settings.items() if name not in COMPARE.settings}
    given.algorithms = [register(name, "algorithms") for name in given.algorithms]
    given.credit_algorithms = [register(name, "credit_algorithms") for name in given.credit_algorithms]
    if not given.algorithms:
        raise ValueError("`algorithms` must name at least one algorithm, such as initial, got none.")
    config = make_config(settings, given.algorithms)
    given.critics = [register_own_critic(name, "critics") for name in chosen_critics(given, config)]
    used = [*given.critics, *given.credit_algorithms] if given.credit_tasks or given.best_of else []
    return given, replace(config, algorithms=make_algorithms(dict.fromkeys([*given.algorithms, *used]), settings))


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write a comparison's settings, which shape its results, to config.yaml for `--config`; those of each seed are in its folder."""
    shaping = {name: value for name, value in settings.items() if name not in ("workers", "submit")}
    if len(shaping.get("seeds", [])) == 1:  # how many
        shaping["seeds"] = shaping["seeds"][0]
    write_text(folder / "config.yaml", yaml.safe_dump(shaping, sort_keys=False))


def config_of_seeds(given: CompareArguments, config: Config) -> list[Config]:
    """The configuration of every seed, with its own folder."""
    out = Path(config.run.output)
    return [
        replace(config, run=replace(config.run, seed=seed, output=str(out / f"seed_{seed}")))
        for seed in seed_numbers(given.seeds, config.run.seed)
    ]


def _compared(given: CompareArguments, config: Config) -> list[Algorithm]:
    """The algorithms that are compared, with their settings."""
    return [config.algorithms[name] for name in given.algorithms]


def trained(given: CompareArguments, config: Config) -> list[Algorithm]:
    """The algorithm of each policy that is trained in a seed's folder, those of `scaling` included."""
    compared = _compared(given, config)
    return [algorithm for algorithm in [*compared, *scaled(compared) * len(given.scaling)] if algorithm.stages]


def _packages(given: CompareArguments, config: Config) -> dict[Package, tuple[str, ...]]:
    """Packages that the algorithms need -> the algorithms."""
    needed: dict[Package, tuple[str, ...]] = {}
    for algorithm in _compared(given, config):
        for package in algorithm.packages:
            needed[package] = (*needed.get(package, ()), algorithm.name)
    return needed


def _steps(given: CompareArguments, config: Config) -> Steps:
    """All steps of a seed, by name, in order."""
    return {**algorithm_steps(_compared(given, config)), **experiment_steps(given, config.algorithms)}


def dry_run(given: CompareArguments, config: Config) -> int:
    """Print the plan and check all requirements; runs nothing. Returns the exit status, 2 if the comparison would fail.

    Raises:
        ColBenchError: If tasks cannot be loaded.
        ValueError: If a folder cannot be written or has another run, or there are fewer trajectories than `scaling` requires.
    """
    check_output(Path(config.run.output))
    compared, steps = _compared(given, config), _steps(given, config)
    runs = [Run(of_seed, is_dry=True) for of_seed in config_of_seeds(given, config)]
    first, invalid = runs[0], [run.find_invalid(steps.values()) for run in runs]
    print("\n".join(plan_lines(first, compared)))
    unfinished = [run for run, again in zip(runs, invalid, strict=True) if _describe_seed(run, steps, again)]
    timed = algorithm_steps(compared)
    if todo := left(first, timed, invalid[0]):
        lines, _ = time_lines(first, timed, compared, todo, invalid[0])
        print("\n  ".join([f"{'each of the seeds' if len(runs) > 1 else 'it'} takes:", *lines]))
    print_trial(config)
    most = len(first.tasks) * config.collect.trajectories_per_task
    for count in given.scaling:
        if count > most:
            raise ValueError(f"`scaling` takes counts up to {most}, the trajectories of {len(first.tasks)} tasks, got {count}.")
        print(
            f"with the first {count} trajectories of each seed: {', '.join(algorithm.name for algorithm in scaled(compared))}"
        )
    more, disk = _human_checks(given, first) if unfinished else (), partial(check_disk, unfinished, trained(given, config))
    return conclude(unmet_requirements(first, STAGES if unfinished else (), _packages(given, config), more, disk))


def _describe_seed(run: Run, steps: Steps, invalid: Mapping[str, str]) -> list[str]:
    """Print what is done, what is left and what is to be done again of a seed, a line each; returns what is left."""
    missing = left(run, steps, invalid)
    if not missing:
        print(f"seed {run.seed}: nothing is left to do ({len(steps)} steps are done)")
    else:
        done = f" ({len(steps) - len(missing)} of {len(steps)} steps are done)" if len(missing) < len(steps) else ""
        print(f"seed {run.seed}: {', '.join(missing)}{done}")
    for name, why in invalid.items():
        print(f"seed {run.seed}: {name} is done again, since {why}")
    return missing


def _human_checks(given: CompareArguments, run: Run) -> Iterator[Callable[[], object]]:
    """Checks of the servers of other simulators."""

    def check_server(simulator: str) -> None:
        with closing(run.record.make_simulator(simulator_spec(simulator, run.record))) as human:
            check_human(run.record, human)

    for simulator in given.simulators:
        yield partial(check_server, simulator)


def _run_all(given: CompareArguments, config: Config, callbacks: Sequence[Any]) -> dict[str, Any]:
    """Run the missing stages of every seed; writes results.json of the whole comparison."""
    out, configs = Path(config.run.output), config_of_seeds(given, config)
    for tracker in make_trackers(config.run.report_to, out):
        tracker.prepare()
    work = partial(run_seed, given, callbacks=callbacks)
    failed = _run_in_turn(work, configs) if given.workers == 1 else run_side_by_side(work, configs, given.workers)
    if failed:
        raise _failure([Run(of_seed, is_dry=True) for of_seed in configs], failed, _steps(given, config))
    results = all_results(given, [Run(of_seed) for of_seed in configs])
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


def _run_in_turn(work: Callable[[Config], None], configs: Sequence[Config]) -> dict[int, Exception]:
    """Run the seeds one after the other; returns the errors of failed seeds, by seed."""
    failed: dict[int, Exception] = {}
    for config in configs:
        try:
            work(config)
        except ColBenchError as error:
            failed[config.run.seed] = error
    return failed


def _failure(runs: Sequence[Run], failed: Mapping[int, Exception], steps: Steps) -> ColBenchError:
    """The error of a comparison of which some seeds failed: each with its reason and the stages that it lacks."""
    reasons = [
        f"seed {run.seed}: {failed[run.seed]} Left there: {', '.join(left(run, steps))}." for run in runs if run.seed in failed
    ]
    return ColBenchError(
        f"{len(failed)} of {len(runs)} seeds failed, and excluding them would bias the results; the files of the others "
        f"are kept, and the same command runs what is left. {' '.join(reasons)}"
    )


def _keep_what_shows_more(out: Path, results: Mapping[str, Any]) -> None:
    """Rename the files of an earlier report that shows more, before they are overwritten."""
    earlier, now = _shown(read_json(out / "results.json")), _shown(results)
    if lost := sorted(earlier - now):
        for name in ("results.json", "report.html", "report.md"):
            if (out / name).exists():
                (out / name).replace(out / f"earlier_{name}")
        _log.warning(
            "This report shows less than the previous one (without %s), which is kept as earlier_report.html.", ", ".join(lost)
        )


def _shown(results: Mapping[str, Any]) -> set[str]:
    """What a report of results shows: its parts, algorithms and seeds."""
    algorithms, ledger = (of if isinstance(of := results.get(name), dict) else {} for name in ("algorithms", "ledger"))
    return {*results, *algorithms, *(f"seed {seed}" for seed in ledger)}


def run_seed(given: CompareArguments, config: Config, callbacks: Sequence[Any] = ()) -> None:
    """Run all requested stages of one seed that are not done."""
    set_threads(config.run.threads)
    run = Run(config)
    if run.note:
        _log.info(run.note)
    steps, root, label = _steps(given, config), Path(config.run.output).parent, f"seed {run.seed}: "
    invalid = run.find_invalid(steps.values())
    stages = STAGES if left(run, steps, invalid) else ()
    check_models(config, stages)
    check_resources(run, stages)
    run.prepare(steps.values(), invalid)
    with callback_context(run, callbacks, root):
        run_stages(run, steps, label=label)
    for count in given.scaling:
        steps = algorithm_steps(scaled(_compared(given, config)))
        small = scaled_run(run, count, steps)
        _log.info("%sthe first %d trajectories", label, count)
        with callback_context(small, callbacks, root):
            run_stages(small, steps, label=label)
