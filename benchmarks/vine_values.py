"""Values by continuations (VinePPO) and by a value head (Turn-PPO) beside the exact ones, and the return per iteration, on the maze.

    PYTHONPATH=. python benchmarks/vine_values.py --output benchmarks/results/vine_values.json

The agent of the fully observed maze reads its position alone, so the probabilities of the four commands in every cell are its whole policy: they are read from the
model before every update, and V of this policy follows by dynamic programming over cells and remaining turns. Anything but the four commands, as the model
would spell them, counts as an unknown command. Errors are over the states that the iteration visited. Both algorithms start from the same initial policy of
each seed and play the same number of dialogues per iteration; the continuations of VinePPO are counted in `environment_turns` and `generated_tokens`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.files import read_rows
from colbench_gym.lmrl.maze.layouts import MOVES, Cell, layout_of
from colbench_gym.lmrl.maze.maze import AT_GOAL, MOVED, UNKNOWN, make, read_position
from sweetrl_agent.algorithms.turn_ppo import TurnPPO
from sweetrl_agent.algorithms.vineppo import VinePPO
from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.train import run_train
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm

MAZE = "double_t"
#: Columns of the table.
COLUMNS = ("return", "value_error", "value_correlation", "commands", "environment_turns", "generated_tokens")


def command_probabilities(batch: Batch) -> dict[Cell, dict[str, float]]:
    """Probability of each command in each cell but the goal, under the current policy."""
    layout, env, probabilities = layout_of(MAZE), make(MAZE), {}
    for cell in layout.starts:
        observation, _ = env.reset(options={"position": cell})
        said = [move.strip() for move in MOVES]  # as the agent says them: without the line feed
        dialogues = [
            Episode("", 0, [{"role": "user", "content": observation}, {"role": "assistant", "content": text}], [Turn(text)], {"outcome": "ended"}, 0.0)
            for text in said
        ]  # fmt: skip
        scores = batch.score(dialogues)
        probabilities[cell] = {move: math.exp(sum(of_turns[0])) for move, of_turns in zip(MOVES, scores, strict=True)}
    return probabilities


def exact_values(probabilities: Mapping[Cell, Mapping[str, float]], max_turns: int) -> dict[tuple[Cell, int], float]:
    """V of a policy, by cell and remaining turns."""
    layout = layout_of(MAZE)
    values = {(cell, 0): 0.0 for cell in layout.cells}
    for left in range(1, max_turns + 1):
        values[layout.goal, left] = 0.0
        for cell, chances in probabilities.items():
            unknown = 1.0 - sum(chances.values())
            values[cell, left] = unknown * (UNKNOWN + values[cell, left - 1])
            for move, chance in chances.items():
                after = layout.after(cell, move)
                values[cell, left] += chance * ((AT_GOAL if after == layout.goal else MOVED) + values[after, left - 1])
    return values


def value_metrics(batch: Batch, max_turns: int, estimated: Sequence[Sequence[float | None]]) -> dict[str, float]:
    """Root mean squared error of values and their correlation with the exact ones, over the visited states that have one; mean probability of the commands."""
    chances = command_probabilities(batch)
    values, pairs = exact_values(chances, max_turns), list[tuple[float, float]]()
    for episode, of_turns in zip(batch.episodes, estimated, strict=True):
        for turn, value in enumerate(of_turns):
            if value is not None and (cell := read_position(episode.messages[2 * turn]["content"])):
                pairs.append((value, values[cell, max_turns - turn]))
    found, exact = np.array(pairs).T
    spread = float(found.std() * exact.std())
    correlation = float(np.corrcoef(found, exact)[0, 1]) if spread > 0 else 0.0
    known = float(np.mean([sum(of_cell.values()) for of_cell in chances.values()]))
    return {"value_error": float(np.sqrt(np.mean((found - exact) ** 2))), "value_correlation": correlation, "commands": known}


def _limit(algorithm: OnPolicyAlgorithm) -> int:
    return int(algorithm.run.config.task.keyword_arguments()["max_turns"])


class MeasuredVinePPO(VinePPO):
    """VinePPO that logs the error of its values."""

    name = "measured_vineppo"

    def values(self, batch: Batch) -> tuple[list[list[float | None]], Mapping[str, float]]:
        """See `VinePPO`."""
        values, costs = super().values(batch)
        return values, {**costs, **value_metrics(batch, _limit(self), values)}


class MeasuredTurnPPO(TurnPPO):
    """Turn-PPO that logs the error of its value head before every update."""

    name = "measured_turn_ppo"

    def credit(self, batch: Batch) -> Credit:
        """See `TurnPPO`."""
        return replace(super().credit(batch), metrics=value_metrics(batch, _limit(self), batch.values))


def settings_of(algorithm: type[OnPolicyAlgorithm], given: argparse.Namespace) -> dict[str, Any]:
    """Settings of an algorithm: the same rates and amounts for both; values without discount."""
    shared = {"iterations": given.iterations, "tasks": given.tasks, "group": 1, "epochs": 2, "learning_rate": 1e-3}
    if issubclass(algorithm, VinePPO):
        return {**shared, "k": given.k}
    of_head = {"critic_learning_rate": 0.03, "first_value": -float(given.max_turns), "value_weight": 0.005, "gamma": 1.0}
    return {**shared, **of_head}


def measured(algorithm: type[OnPolicyAlgorithm], seed: int, given: argparse.Namespace) -> list[dict[str, float]]:
    """Train one algorithm from one seed; its columns of each iteration."""
    folder = Path(given.runs) / f"{algorithm.name}_{seed}"
    run_train(
        algorithm=algorithm, output=str(folder), seed=seed, env="LMRL-Maze-v0", env_kwargs=json.dumps({"max_turns": given.max_turns}),
        test_tasks="seeds:1000000-1000009", sft_dialogues=given.sft_dialogues, max_new_tokens=6, threads=1,
        **{f"{algorithm.name}.{name}": value for name, value in settings_of(algorithm, given).items()},
    )  # fmt: skip
    rows = [row for row in read_rows(folder / "metrics.jsonl") if row["stage"] == algorithm.name]
    return [{name: float(row[name]) for name in COLUMNS} for row in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write the file; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=16, help="dialogues per iteration")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 3, 9], help="continuations of a state")
    parser.add_argument("--max_turns", type=int, default=40, help="turns of a dialogue")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sft_dialogues", type=int, default=300)
    parser.add_argument("--runs", default="runs/vine_values", help="folder of the runs")
    parser.add_argument("--output", default="", help="JSON file of the results")
    given = parser.parse_args(arguments)
    results: dict[str, list[list[dict[str, float]]]] = {}
    arms: list[tuple[str, type[OnPolicyAlgorithm], int]] = [(f"vineppo, K = {k}", MeasuredVinePPO, k) for k in given.k]
    arms += [("turn_ppo", MeasuredTurnPPO, 0)]
    folder = given.runs
    for name, algorithm, k in arms:
        given.k, given.runs = k, f"{folder}/{k}"
        results[name] = [measured(algorithm, seed, given) for seed in range(given.seeds)]
        print(f"{name}\n  iteration  {'  '.join(f'{column:>17}' for column in COLUMNS)}")
        for i in range(given.iterations):
            means = [float(np.mean([of_seed[i][column] for of_seed in results[name]])) for column in COLUMNS]
            print(f"  {i + 1:9}  {'  '.join(f'{mean:17.3f}' for mean in means)}")
    if given.output:
        Path(given.output).write_text(
            json.dumps({"max_turns": given.max_turns, "tasks": given.tasks, "arms": results}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
