"""Registry of environment records, by environment id; a record is imported on use."""

from __future__ import annotations

import gymnasium as gym

from sandboxes.named import load_named, unknown
from sweetrl_agent.core.environment import EnvironmentRecord

RECORDS = {
    "ColBench-Backend-v0": "sweetrl_agent.envs.colbench_backend:BackendRecord",
    "ColBench-Frontend-v0": "sweetrl_agent.envs.colbench_frontend:FrontendRecord",
    "LMRL-Maze-v0": "sweetrl_agent.envs.lmrl:MazeRecord",
    "LMRL-Wordle-v0": "sweetrl_agent.envs.lmrl:WordleRecord",
    "LMRL-TextNav-v0": "sweetrl_agent.envs.lmrl:GameRecord",
    "LMRL-Chess-v0": "sweetrl_agent.envs.lmrl:ChessRecord",
    "LMRL-Endgames-v0": "sweetrl_agent.envs.lmrl:EndgamesRecord",
    "LMRL-TwentyQuestions-v0": "sweetrl_agent.envs.lmrl:GuessingRecord",
    "LMRL-GuessCity-v0": "sweetrl_agent.envs.lmrl:GuessingRecord",
    "LMRL-CarDealer-v0": "sweetrl_agent.envs.lmrl:CarDealerRecord",
}


def check_env(env: str, named: str = "") -> None:
    """Refuse an id that no environment has. An id with a module, "my_package.envs:Mine-v0", is checked when the environment is made.

    Raises:
        ValueError: Names the ids with a record, and the nearest id.
    """
    if named or ":" in env or env in RECORDS or env in gym.registry:
        return
    raise unknown("env", env, RECORDS, "or 'package.module:NAME-v0' of an environment of your own")


def find_record(env: str, named: str = "") -> EnvironmentRecord:
    """Find the record of an environment.

    Args:
        env: Id of the environment.
        named: "package.module:NAME" of a record (instance or class); "" for the id's record, or the base record if it has none.

    Raises:
        ValueError: If `named` names no record.
    """
    name = named or RECORDS.get(env, "")
    found = load_named("env_record", name) if name else EnvironmentRecord
    record = found() if isinstance(found, type) else found
    if not isinstance(record, EnvironmentRecord):
        raise ValueError(
            f"`env_record` must name an `EnvironmentRecord` of `sweetrl_agent`, got {name!r}, a {type(record).__name__}."
        )
    return record
