"""The Gymnasium environments."""

from colbench_gym.envs.backend import BackendEnv
from colbench_gym.envs.colbench_env import VOID, ColBenchEnv

__all__ = ["VOID", "BackendEnv", "ColBenchEnv"]
