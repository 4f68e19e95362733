"""``python -m sweetrl_agent.compare``: the same start, tasks, human and evaluation for several algorithms, over several seeds.

    python -m sweetrl_agent.compare --algorithms zero_shot rft mtdpo sweet --seeds 5 --output runs/compare [settings of the main job]

Every seed has a run folder of its own (`seed_0`, ...), which is a folder of the main job with the other algorithms' agents beside it.
What is there is not done again: kill it at any moment and start it again, or start it again with more algorithms or seeds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweetrl_agent.train import parse_parts, prepare_process, refuse

if TYPE_CHECKING:
    from sweetrl_agent.config import Config
    from sweetrl_agent.run import Run

SHARED_STAGES = ("imitate", "collect", "pairs")


@dataclass
class CompareArguments:
    """What to compare."""

    algorithms: list[str] = field(
        default_factory=lambda: ["zero_shot", "rft", "mtdpo", "sweet"],
        metadata={"help": "Names of algorithms; worse ones first makes the differences positive."},
    )
    seeds: int = field(default=5, metadata={"help": "Runs of each algorithm, with seeds from `seed` on."})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing of the comparison and print it; returns the exit status."""
    prepare_process()
    from colbench_gym.errors import ColBenchError

    try:
        given, config = parse(arguments)
        check(given, config)
        results = run_all(given, config)
    except (ColBenchError, ValueError) as error:
        return refuse(error)
    from sweetrl_agent.algorithms.registry import ALGORITHMS
    from sweetrl_agent.comparison import table

    print(table(results, {name: algorithm.title for name, algorithm in ALGORITHMS.items()}))
    print(f"\nresults: {Path(config.run.output) / 'results.json'}")
    return 0


def parse(arguments: Sequence[str] | None) -> tuple[CompareArguments, Config]:
    """The command line and, with `--config`, a YAML file; the settings are those of the main job."""
    from sweetrl_agent.config import Config, RunArguments

    given, *parts = parse_parts((CompareArguments, *Config.PARTS), arguments, "python -m sweetrl_agent.compare", __doc__)
    if parts[0].output == RunArguments.output:
        parts[0].output = "runs/compare"
    return given, Config(*parts)


def check(given: CompareArguments, config: Config) -> None:
    """Refuse what cannot work, before anything runs.

    Raises:
        ValueError: If an algorithm is unknown, named twice or needs what the environment does not have, or there is no seed.
    """
    from colbench_gym.envs.backend import BackendEnv
    from sweetrl_agent.algorithms.registry import ALGORITHMS, missing_capabilities

    for name in given.algorithms:
        if name not in ALGORITHMS:
            raise ValueError(f"`algorithms` must be of {tuple(ALGORITHMS)}, got {name!r}.")
        if missing := missing_capabilities(name, BackendEnv):
            raise ValueError(f"{name!r} needs {missing} of the environment, which {config.task.env} does not have.")
    if len(set(given.algorithms)) < len(given.algorithms):
        raise ValueError(f"`algorithms` must name each once, got {given.algorithms}.")
    if given.seeds < 1:
        raise ValueError(f"`seeds` must be at least 1, got {given.seeds}.")


def run_all(given: CompareArguments, config: Config) -> dict[str, Any]:
    """Run what is missing for every seed -> results.json of the whole comparison."""
    import torch

    from sweetrl_agent.comparison import compare_scores
    from sweetrl_agent.files import read_rows, write_json
    from sweetrl_agent.run import Run

    torch.set_num_threads(config.run.threads or os.cpu_count() or 1)
    out = Path(config.run.output)
    evaluations, ledgers, results = {}, {}, {}
    for seed in range(config.run.seed, config.run.seed + given.seeds):
        print(f"\n# seed {seed}")
        run = Run(replace(config, run=replace(config.run, seed=seed, output=str(out / f"seed_{seed}"))))
        run_seed(run, given.algorithms)
        rows = read_rows(run.path("evaluation.jsonl"))
        evaluations[seed] = [row for name in given.algorithms for row in rows if row["agent"] == name]
        ledgers[seed] = ledger(run, given.algorithms)
        results = {**compare_scores(evaluations), "ledger": ledgers}
        write_json(out / "results.json", results)
    return results


def run_seed(run: Run, algorithms: Sequence[str]) -> None:
    """The stages of one seed that are not done: what is shared, then each algorithm's own, then its evaluation."""
    from sweetrl_agent.algorithms.registry import ALGORITHMS
    from sweetrl_agent.evaluation import evaluate_agent
    from sweetrl_agent.train import stages

    shared = {name: stages()[name] for name in SHARED_STAGES}
    for name in algorithms:
        algorithm = ALGORITHMS[name]
        own = shared | algorithm.stages if algorithm.stages else {"imitate": shared["imitate"]}
        for stage, function in own.items():
            if not run.is_done(stage):
                with run.stage(stage):
                    function(run)
        if not run.is_done(f"evaluate {name}"):
            with run.stage(f"evaluate {name}"):
                evaluate_agent(run, name, algorithm.agent(run))


def ledger(run: Run, algorithms: Sequence[str]) -> dict[str, dict[str, float]]:
    """What each algorithm of a seed has cost: turns of the environment, candidates beside them, and wall seconds of its own stages."""
    from sweetrl_agent.algorithms.registry import ALGORITHMS
    from sweetrl_agent.files import read_rows

    collected = read_rows(run.path("trajectories.jsonl"))
    turns = sum(len(row["turns"]) for row in collected)
    tokens = sum(len(turn["token_ids"]) for row in collected for turn in row["turns"])
    costs = {}
    for name in algorithms:
        own = ALGORITHMS[name].stages
        candidates = read_rows(run.path("candidates.jsonl")) if "candidates" in own else []
        costs[name] = {
            "environment_turns": turns if own else 0,
            "generated_tokens": tokens if own else 0,
            "candidates": sum(len(row["texts"]) for row in candidates),
            "seconds": round(sum(run.seconds.get(stage, 0.0) for stage in (*(SHARED_STAGES if own else ()), *own)), 1),
        }
    return costs


if __name__ == "__main__":
    sys.exit(main())
