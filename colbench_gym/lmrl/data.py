"""python -m colbench_gym.lmrl.data ID [--episodes N] [--output FILE] [--policy expert]: play the behaviour policies of a game, which imitate LMRL-Gym's data.

FILE is JSONL, one episode a row, in the trainer's schema (`sweetrl_agent.core.episode`), so that `--demonstrations` and offline algorithms read it.
Episode i has the seed SEED + i, which is also its task id in the trainer. The trainer's test tasks begin at 1,000,000.
The command prints the statistics beside the paper's. With `--policy expert` the game's expert plays.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym

import colbench_gym  # noqa: F401  (registers the games)
from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, write_rows
from colbench_gym.lmrl.game import TextGame
from colbench_gym.progress import Progress
from colbench_gym.scoring.intervals import mean_interval, wilson
from colbench_gym.seeds import derive_seed
from sandboxes.programs import program_name, refuse

SCHEMA = 3
#: Who plays: the paper's data, or the game's expert.
POLICIES = ("behaviour", "expert")
#: Default number of episodes of a game that the paper has no data of.
EPISODES = 1_000


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


#: By the id of the game.
PUBLISHED: Mapping[str, Published] = {
    "LMRL-Maze-v0": Published(1_240, 19.7, 0.11, -19.7),
    "LMRL-TextNav-v0": Published(2_500, 12.2, 0.26, 0.258),
    "LMRL-Wordle-v0": Published(1_000_000, 4.82, 0.70, -4.12),
    "LMRL-Chess-v0": Published(625_000, 46.7, 0.60, 0.21),
    "LMRL-Endgames-v0": Published(97_800, 11.9, 0.59, 0.586),
    "LMRL-TwentyQuestions-v0": Published(100_000, 14.9, 0.31, -17.3),
    "LMRL-GuessCity-v0": Published(100_000, 18.8, 0.53, -18.8),
    "LMRL-CarDealer-v0": Published(19_000, 16.5, 0.53, 0.562, "texts"),
}


def table(env_id: str, played: Sequence[tuple[int, int, float]], policy: str = POLICIES[0]) -> list[str]:
    """Statistics of episodes with 95% intervals and, for behaviour policies of a game of the paper, those of its data in the second row.

    Args:
        env_id: Id of the game.
        played: Turns of the agent, success (0 or 1) and return of every episode.
        policy: Who played.
    """
    paper = PUBLISHED.get(env_id)
    unit = paper.unit if paper else "turns"
    turns, successes, returns = zip(*played, strict=True)
    success = fmean(successes)
    ours = (
        f"{len(played)}",
        _shown([turn * (2 if unit == "texts" else 1) for turn in turns]),
        f"{success:.3f} ({' to '.join(f'{bound:.3f}' for bound in wilson(success, len(played)))})",
        _shown(returns),
    )
    rows = [("", "episodes", unit, "success", "return"), ("ours", *ours)]
    if paper and policy == POLICIES[0]:
        rows.append(("paper's data", f"{paper.size}", f"{paper.turns}", f"{paper.success}", f"{paper.mean_return}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def episodes(
    env_id: str, count: int, seed: int = 0, env_kwargs: Mapping[str, Any] | None = None, policy: str = "behaviour"
) -> Iterator[Row]:
    """Play the behaviour policies of a game, or its expert.

    Args:
        env_id: Such as "LMRL-Maze-v0", or "my_module:Mine-v0" of a user-defined `TextGame`.
        count: Number of episodes.
        seed: Seed of the first; the following ones have the following seeds.
        env_kwargs: Arguments of the environment.
        policy: One of `POLICIES`.

    Yields:
        The row of an episode, as `Episode.to_row` of the trainer writes it, with the agent's texts and rewards, without tokens.

    Raises:
        ValueError: If the id is no `TextGame`, `count` is not positive, `seed` is negative, or `policy` is unknown.
        ColBenchError: If something that the game depends on fails, such as a model that plays the other side.
    """
    check_id(env_id)
    if count < 1 or seed < 0:
        raise ValueError(f"`count` must be positive and `seed` not negative, got {count!r} and {seed!r}.")
    if policy not in POLICIES:
        raise ValueError(f"`policy` must be one of {POLICIES}, got {policy!r}.")
    env = gym.make(env_id, disable_env_checker=True, **(env_kwargs or {}))
    if not isinstance(env.unwrapped, TextGame):
        raise ValueError(
            f"`env_id` must be of a `colbench_gym.lmrl.game.TextGame`, got {env_id!r}, a {type(env.unwrapped).__name__}."
        )
    try:
        for i in range(seed, seed + count):
            yield {"env": env_id, "env_kwargs": dict(env_kwargs or {}), **_episode(env, i, policy)}
    finally:
        env.close()


def check_id(env_id: str) -> None:
    """Refuse an id that no environment has. The module of "my_module:Mine-v0" is imported when the environment is made.

    Raises:
        ValueError: Names the games of LMRL-Gym.
    """
    if ":" not in env_id and env_id not in gym.registry:
        raise ValueError(f"`env_id` must be one of {tuple(PUBLISHED)}, or 'my_module:Mine-v0' of a `TextGame`, got {env_id!r}.")


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


def _shown(values: Sequence[float]) -> str:
    """The mean of values and its interval."""
    low, high = mean_interval(values, is_share=False)
    return f"{fmean(values):.3f} ({low:.3f} to {high:.3f})"


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; an invalid one ends the process."""
    parser = argparse.ArgumentParser(
        prog=program_name("colbench_gym.lmrl.data"),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("env_id", metavar="ID", help="such as LMRL-Maze-v0, or my_module:Mine-v0 for your own game")
    parser.add_argument("--episodes", type=int, help=f"number of episodes (default: the paper's; for your own game {EPISODES})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first episode (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="JSONL file, replaced after the last episode; without it, only the table is printed",
    )
    parser.add_argument("--policy", choices=POLICIES, default=POLICIES[0], help="who plays (default: %(default)s)")
    parser.add_argument(
        "--env_kwargs", default="{}", metavar="JSON", help="arguments of the environment (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    try:
        check_id(given.env_id)
        given.env_kwargs = json.loads(given.env_kwargs)
    except ValueError as error:
        refuse(error)
    if not isinstance(given.env_kwargs, dict):
        refuse(f"`--env_kwargs` must be a JSON object, got {given.env_kwargs!r}.")
    if given.episodes is None:
        given.episodes = PUBLISHED[given.env_id].size if given.env_id in PUBLISHED else EPISODES
    if given.episodes < 1 or given.seed < 0:
        refuse(f"`--episodes` must be positive and `--seed` not negative, got {given.episodes} and {given.seed}.")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 0, or 1 if the game, or something that it depends on, failed."""
    given = _parsed(arguments)
    played: list[tuple[int, int, float]] = []
    progress = Progress(given.episodes, sys.stderr, "played", "episodes")

    def counted() -> Iterator[Row]:
        for row in episodes(given.env_id, given.episodes, given.seed, given.env_kwargs, given.policy):
            played.append((row["metrics"]["turns"], row["metrics"]["success"], row["reward"]))
            progress.show(len(played))
            yield row

    try:
        if given.output:
            write_rows(given.output, counted())
        else:
            deque(counted(), maxlen=0)
    except (ColBenchError, OSError, ImportError, TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{given.env_id}, seeds {given.seed} to {given.seed + given.episodes - 1}")
    print("\n".join(table(given.env_id, played, given.policy)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
