"""What a comparison lacks, and how to get it: packages of algorithms, finished files of a seed, and stages that are left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from colbench_gym.errors import ColBenchError
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.data.run import Run
from sweetrl_agent.trainers.preflight import Package


def packages(names: Iterable[str]) -> dict[Package, tuple[str, ...]]:
    """Packages that algorithms need -> the algorithms."""
    found: dict[Package, tuple[str, ...]] = {}
    for name in names:
        for package in ALGORITHMS[name].packages:
            found[package] = (*found.get(package, ()), name)
    return found


def left(run: Run, steps: Collection[str], invalid: Collection[str] = ()) -> list[str]:
    """Steps that are not done in a seed's folder, or are to be done again."""
    return [name for name in steps if not run.is_done(name) or name in invalid]


def describe_seed(run: Run, steps: Collection[str], invalid: Mapping[str, str]) -> str:
    """What is done, what is left and what is to be done again of a seed, a line each."""
    missing = left(run, steps, invalid)
    if not missing:
        return f"seed {run.seed}: nothing is left to do ({len(steps)} steps are done)"
    done = f" ({len(steps) - len(missing)} of {len(steps)} steps are done)" if len(missing) < len(steps) else ""
    again = [f"seed {run.seed}: {name} is done again, since {why}" for name, why in invalid.items()]
    return "\n".join([f"seed {run.seed}: {', '.join(missing)}{done}", *again])


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
