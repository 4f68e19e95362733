"""python -m colbench_gym.lmrl.data ID [--episodes N] [--output FILE] [--policy expert]: play the behaviour policies of a game, as LMRL-Gym made its data.

FILE is JSONL, one episode a row, in the trainer's schema (`sweetrl_agent.core.episode`), so that `--demonstrations` and offline algorithms read it.
Episode i has the seed SEED + i, which is the task id that the trainer gives to it; the trainer's own test tasks begin at 1,000,000.
The statistics are printed beside those of the paper. With `--policy expert` the game's expert plays.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

import colbench_gym
from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, write_rows
from colbench_gym.progress import Progress
from colbench_gym.scoring.intervals import Interval, wilson
from colbench_gym.seeds import derive_seed
from sandboxes.programs import CommandParser, program_name, refuse

SCHEMA = 3
#: Who plays: the paper's data, or the game's expert.
POLICIES = ("behaviour", "expert")
_Z = 1.959963984540054  # 97.5% quantile of the normal distribution


@dataclass(frozen=True)
class Published:
    """Statistics of a data set as published. Source: LMRL-Gym, arXiv:2311.18232, table of data sets.

    Attributes:
        size: Number of episodes.
        turns: Mean length.
        success: Share of successes.
        mean_return: Mean return.
        unit: What `turns` counts; "texts" are those of both sides, twice the agent's turns.
    """

    size: int
    turns: float
    success: float
    mean_return: float
    unit: str = "turns"


#: By the name in the id.
PUBLISHED: Mapping[str, Published] = {
    "Maze": Published(1_240, 19.7, 0.11, -19.7),
    "TextNav": Published(2_500, 12.2, 0.26, 0.258),
    "Wordle": Published(1_000_000, 4.82, 0.70, -4.12),
    "Chess": Published(625_000, 46.7, 0.60, 0.21),
    "Endgames": Published(97_800, 11.9, 0.59, 0.586),
    "TwentyQuestions": Published(100_000, 14.9, 0.31, -17.3),
    "GuessCity": Published(100_000, 18.8, 0.53, -18.8),
    "CarDealer": Published(19_000, 16.5, 0.53, 0.562, "texts"),
}


@dataclass
class Statistics:
    """Statistics of episodes, with 95% intervals.

    Attributes:
        turns: Turns of the agent, by episode.
        successes: 0 or 1, by episode.
        returns: Returns, by episode.
    """

    turns: list[float] = field(default_factory=list)
    successes: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Count an episode."""
        self.turns.append(row["metrics"]["turns"])
        self.successes.append(row["metrics"]["success"])
        self.returns.append(row["reward"])

    def lines(self, name: str, policy: str = POLICIES[0]) -> list[str]:
        """A table of these statistics and, for behaviour policies, those of the paper's data in its second row.

        Args:
            name: The name in the game's id.
            policy: Who played.
        """
        paper, size = PUBLISHED[name], len(self.turns)
        scale = 2 if paper.unit == "texts" else 1
        success = sum(self.successes) / size
        ours = (
            f"{size}",
            _shown(*mean_and_interval([scale * turns for turns in self.turns])),
            _shown(success, wilson(success, size)),
            _shown(*mean_and_interval(self.returns)),
        )
        theirs = (f"{paper.size}", f"{paper.turns}", f"{paper.success}", f"{paper.mean_return}")
        rows = [("ours", *ours), *([("paper's data", *theirs)] if policy == POLICIES[0] else [])]
        table = (("", "episodes", paper.unit, "success", "return"), *rows)
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def mean_and_interval(values: Sequence[float]) -> tuple[float, Interval]:
    """The mean of independent values, and its 95% interval by the normal approximation; a single value has an infinite one."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, (-math.inf, math.inf)
    half = _Z * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
    return mean, (mean - half, mean + half)


def episodes(
    env_id: str, count: int, seed: int = 0, env_kwargs: Mapping[str, Any] | None = None, policy: str = "behaviour"
) -> Iterator[Row]:
    """Play the behaviour policies of a game, or its expert.

    Args:
        env_id: Such as "LMRL-Maze-v0".
        count: Number of episodes.
        seed: Seed of the first; the following ones have the following seeds.
        env_kwargs: Arguments of the environment.
        policy: One of `POLICIES`.

    Yields:
        The row of an episode, as `Episode.to_row` of the trainer writes it, with the agent's texts and rewards, without tokens.

    Raises:
        ValueError: If the id is no game of LMRL-Gym, `count` is not positive, `seed` is negative, or `policy` is unknown.
        ColBenchError: If something that the game depends on fails, such as a model that plays the other side.
    """
    name_of(env_id)
    if count < 1 or seed < 0:
        raise ValueError(f"`count` must be positive and `seed` not negative, got {count!r} and {seed!r}.")
    if policy not in POLICIES:
        raise ValueError(f"`policy` must be one of {POLICIES}, got {policy!r}.")
    env = gym.make(env_id, disable_env_checker=True, **(env_kwargs or {}))
    try:
        for i in range(seed, seed + count):
            yield {"env": env_id, "env_kwargs": dict(env_kwargs or {}), **_episode(env, i, policy)}
    finally:
        env.close()


def name_of(env_id: str) -> str:
    """The name in the id of a game.

    Raises:
        ValueError: If it is the id of no game of LMRL-Gym.
    """
    names = {f"LMRL-{name}-v0": name for name in colbench_gym.LMRL_GAMES}
    if env_id not in names:
        raise ValueError(f"`env_id` must be one of {tuple(names)}, got {env_id!r}.")
    return names[env_id]


def _episode(env: gym.Env[str, str], seed: int, policy: str) -> Row:
    """Play an episode. Its policy is drawn by the seed too, but independently of the game. White space around messages is left out if the game allows it."""
    game: Any = env.unwrapped
    observation, _ = env.reset(seed=seed)
    rng = random.Random(derive_seed("lmrl behaviour", seed))
    act = game.expert_action if policy == "expert" else game.behaviour(rng)
    messages: list[dict[str, str]] = []
    hidden: list[str] = []
    turns: list[dict[str, Any]] = []
    terminated = truncated = False
    while not (terminated or truncated):
        action = act() if game.faithful else act().strip()
        hidden.append(str(getattr(game, "hidden_information", "")))
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": action}]
        observation, reward, terminated, truncated, info = env.step(action)
        turns.append({"text": action, "token_ids": [], "log_probs": [], "reward": float(reward)})
    return {
        "schema": SCHEMA,
        "task_id": str(seed),
        "episode": 0,
        "task": {},
        "hidden_information": hidden[0] if len({*hidden}) == 1 else hidden,  # a text a turn, if it is redrawn
        "dialogue_history": messages,
        "answer": messages[-1]["content"],
        "reward": sum((turn["reward"] for turn in turns), 0.0),
        "metrics": {**info["metrics"], "answered": int(terminated)},
        "turns": turns,
    }


def _shown(value: float, interval: Interval) -> str:
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; an invalid one ends the process."""
    parser = CommandParser(
        prog=program_name("colbench_gym.lmrl.data"),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("env_id", metavar="ID", help="such as LMRL-Maze-v0")
    parser.add_argument("--episodes", type=int, help="number of episodes (default: the paper's)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first episode (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="JSONL file, which is replaced when all is played; without it, only the table is printed",
    )
    parser.add_argument("--policy", choices=POLICIES, default=POLICIES[0], help="who plays (default: %(default)s)")
    parser.add_argument(
        "--env_kwargs", default="{}", metavar="JSON", help="arguments of the environment (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    try:
        given.name = name_of(given.env_id)
        given.env_kwargs = json.loads(given.env_kwargs)
    except ValueError as error:
        refuse(error)
    if not isinstance(given.env_kwargs, dict):
        refuse(f"`--env_kwargs` must be a JSON object, got {given.env_kwargs!r}.")
    given.episodes = PUBLISHED[given.name].size if given.episodes is None else given.episodes
    if given.episodes < 1 or given.seed < 0:
        refuse(f"`--episodes` must be positive and `--seed` not negative, got {given.episodes} and {given.seed}.")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 0, or 1 if the game, or something that it depends on, failed."""
    given = _parsed(arguments)
    statistics, progress = Statistics(), Progress(given.episodes, sys.stderr, "played", "episodes")

    def counted() -> Iterator[Row]:
        for row in episodes(given.env_id, given.episodes, given.seed, given.env_kwargs, given.policy):
            statistics.add(row)
            progress.show(len(statistics.turns))
            yield row

    try:
        if given.output:
            write_rows(given.output, counted())
        else:
            deque(counted(), maxlen=0)
    except (ColBenchError, OSError, ImportError, TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        "\n".join(
            [
                f"{given.env_id}, seeds {given.seed} to {given.seed + given.episodes - 1}",
                *statistics.lines(given.name, given.policy),
            ]
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
