"""What a comparison lacks, and how to get it: packages of algorithms, finished files of a seed, and stages that are left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from colbench_gym.errors import ColBenchError
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.data.run import Run
from sweetrl_agent.trainers.preflight import Check, Package, refuse_lost


def packages(names: Iterable[str]) -> dict[Package, tuple[str, ...]]:
    """Packages that algorithms need -> the algorithms."""
    found: dict[Package, tuple[str, ...]] = {}
    for name in names:
        for package in ALGORITHMS[name].packages:
            found[package] = (*found.get(package, ()), name)
    return found


def stages(names: Iterable[str]) -> dict[str, Stage]:
    """Declarations of the training stages of algorithms."""
    every = {name: stage for algorithm in names for name, stage in stages_of(ALGORITHMS[algorithm]).items()}
    return {name: stage for name, stage in every.items() if name not in ("evaluate", "report")}


def left(run: Run, steps: Collection[str]) -> list[str]:
    """Steps that are not done in a seed's folder."""
    return [name for name in steps if not run.is_done(name)]


def describe_seed(run: Run, steps: Collection[str]) -> str:
    """What is done and what is left of a seed, in one line."""
    missing = left(run, steps)
    if not missing:
        return f"seed {run.seed}: nothing is left to do ({len(steps)} steps are done)"
    done = f" ({len(steps) - len(missing)} of {len(steps)} steps are done)" if len(missing) < len(steps) else ""
    return f"seed {run.seed}: {', '.join(missing)}{done}"


def checks(runs: Sequence[Run], steps: Collection[str], names: Iterable[str]) -> list[Check]:
    """One check for each seed: files that a stage on the list reads, and that a finished stage has written, are there."""
    declared = stages(names)
    return [partial(refuse_lost, run, declared, left(run, steps)) for run in runs]


def failure(runs: Sequence[Run], failed: Mapping[int, Exception], steps: Collection[str]) -> ColBenchError:
    """The error of a comparison of which some seeds failed: each with its reason and the stages that it lacks.

    Args:
        runs: The runs of all seeds.
        failed: Errors by seed.
        steps: All steps of a seed.
    """
    said = [
        f"seed {run.seed}: {failed[run.seed]} Left there: {', '.join(left(run, steps))}." for run in runs if run.seed in failed
    ]
    return ColBenchError(
        f"{len(failed)} of {len(runs)} seeds failed, and excluding them would bias the results; the files of the others "
        f"are kept, and the same command runs what is left. {' '.join(said)}"
    )
