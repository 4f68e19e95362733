"""ColBench (arXiv:2503.15478) and LMRL-Gym (arXiv:2311.18232) as Gymnasium text environments. Importing the package registers them."""

from __future__ import annotations

import sandboxes  # noqa: F401  # first: see `sandboxes.startup`

# isort: split
import logging
import sys
from importlib import import_module
from typing import Any

from gymnasium.envs.registration import register

logging.getLogger(__name__).addHandler(logging.NullHandler())

register(
    id="ColBench-Backend-v0",
    entry_point="colbench_gym.envs.backend:BackendEnv",
    vector_entry_point="colbench_gym.envs.vector:ColBenchVectorEnv",
)
register(
    id="ColBench-Frontend-v0",
    entry_point="colbench_gym.envs.frontend:FrontendEnv",
    vector_entry_point="colbench_gym.envs.frontend:FrontendVectorEnv",
)
register(id="ColBench-AnyTeam-v0", entry_point="colbench_gym.envs.any_team:AnyTeamEnv", disable_env_checker=True)
for _name in ("Team", "Split"):
    _where = f"colbench_gym.envs.{_name.lower()}:{_name}"
    register(id=f"ColBench-{_name}-v0", entry_point=f"{_where}Env", vector_entry_point=f"{_where}VectorEnv")

#: Games of LMRL-Gym by the name in their id "LMRL-NAME-v0", and where they are.
LMRL_GAMES = {
    "Maze": "maze.maze:make",
    "TextNav": "text_nav.text_nav:make",
    "Wordle": "wordle.wordle:Wordle",
    "Chess": "chess.chess_game:Chess",
    "Endgames": "chess.chess_game:Endgames",
    "TwentyQuestions": "guessing.twenty_questions:TwentyQuestions",
    "GuessCity": "guessing.guess_city:GuessCity",
    "CarDealer": "car_dealer.car_dealer:CarDealer",
}
for _name, _where in LMRL_GAMES.items():
    register(id=f"LMRL-{_name}-v0", entry_point=f"colbench_gym.lmrl.{_where}")

_OF_VERIFIERS = ["ColBenchHarness", "ColBenchTaskset", "ColBenchVerifiersEnv"]


def __getattr__(name: str) -> Any:
    """Where verifiers is loaded, also its taskset, harness and environment: it takes them from the module that an id names, by `__all__`."""
    if name == "__all__" and "verifiers" in sys.modules:
        return _OF_VERIFIERS
    if name in _OF_VERIFIERS:
        return getattr(import_module("colbench_gym.bridges.verifiers_taskset"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
