"""Trains collaborative agents: SWEET-RL on TRL, and the field's other algorithms on the same environments.

    from sweetrl_agent import Algorithm, Critic, EnvironmentRecord, OnPolicyAlgorithm, Policy, play, run_compare, run_evaluate, run_train

Names are imported on first access, so that `import sweetrl_agent` does not load torch.
"""

from __future__ import annotations

import sandboxes  # noqa: F401  # first: see `sandboxes.startup`

# isort: split
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweetrl_agent.compare import run_compare
    from sweetrl_agent.core.algorithm import Algorithm
    from sweetrl_agent.core.callback import Callback, StopTraining
    from sweetrl_agent.core.critic import Critic
    from sweetrl_agent.core.environment import EnvironmentRecord
    from sweetrl_agent.core.policy import Policy
    from sweetrl_agent.core.settings import setting
    from sweetrl_agent.evaluate import run_evaluate
    from sweetrl_agent.rollouts.play import play
    from sweetrl_agent.train import run_train
    from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "Algorithm",
    "Callback",
    "Critic",
    "EnvironmentRecord",
    "OnPolicyAlgorithm",
    "Policy",
    "StopTraining",
    "play",
    "run_compare",
    "run_evaluate",
    "run_train",
    "setting",
]
_WHERE = {
    "Algorithm": "core.algorithm", "Callback": "core.callback", "StopTraining": "core.callback", "Critic": "core.critic", "EnvironmentRecord": "core.environment",
    "OnPolicyAlgorithm": "trainers.on_policy", "Policy": "core.policy", "play": "rollouts.play", "run_compare": "compare", "run_evaluate": "evaluate", "run_train": "train", "setting": "core.settings",
}  # fmt: skip


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
