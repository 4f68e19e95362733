"""Agents with discrete dialogue actions, compared with random actions and hill climbing over several seeds, with learning curves.

    PYTHONPATH=. python benchmarks/discrete_actions.py --env ColBench-Frontend-v0 --seeds 5 --output runs/actions

For every seed, PPO and DQN of Stable-Baselines3 are trained on the training tasks. Then these agents, random actions and hill climbing play each test
task once. *Hill climbing* tries a random action at each step and undoes it unless the score improves. It sees the score, which is hidden from
the agents (page tasks only; a function is only scored at the end). All have as many steps as a dialogue has turns. Existing measurements are
not repeated. The results are in OUTPUT/results.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.files import read_rows, write_json
from colbench_gym.seeds import derive_seed
from colbench_gym.tasks import Task
from colbench_gym.wrappers.discrete_actions import DiscreteActions
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.evaluation.comparison_job import parse
from sweetrl_agent.evaluation.statistics import algorithm_interval, score_interval
from sweetrl_agent.policies.discrete import DiscretePolicy
from sweetrl_agent.trainers.run import Run

LEARNERS = ("ppo", "dqn")


def play(policy: DiscretePolicy, env: DiscreteActions, task: Task, seed: int) -> float:
    """Play one episode and return its metric."""
    env.reset(seed=seed, options={"task_id": task.id})
    world: Any = env.unwrapped
    for turn in range(world.turn_limit):
        (utterance,) = policy.generate([world.messages], [derive_seed(seed, turn)])
        *_, terminated, truncated, info = env.env.step(utterance.text)
        if terminated or truncated:
            return grade(info)
    raise AssertionError("An episode ends after its last turn.")


def climb(env: DiscreteActions, task: Task, seed: int) -> float:
    """Metric of hill climbing: the best page of ten steps."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed, options={"task_id": task.id})
    world: Any = env.unwrapped
    best = env.actions.potential(world)
    assert best is not None
    for _ in range(world.turn_limit):
        before = world.get_state()
        env.step(rng.choice(np.flatnonzero(env.action_masks())))
        after = env.actions.potential(world)
        assert after is not None
        if after > best:
            best = after
        else:
            world.set_state(before)
    return best


def grade(info: dict[str, Any]) -> float:
    """The metric of an episode: similarity for a page, success for a function."""
    metrics = info["metrics"]
    return float(metrics["similarity"] if "similarity" in metrics else metrics["success"])


def scores_of(run: Run) -> Iterator[tuple[str, list[float]]]:
    """Every agent's metrics on the test tasks."""
    record: Any = run.record
    with record.action_environments(run.config, run.test, 1) as (env,):
        agents: dict[str, Any] = {name: run.config.algorithms[name].load(run) for name in ("random_actions", *LEARNERS)}
        for name, policy in agents.items():
            yield name, [play(policy, env, task, derive_seed(run.seed, "actions", task.id)) for task in run.test]
        env.reset(seed=0)
        if env.actions.potential(env.unwrapped) is not None:  # type: ignore[arg-type]
            yield "hill_climbing", [climb(env, task, derive_seed(run.seed, "actions", task.id)) for task in run.test]


def measure(folder: Path, seed: int, settings: Sequence[str]) -> dict[str, Any]:
    """Train and measure one seed. Returns the metrics by agent, and the learning curves."""
    _, config = parse(
        [
            "--algorithms",
            "random_actions",
            *LEARNERS,
            "--output",
            str(folder / f"seed_{seed}"),
            "--seed",
            str(seed),
            "--num_tasks",
            "0",
            *settings,
        ]
    )
    run = Run(config)
    for name in LEARNERS:
        if not run.is_done(name):
            algorithm = config.algorithms[name]
            with run.stage(stages_of(algorithm)[name]):
                algorithm.train(run)
            print(f"seed {seed}: {name} learnt in {run.seconds[name]:.0f} s", flush=True)
    path = run.path("grades.json")
    if not path.exists():
        write_json(path, dict(scores_of(run)))
    return {"grades": json.loads(path.read_text()), "curves": read_rows(run.path("metrics.jsonl")), "seconds": run.seconds}


def main() -> None:
    """Run the missing measurements and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="ColBench-Frontend-v0")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, required=True)
    given, settings = parser.parse_known_args()
    measured = [measure(given.output, seed, ["--env", given.env, *settings]) for seed in range(given.seeds)]
    tables = {name: np.array([m["grades"][name] for m in measured]) for name in measured[0]["grades"]}
    results = {
        "agents": {
            name: {
                "grade": float(table.mean()),
                "ci95": np.clip(score_interval(table), 0.0, 1.0).tolist(),
                "n": table.shape[1],
                "seeds": table.shape[0],
            }
            for name, table in tables.items()
        },
        "differences": {
            f"{name} - {other}": {
                "difference": float((tables[name] - tables[other]).mean()),
                "ci95": algorithm_interval(tables[name] - tables[other]),
            }
            for name in LEARNERS
            for other in tables
            if other not in LEARNERS
        },
        "curves": {name: curve([m["curves"] for m in measured], name) for name in LEARNERS},
        "seconds": {name: [m["seconds"][name] for m in measured] for name in LEARNERS},
    }
    write_json(given.output / "results.json", results)
    for name, row in results["agents"].items():
        print(f"{name:16} {row['grade']:.3f} ({row['ci95'][0]:.3f} to {row['ci95'][1]:.3f})")
    for name, row in results["differences"].items():
        print(f"{name:28} {row['difference']:+.3f} ({row['ci95'][0]:+.3f} to {row['ci95'][1]:+.3f})")
    for name, rows in results["curves"].items():
        print(name, " ".join(f"{row['step'] // 1000}k {row['reward']:+.3f}" for row in rows))


def curve(seeds: Sequence[Sequence[dict[str, Any]]], name: str) -> list[dict[str, float]]:
    """Mean return of training episodes over the seeds, with its standard deviation between them."""
    by_seed = [[row for row in rows if row["stage"] == name] for rows in seeds]
    return [
        {"step": rows[0]["step"], "reward": float(np.mean([row["reward"] for row in rows])),
         "between_seeds": float(np.std([row["reward"] for row in rows]))}
        for rows in zip(*by_seed, strict=False)
    ]  # fmt: skip


if __name__ == "__main__":
    main()
