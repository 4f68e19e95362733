"""Hyperparameter search for the compared algorithms, with the same number of trials each, on tasks that no comparison evaluates.

    PYTHONPATH=. python benchmarks/search.py --trials 6 --steps 4 --output runs/search

The first trial of an algorithm uses its default settings; the others are drawn from `SPACES` with a fixed seed. Local search steps
follow: the best settings so far, with one of them moved to a neighbouring value. All trials share one initial policy, one set of trajectories and
one set of candidates (the first 1,800 training tasks), and are evaluated on the other tasks, about 230. Results are appended to `search.jsonl` in
the output folder. A trial that is already there with the same `SHARED` amounts is not run again. The table at the end has the best first. To
continue an earlier search, put its `search.jsonl` into the folder, and pass more `--steps` and fewer `--trials`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

_CREDIT: dict[str, list[Any]] = {
    "sweet.critic_learning_rate": [1e-4, 3e-4],
    "sweet.critic_epochs": [1, 2, 4],
    "sweet.pair_quantile": [0.2, 0.5],
    "sweet.actor_learning_rate": [1e-4, 2e-4, 4e-4],
    "sweet.actor_epochs": [1, 2, 4, 8],
    "sweet.actor_beta": [0.1, 1.0],
    "sweet.actor_nll": [0.3, 1.0],
}
#: Learning rates of algorithms that play their own dialogues, which are searched with one more setting each.
_RATES = [1e-4, 3e-4, 1e-3]
SPACES: dict[str, dict[str, list[Any]]] = {
    "rft": {
        "rft.learning_rate": [3e-4, 1e-3, 2e-3],
        "rft.epochs": [1, 2, 4, 6, 9],
        "rft.batch": [8, 32],
    },
    "mtdpo": {
        "mtdpo.learning_rate": [1e-4, 3e-4, 1e-3],
        "mtdpo.epochs": [1, 2, 4, 8, 16],
        "mtdpo.nll": [0.1, 0.3, 1.0],
        "mtdpo.beta": [0.1, 1.0],
    },
    "no_hidden": _CREDIT,
    "sweet": {**_CREDIT, "sweet.reference_hidden": [False, True]},
    "sweet_online": {"sweet_online.actor_learning_rate": [1e-4, 2e-4, 4e-4], "sweet_online.rounds": [2, 3]},
    "archer": {"archer.learning_rate": _RATES, "archer.critic_rate": [3e-4, 1e-3, 3e-3]},
    **{
        name: {f"{name}.learning_rate": _RATES, f"{name}.{setting}": values}
        for name, setting, values in (
            ("reinforce", "epochs", [1, 2]), ("grpo", "epochs", [1, 2, 4]), ("turn_ppo", "lam", [0.0, 0.9, 1.0]),
            ("token_ppo", "epochs", [2, 4]), ("vineppo", "epochs", [1, 2, 4]), ("infopo", "gain_weight", [0.1, 0.3, 1.0]),
            ("igpo", "gain_weight", [0.3, 1.0, 3.0]), ("gigpo", "weight", [0.3, 1.0, 3.0]),
        )
    },
}  # fmt: skip
#: Amounts that all algorithms share in a comparison.
SHARED = {"num_tasks": 150, "sweet.num_states": 1600, "sweet.pairs_per_turn": 2}
HELD_OUT = ["--tasks", "embedded:train[:1800]", "--test_tasks", "embedded:train[1800:]", "--unseen_tasks", ""]


def trials(algorithm: str, count: int) -> list[dict[str, Any]]:
    """Settings to try: the defaults, then distinct draws from the rest of the algorithm's space; fewer than `count` where it has no more."""
    defaults, space = complete(algorithm, {}), SPACES[algorithm]
    others = [
        settings for values in product(*space.values()) if (settings := dict(zip(space, values, strict=True))) != defaults
    ]
    return [{}, *(others[i] for i in np.random.default_rng(0).permutation(len(others))[: count - 1])]


