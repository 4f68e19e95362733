"""Data sets of the games: episodes of their behaviour policies, or of their experts, as rows that the trainer reads.

    python -m colbench_gym.lmrl.data LMRL-Maze-v0 --episodes 1240 --output maze.jsonl [--policy expert] [--env_kwargs JSON]

writes a JSON row per episode, in the trainer's own schema of episodes: `--demonstrations maze.jsonl` then trains on them. It prints the statistics that
the paper reports of its data.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import colbench_gym  # noqa: F401  (registers the games)
from colbench_gym.files import write_rows
from colbench_gym.lmrl.game import TextGame
from colbench_gym.scoring.intervals import mean_interval
from colbench_gym.seeds import derive_seed

#: Version of the trainer's rows (`sweetrl_agent.core.episode.SCHEMA`).
SCHEMA = 3
#: The paper's data sets: size, mean turns, success, mean return. Source: arXiv:2311.18232, tables of data.
PAPER: Mapping[str, tuple[int, float, float, float]] = {
    "LMRL-Maze-v0": (1_240, 19.7, 0.11, -19.7),
    "LMRL-TextNav-v0": (2_500, 12.2, 0.26, 0.258),
    "LMRL-Wordle-v0": (1_000_000, 4.82, 0.70, -4.12),
    "LMRL-Chess-v0": (625_000, 46.7, 0.60, 0.21),
    "LMRL-Endgames-v0": (97_800, 11.9, 0.59, 0.586),
    "LMRL-TwentyQuestions-v0": (100_000, 14.9, 0.31, -17.3),
    "LMRL-GuessCity-v0": (100_000, 18.8, 0.53, -18.8),
    "LMRL-CarDealer-v0": (19_000, 16.5, 0.53, 0.562),
}
POLICIES = ("behaviour", "expert")


def episodes(
    env: str, count: int, seed: int = 0, arguments: Mapping[str, Any] | None = None, policy: str = "behaviour"
) -> Iterator[dict[str, Any]]:
    """Play episodes of a game.

    Args:
        env: Id of the game.
        count: Number of episodes.
        seed: Seed of the data set. Episode i is the same in data sets of every size.
        arguments: Keyword arguments of the environment.
        policy: One of `POLICIES`.

    Yields:
        One row per episode, as `sweetrl_agent.core.episode.Episode.to_row` makes them, without token ids.
    """
    if policy not in POLICIES:
        raise ValueError(f"`policy` must be one of {POLICIES}, got {policy!r}.")
    made = gym.make(env, **(arguments or {}))
    game: TextGame = made.unwrapped  # type: ignore[assignment]
    for index in range(count):
        start = derive_seed(seed, "lmrl data", index)
        observation, _ = game.reset(seed=start)
        act = game.expert_action if policy == "expert" else game.behaviour(random.Random(derive_seed(start, "behaviour")))
        yield _episode(game, observation, act, str(start))
    made.close()


def _episode(game: TextGame, observation: str, act: Any, task_id: str) -> dict[str, Any]:
    hidden = str(getattr(game, "hidden_information", ""))
    messages, turns, is_over, info = [{"role": "user", "content": observation}], list[dict[str, Any]](), False, dict[str, Any]()
    while not is_over:
        action = act().strip()
        observation, reward, terminated, truncated, info = game.step(action)
        turns.append({"text": action, "token_ids": [], "log_probs": [], "reward": reward})
        messages += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]
        is_over = terminated or truncated
    return {
        "schema": SCHEMA,
        "task_id": task_id,
        "episode": 0,
        "task": {},
        "hidden_information": hidden,
        "dialogue_history": messages[:-1],
        "answer": messages[-2]["content"],
        "reward": info["metrics"]["return"],
        "metrics": {**info["metrics"], "answered": int(info["metrics"]["outcome"] == "ended")},
        "turns": turns,
    }


def statistics(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float, float]]:
    """Mean turns, success and return of episodes, each with its 95% interval (bootstrap): (mean, low, high)."""
    found = {}
    for name in ("turns", "success", "return"):
        values = [float(row["metrics"][name]) for row in rows]
        found[name] = (sum(values) / len(values), *mean_interval(values))
    return found


def as_lines(env: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The statistics as a table, beside the paper's."""
    size, *paper = PAPER[env]
    lines = [f"{'':10}{'here':>28}{'paper':>12}", f"{'episodes':10}{len(rows):>28,}{size:>12,}"]
    for (name, (mean, low, high)), theirs in zip(statistics(rows).items(), paper, strict=True):
        lines.append(f"{name:10}{f'{mean:.3g} ({low:.3g} to {high:.3g})':>28}{theirs:>12g}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a data set; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=tuple(PAPER), metavar="env", help="id of the game")
    parser.add_argument("--episodes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", choices=POLICIES, default="behaviour")
    parser.add_argument("--env_kwargs", type=json.loads, default={}, help="JSON of keyword arguments of the environment")
    parser.add_argument("--output", type=Path, help="file of rows; without it, only the statistics are printed")
    given = parser.parse_args(arguments)
    rows = list(episodes(given.env, given.episodes, given.seed, given.env_kwargs, given.policy))
    if given.output:
        write_rows(given.output, rows)
    print("\n".join(as_lines(given.env, rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
