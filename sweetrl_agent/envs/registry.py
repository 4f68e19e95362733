"""Registry of environment records, by environment id.

To add a game to this repository: a folder in `colbench_gym/lmrl`, a line in `colbench_gym.LMRL_GAMES`, a record in `envs/lmrl.py`, a line here. A user's own
environment is named on the command line and needs none of these (docs/own/environment.md, docs/own/game.md).
"""

from __future__ import annotations

import gymnasium as gym

from sandboxes.named import load_named
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.registry import Registry
from sweetrl_agent.envs import lmrl
from sweetrl_agent.envs.colbench_backend import BackendRecord
from sweetrl_agent.envs.colbench_frontend import FrontendRecord
from sweetrl_agent.envs.colbench_team import SplitRecord, TeamRecord

RECORDS: Registry[type[EnvironmentRecord]] = Registry(
    "env",
    {
        "ColBench-Backend-v0": BackendRecord,
        "ColBench-Frontend-v0": FrontendRecord,
        "ColBench-Team-v0": TeamRecord,
        "ColBench-Split-v0": SplitRecord,
        "LMRL-Maze-v0": lmrl.MazeRecord,
        "LMRL-Wordle-v0": lmrl.WordleRecord,
        "LMRL-TextNav-v0": lmrl.GameRecord,
        "LMRL-Chess-v0": lmrl.ChessRecord,
        "LMRL-Endgames-v0": lmrl.EndgamesRecord,
        "LMRL-TwentyQuestions-v0": lmrl.GuessingRecord,
        "LMRL-GuessCity-v0": lmrl.GuessingRecord,
        "LMRL-CarDealer-v0": lmrl.CarDealerRecord,
    },
    "or 'package.module:NAME-v0' of an environment of your own",
)


def check_env(env: str, record_name: str = "") -> None:
    """Refuse an id that no environment has. An id with a module, "my_package.envs:Mine-v0", is checked when the environment is made.

    Raises:
        ValueError: Names the ids with a record, and the nearest id.
    """
    if not (record_name or ":" in env or env in gym.registry):
        RECORDS.find(env)


def find_record(env: str, record_name: str = "") -> EnvironmentRecord:
    """Find the record of an environment.

    Args:
        env: Id of the environment.
        record_name: "package.module:NAME" of a record (instance or class); "" for the id's record, or the base record if it has none.

    Raises:
        ValueError: If `record_name` names no record.
    """
    record_or_class = load_named("env_record", record_name) if record_name else RECORDS.get(env, EnvironmentRecord)
    record = record_or_class() if isinstance(record_or_class, type) else record_or_class
    if not isinstance(record, EnvironmentRecord):
        raise ValueError(
            f"`env_record` must name an `EnvironmentRecord` of `sweetrl_agent`, got {record_name!r}, a {type(record).__name__}."
        )
    return record
