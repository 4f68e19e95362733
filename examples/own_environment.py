"""Your own environment: the agent guesses a number in a dialogue, and GRPO teaches it to halve the range.

    python examples/own_environment.py [--output runs/guess] [settings of `python -m sweetrl_agent.train`]

writes demonstrations of a mediocre guesser to a file, trains a tiny model on them by SFT, and improves it with GRPO. The script is the same as

    python -m sweetrl_agent.train --env examples.own_environment:Guess-v0 --demonstrations runs/guess.jsonl --algorithm grpo ...

Any environment with text observations and text actions works this way. `hidden_information` is for critics: `--algorithm sweet`
requires it.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"


class Guess(gym.Env[str, str]):
    """Guess a number from 1 to `most` in `turns` turns; the return is 1 for the right guess.

    Args:
        most: The largest number.
        turns: Number of guesses.
    """

    def __init__(self, most: int = 15, turns: int = 4) -> None:
        self.observation_space = self.action_space = gym.spaces.Text(max_length=200, min_length=0, charset=CHARACTERS)
        self.most, self.turns = most, turns

    @property
    def hidden_information(self) -> str:
        """The number: critics may see it in training, the agent never does."""
        return f"The number is {self._number}."

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Think of a number."""
        super().reset(seed=seed)
        self._number, self._turn = int(self.np_random.integers(1, self.most + 1)), 0
        return f"Guess my number from 1 to {self.most}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Compare a guess."""
        self._turn += 1
        number = re.search(r"\d{1,3}", action)
        if number and int(number[0]) == self._number:
            return "Right!", 1.0, True, False, {}
        reply = "A number, please." if not number else "Higher." if int(number[0]) < self._number else "Lower."
        return reply, 0.0, False, self._turn >= self.turns, {}


if "Guess-v0" not in gym.registry:  # run as a script, this file is imported again under its module name
    gym.register("Guess-v0", entry_point=Guess, disable_env_checker=True)


def demonstrations(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Dialogues of a guesser that stays within the known range but does not halve it."""
    rng, env = random.Random(seed), Guess()
    rows = []
    for episode in range(count):
        observation, _ = env.reset(seed=10_000_000 + episode)  # not the seeds of the tasks
        messages, low, high, is_over = [{"role": "user", "content": observation}], 1, env.most, False
        while not is_over:
            guess = rng.randint(low, high)
            reply, _, terminated, truncated, _ = env.step(f"Is it {guess}?")
            low, high = (guess + 1, high) if reply == "Higher." else (low, guess - 1)
            is_over = terminated or truncated
            messages += [{"role": "assistant", "content": f"Is it {guess}?"}, {"role": "user", "content": reply}]
        rows.append({"messages": messages[:-1]})
    return rows


def main(arguments: list[str], changes: Mapping[str, object] | None = None) -> int:
    """Train, with other defaults where `changes` has some; returns the exit status."""
    from colbench_gym.files import write_rows
    from sweetrl_agent.train import main as train

    file = Path("runs/guess.jsonl")
    write_rows(file, demonstrations(1_500))
    defaults = {
        "env": "examples.own_environment:Guess-v0", "demonstrations": file, "output": "runs/guess", "algorithm": "grpo",
        "sft_dialogues": 1_500, "sft_epochs": 4, "tiny_hidden_size": 96, "tiny_layers": 2, "tiny_vocab_size": 400, "max_new_tokens": 12,
        "temperature": 1.0, "grpo.iterations": 60, "grpo.tasks": 16, "grpo.group": 8, "grpo.learning_rate": 5e-4, "eval_episodes": 2,
    }  # fmt: skip
    return train(arguments, {**defaults, **(changes or {})})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
