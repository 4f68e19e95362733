"""Offline algorithms improve on random behaviour in a corridor whose optimum is known."""

from __future__ import annotations

import json
import random

import gymnasium as gym
import pytest

from colbench_gym.files import write_rows
from sweetrl_agent import compare
from sweetrl_agent.core.episode import Episode, Turn

GOAL, LIMIT = 8, 25
LETTERS = "".join(map(chr, range(32, 127))) + "\n"


class Corridor(gym.Env):
    """Cells 0 to 8 in a row: "left" and "right" move by one, every step but the last costs 1. The best return from cell x is x - 7."""

    def __init__(self):
        self.observation_space = self.action_space = gym.spaces.Text(max_length=100, min_length=0, charset=LETTERS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.steps = int(self.np_random.integers(GOAL)), 0
        return f"cell {self.cell}", {}

    def step(self, action):
        self.steps += 1
        self.cell = max(0, self.cell + {"left": -1, "right": 1}.get(action, 0))
        if self.cell == GOAL:
            return "goal", 0.0, True, False, {}
        return f"cell {self.cell}", -1.0, False, self.steps >= LIMIT, {}


@pytest.fixture
def corridor():
    """Its id while the test runs."""
    gym.register("Corridor-v0", entry_point=Corridor, disable_env_checker=True)
    yield "Corridor-v0"
    del gym.registry["Corridor-v0"]


def _random_episodes(count):
    rng, env = random.Random(0), Corridor()
    for number in range(count):
        observation, _ = env.reset(seed=10_000_000 + number)
        messages, turns, is_over = [{"role": "user", "content": observation}], [], False
        while not is_over:
            action = rng.choice(["left", "right"])
            observation, reward, terminated, truncated, _ = env.step(action)
            is_over = terminated or truncated
            turns.append(Turn(action, reward=reward))
            messages += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]
        metrics = {"outcome": "right" if terminated else "wrong", "success": terminated, "turns": len(turns)}
        yield Episode(str(number), 0, messages[:-1], turns, metrics, sum(turn.reward for turn in turns))


def test_mc_and_ilql_walk_to_the_goal_that_random_behaviour_wanders_to(corridor, tmp_path):
    file = tmp_path / "data.jsonl"
    write_rows(file, [episode.to_row() for episode in _random_episodes(400)])
    given = {
        "env": corridor, "demonstrations": file, "sft_dialogues": 400, "sft_epochs": 3, "tiny_hidden_size": 64, "tiny_layers": 2,
        "tiny_vocab_size": 320, "max_new_tokens": 6, "temperature": 1.0, "history": 0, "test_tasks": "seeds:1000000-1000059", "threads": 1, "seeds": 1,
        "mc.batch": 16, "mc.epochs": 5, "mc.cql": 1.0, "mc.beta": 4,
        "ilql.batch": 16, "ilql.epochs": 12, "ilql.polyak": 0.2, "ilql.tau": 0.9, "ilql.cql": 0.1, "ilql.beta": 16,
        "output": tmp_path / "run",
    }  # fmt: skip
    words = [f"--{name}={value}" for name, value in given.items()]
    assert compare.main([*words, "--algorithms", "bc", "mc", "ilql"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())["algorithms"]
    found = {name: of["test"]["return"] for name, of in results.items()}
    assert found["bc"] < -12 and found["mc"] > -6 and found["ilql"] > -6, found
