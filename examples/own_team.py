"""A team of your own: a scout tells a digger where the treasure is, and GRPO teaches each its own policy.

    python examples/own_team.py [--output runs/team] [settings of `python -m sweetrl_agent.train`]

The scout alone sees the place, and the digger alone digs. In the demonstrations both are wrong four times in ten, so the team finds half of the treasures. A
team of which only one learns stays below two thirds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from sweetrl_agent.algorithms.grpo import GRPO

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
PLACES = ("cave", "tree", "lake", "hill", "barn", "well")


class Treasure(gym.Env[str, str]):
    """The scout says a word, the digger digs; the return is 1 if it is the right place."""

    observation_space = action_space = gym.spaces.Text(max_length=200, min_length=0, charset=CHARACTERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Hide the treasure; `info["agent"]` names who speaks next."""
        super().reset(seed=seed)
        self.place, self.is_told = str(self.np_random.choice(PLACES)), False
        return f"The treasure is in the {self.place}. Tell the digger.", {"agent": "scout"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """The observation is what the agent that speaks next may see: the digger hears the scout's word and nothing else."""
        if not self.is_told:
            self.is_told = True
            return f"The scout says: {action[:20]}. Where do you dig?", 0.0, False, False, {"agent": "digger"}
        return "", float(action.strip() == self.place), True, False, {"agent": "digger"}


if "Treasure-v0" not in gym.registry:  # run as a script, this file is imported again under its module name
    gym.register("Treasure-v0", entry_point=Treasure, disable_env_checker=True)


class TeamGRPO(GRPO):
    """GRPO with a policy for each agent. With one folder for both they would share weights."""

    name, title = "team_grpo", "GRPO, two policies"
    policies = {"scout": "team_grpo/scout", "digger": "team_grpo/digger"}


def demonstrations(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Dialogues in the view of each agent: what it read and what it said."""
    rng, env, rows = random.Random(seed), Treasure(), list[dict[str, Any]]()
    for episode in range(count):
        read, _ = env.reset(seed=10_000_000 + episode)  # not the seeds of the tasks
        meant = env.place
        for _ in ("scout", "digger"):
            meant = meant if rng.random() < 0.6 else rng.choice(PLACES)
            rows.append({"messages": [{"role": "user", "content": read}, {"role": "assistant", "content": meant}]})
            read, *_ = env.step(meant)
    return rows


def main(arguments: list[str], changes: Mapping[str, object] | None = None) -> int:
    """Train, with other defaults where `changes` has some; returns the exit status."""
    from colbench_gym.files import write_rows
    from sweetrl_agent.train import main as train

    write_rows(Path("runs/team.jsonl"), demonstrations(750))
    defaults = {
        "env": "examples.own_team:Treasure-v0", "demonstrations": "runs/team.jsonl", "output": "runs/team", "algorithm": "examples.own_team:TeamGRPO",
        "sft_dialogues": 1_500, "tiny_hidden_size": 64, "tiny_layers": 2, "tiny_vocab_size": 400, "max_new_tokens": 6, "temperature": 1.0,
        "team_grpo.tasks": 16, "team_grpo.group": 8, "team_grpo.learning_rate": 5e-4, "eval_episodes": 2,
    }  # fmt: skip
    return train(arguments, {**defaults, **(changes or {})})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
