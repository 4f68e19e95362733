"""The records of environments, by id; a record is imported when it is asked for."""

from __future__ import annotations

from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.named import load_named

RECORDS = {
    "ColBench-Backend-v0": "sweetrl_agent.envs.colbench_backend:BackendRecord",
    "ColBench-Frontend-v0": "sweetrl_agent.envs.colbench_frontend:FrontendRecord",
}


def find_record(env: str, named: str = "") -> EnvironmentRecord:
    """The record of an environment.

    Args:
        env: Its id.
        named: "package.module:NAME" of a record, an instance or a class; "" for the one of the id, or for what holds of any text environment.

    Raises:
        ValueError: If there is none of that name.
    """
    name = named or RECORDS.get(env, "")
    found = load_named("env_record", name) if name else EnvironmentRecord
    record = found() if isinstance(found, type) else found
    if not isinstance(record, EnvironmentRecord):
        raise ValueError(
            f"`env_record` must name an `EnvironmentRecord` of `sweetrl_agent`, got {name!r}, a {type(record).__name__}."
        )
    return record
