"""Playing a dialogue needs gymnasium, numpy and markdown-it-py, and loads nothing heavier."""

from __future__ import annotations

import os
import subprocess
import sys

HEAVY = ("torch", "transformers", "datasets", "scipy", "openai", "huggingface_hub", "docker", "PIL", "pandas")
PLAY = """
import sys
import colbench_gym
assert "colbench_gym.tasks" not in sys.modules, "importing registers, and does nothing else"
import gymnasium as gym
env = gym.make("ColBench-Backend-v0", tasks="embedded:test")
env.reset(seed=0)
env.step("How should the result be rounded?")
info = env.step("I WANT TO ANSWER: def f(): pass")[4]
assert info["metrics"]["outcome"].startswith("exception:"), info
env.close()
import colbench_gym.evaluate, colbench_gym.grade, colbench_gym.play, colbench_gym.wrappers, colbench_gym.envs.vector
print([name for name in HEAVY if name in sys.modules])
"""


def test_nothing_heavy_is_imported():
    code = PLAY.replace("HEAVY", repr(HEAVY))
    environment = {**os.environ, "DOCKER_HOST": "unix:///nobody"}  # with a daemon "auto" would take it, and need its SDK
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
