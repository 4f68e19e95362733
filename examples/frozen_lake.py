"""An existing environment: Gymnasium's FrozenLake with text observations and actions, by a wrapper of twenty lines.

    python examples/frozen_lake.py [--output runs/lake] [settings of `python -m sweetrl_agent.train`]

SFT trains a tiny model on walks that go right and down more often than not; GRPO then teaches it the way around the holes.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

ACTIONS = ("left", "down", "right", "up")
CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"


class InWords(gym.Wrapper[str, str, Any, Any]):
    """FrozenLake's squares and moves as texts."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = self.action_space = gym.spaces.Text(max_length=200, min_length=0, charset=CHARACTERS)

    def reset(self, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """Start on the first square."""
        square, info = self.env.reset(**arguments)
        return self._words(square), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Move in the direction named in the text; left if it names none."""
        move = next((i for i, word in enumerate(ACTIONS) if word in action.lower()), 0)
        square, reward, terminated, truncated, info = self.env.step(move)
        return self._words(square), reward, terminated, truncated, info

    @staticmethod
    def _words(square: Any) -> str:
        return f"You are in row {square // 4 + 1}, column {square % 4 + 1}. Where do you go?"


def make() -> gym.Env[str, str]:
    """The lake without slipping, for at most twenty moves."""
    return InWords(gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20))


if "FrozenLakeInWords-v0" not in gym.registry:  # run as a script, this file is imported again under its module name
    gym.register("FrozenLakeInWords-v0", entry_point=make, disable_env_checker=True)


def demonstrations(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random walks that prefer right and down to left and up."""
    rng, env = random.Random(seed), make()
    rows = []
    for _ in range(count):
        observation, _ = env.reset(seed=rng.randrange(2**31))
        messages, is_over = [{"role": "user", "content": observation}], False
        while not is_over:
            action = f"I go {rng.choices(ACTIONS, (1, 3, 3, 1))[0]}."
            observation, _, terminated, truncated, _ = env.step(action)
            is_over = terminated or truncated
            messages += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]
        rows.append({"messages": messages[:-1]})
    return rows


def main(arguments: list[str]) -> int:
    """Train; returns the exit status."""
    from colbench_gym.files import write_rows
    from sweetrl_agent.train import main as train

    file = Path("runs/lake.jsonl")
    write_rows(file, demonstrations(400))
    defaults = {
        "env": "examples.frozen_lake:FrozenLakeInWords-v0", "demonstrations": file, "output": "runs/lake", "algorithm": "grpo",
        "sft_dialogues": 400, "sft_epochs": 4, "tiny_hidden_size": 64, "tiny_layers": 1, "tiny_vocab_size": 300, "max_new_tokens": 12,
        "temperature": 1.0, "grpo.iterations": 60, "grpo.tasks": 1, "grpo.group": 64, "grpo.learning_rate": 1e-3, "eval_tasks": 50,
    }  # fmt: skip
    return train(arguments, defaults)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