def neighbours(algorithm: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings with one of them moved by one place in its list, in the order of `SPACES`."""
    near = []
    for name, values in SPACES[algorithm].items():
        place = values.index(settings.get(name, default_of(name)))
        near += [{**settings, name: values[i]} for i in (place - 1, place + 1) if 0 <= i < len(values)]
    return near


def next_steps(algorithm: str, rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Untried neighbours of the best settings so far at random, then of the next best."""
    best_first = sorted((row for row in rows if row["algorithm"] == algorithm), key=lambda row: -row["success"])
    tried = [complete(algorithm, row["settings"]) for row in best_first]
    chosen: list[dict[str, Any]] = []
    for best in best_first:
        near = neighbours(algorithm, complete(algorithm, best["settings"]))
        chosen += [
            near[i] for i in np.random.default_rng(len(best_first)).permutation(len(near)) if near[i] not in (*tried, *chosen)
        ]
        if len(chosen) >= count:
            break
    return chosen[:count]


def complete(algorithm: str, settings: dict[str, Any]) -> dict[str, Any]:
    """All settings of the algorithm's space, with the defaults for those not given."""
    return {name: settings.get(name, default_of(name)) for name in SPACES[algorithm]}


def default_of(name: str) -> Any:
    """Default of a setting."""
    from sweetrl_agent.algorithms.settings import make_config

    section, dot, setting = name.partition(".")
    settings = make_config(algorithms=[section] if dot else None).settings()
    return settings[section][setting] if dot else settings[name]


def arguments(output: Path, seed: int, settings: dict[str, Any]) -> list[str]:
    """The command line of `compare` for one trial, including the settings of `SHARED`."""
    given = ["--seed", str(seed), "--output", str(output), "--threads", "1", *HELD_OUT]
    return given + [word for name, value in {**SHARED, **settings}.items() for word in (f"--{name}", str(value))]


def run_trial(output: Path, seed: int, algorithm: str, settings: dict[str, Any], log: Path) -> dict[str, Any]:
    """Train and measure one trial in this process; its output goes into `log`."""
    file = log.open("a")
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    from colbench_gym.evaluation.summary import summarize
    from colbench_gym.files import read_rows
    from sweetrl_agent.config.command_line import prepare_process
    from sweetrl_agent.evaluation.comparison_job import parse
    from sweetrl_agent.evaluation.steps import algorithm_steps
    from sweetrl_agent.trainers.run import Run
    from sweetrl_agent.trainers.stage_runner import run_stages

    prepare_process()
    import torch

    torch.set_num_threads(1)
    folder = output / "-".join([algorithm, *(f"{name}={value}" for name, value in settings.items())])
    if not folder.exists():
        folder.mkdir(parents=True)
        for name in ("trajectories.jsonl", "outcome_pairs.jsonl", "pairs_summary.json", "candidates.jsonl", "stages.json"):
            shutil.copy(output / "shared" / name, folder / name)
        os.symlink("../shared/initial", folder / "initial")
    _, config = parse([*arguments(folder, seed, settings), "--algorithms", "initial", algorithm])
    run = Run(config)
    run_stages(run, algorithm_steps([config.algorithms[algorithm]]))
    score = summarize([row for row in read_rows(run.path("evaluation.jsonl")) if row["agent"] == algorithm])
    metrics = ("success", "tests_passed", "turns", "answered", "n")
    return {
        "algorithm": algorithm,
        "shared": SHARED,
        "settings": settings,
        **{name: score[name] for name in metrics},
        "ci95": score["ci95"]["success"],
    }


def main() -> None:
    """Run the missing trials and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--algorithms", nargs="+", default=list(SPACES), choices=list(SPACES))
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    from sweetrl_agent.evaluation.comparison_job import parse
    from sweetrl_agent.evaluation.steps import algorithm_steps
    from sweetrl_agent.trainers.run import Run
    from sweetrl_agent.trainers.stage_runner import run_stages

    _, config = parse([*arguments(given.output / "shared", given.seed, {}), "--algorithms", "initial", "rft", "sweet"])
    shared = ("sft", "evaluate initial", "collect", "pairs", "candidates")
    steps = algorithm_steps(config.algorithms.values())
    run_stages(Run(config), {name: steps[name] for name in shared})
    path = given.output / "search.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    rows = [row for row in rows if row["shared"] == SHARED]
    done = [(row["algorithm"], row["settings"]) for row in rows]
    left = [(name, s) for name in given.algorithms for s in trials(name, given.trials) if (name, s) not in done]
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:

        def run(some: list[tuple[str, dict[str, Any]]]) -> None:
            futures = [pool.submit(run_trial, given.output, given.seed, *trial, given.output / "log.txt") for trial in some]
            for future in futures:
                rows.append(future.result())
                with path.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
                print(rows[-1], flush=True)

        run(left)
        for name in given.algorithms:
            while (missing := given.trials + given.steps - sum(row["algorithm"] == name for row in rows)) > 0:
                some = next_steps(name, rows, min(missing, given.workers))
                if not some:  # every neighbour of every trial is tried
                    break
                run([(name, settings) for settings in some])
    for row in sorted(rows, key=lambda row: (row["algorithm"], -row["success"])):
        low, high = row["ci95"]
        print(
            f"{row['algorithm']:8} {row['success']:6.1%} ({low:.1%} to {high:.1%})  turns {row['turns']:.1f}  {row['settings']}"
        )


if __name__ == "__main__":
    sys.exit(main())
