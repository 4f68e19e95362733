"""Rollouts for TRL's trainers, and trainers of a random tiny model."""

from __future__ import annotations

import gymnasium as gym
import pytest

from sweetrl_agent.bridges.grpo_rollouts import GRPORollouts


class Counting(gym.Env):
    """Says a number of turns, then is over; the reward is the share of agent texts with a vowel."""

    observation_space = action_space = gym.spaces.Text(10_000)

    def __init__(self, fails=False):
        self.fails, self.turn = fails, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn, self.seed = 0, seed
        return f"Round {seed}", {}

    def step(self, action):
        self.turn += 1
        if self.fails and self.seed % 2:
            raise ConnectionError("the server of task is down")
        return "Go on.", float(self.turn == 2 and len(action) % 2), self.turn == 2, False, {}


gym.register("BridgeCounting-v0", Counting)


@pytest.fixture
def make_trainer(tiny_model_folder, tmp_path):
    """Function: rollouts, kind, settings -> a trainer of them on the tiny model; `kind` is a function of the rollouts and arguments of `GRPOTrainer`."""
    from trl import GRPOConfig, GRPOTrainer

    def make(rollouts, kind=GRPOTrainer, eval_dataset=None, **settings):
        given = {
            "output_dir": str(tmp_path / "grpo"), "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 12,
            "max_steps": 2, "learning_rate": 1e-2, "logging_steps": 1, "report_to": "none", "use_cpu": True, "bf16": False,
            "save_strategy": "no", "disable_tqdm": True, "seed": 3,
        }  # fmt: skip
        arguments = {"model": str(tiny_model_folder), "args": GRPOConfig(**{**given, **settings})}
        if kind is not GRPOTrainer:
            return kind(rollouts, **arguments)
        return GRPOTrainer(
            train_dataset=rollouts.dataset(),
            eval_dataset=eval_dataset,
            rollout_func=rollouts,
            reward_funcs=rollouts.episode_reward,
            **arguments,
        )

    return make


@pytest.fixture
def make_rollouts():
    """Function: settings -> rollouts, closed at the end."""
    made = []

    def make(*env, **settings):
        made.append(GRPORollouts(*env, **{"sandbox": "embedded", "num_envs": 8, **settings}))
        return made[-1]

    yield make
    for rollouts in made:
        rollouts.close()
