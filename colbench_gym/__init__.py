"""ColBench (arXiv:2503.15478) as Gymnasium text environments. Importing the package registers them."""

import logging

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
