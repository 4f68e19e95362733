"""Your own simulated human and your own tasks: a human who loses patience, on tasks made by a function.

    python examples/own_human.py [--episodes 60]

plays a scripted agent with the scripted human and with humans who answer fewer questions. The agent asks in every turn but the last and then answers.
The script prints how often its function passes all hidden tests. It takes seconds and needs no model. To train with such a human and on such tasks:

    python -m sweetrl_agent.train --simulator '{"name": "examples.own_human:Impatient", "patience": 1}' --output runs/impatient
    python -m sweetrl_agent.train --tasks examples.own_human:shop_tasks --model MODEL ...

A simulated human is a class with `reply`. Each reply is a function of the task, the dialogue and a seed, so that episodes can be repeated and
many environments can share one human.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym

import colbench_gym  # noqa: F401  (registers the environments)
from colbench_gym.dialogue import Dialogue
from colbench_gym.scoring.intervals import wilson
from colbench_gym.simulators import Simulator, make
from colbench_gym.tasks import Fact, HiddenTask, Task
from colbench_gym.wrappers import DiscreteActions, QuestionActions

REQUEST = "Please write the total of an order of my shop. The signature of the function is: def total(prices)"
HAD_ENOUGH = "I have no time for questions. Just write it, please."


class Impatient(Simulator):
    """Answers like the scripted human, but only `patience` messages.

    Args:
        patience: Number of messages that are answered.
    """

    is_deterministic = True  # equal arguments give equal replies: one reply is then tried before a run

    def __init__(self, patience: int = 3) -> None:
        if patience < 0:
            raise ValueError(f"`patience` must be at least 0, got {patience}.")
        self.patience, self.scripted = patience, make("scripted")

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """Answer the agent's last message. The task has the hidden information; a reply should reveal only the part that was asked about."""
        return self.scripted.reply(task, dialogue, seed) if dialogue.num_turns <= self.patience else HAD_ENOUGH


def shop_tasks() -> list[Task]:
    """Your own tasks: a vague request, and hidden from the agent: the human's function, its tests, and the facts that the human can state.

    The function may also return rows of ColBench's files (mappings with problem_description, ground_truth and test_cases). The facts are then
    read from the reference.
    """
    tasks = []
    for limit, digits in product((20, 50, 100), (0, 2)):
        code = f"def total(prices):\n    s = sum(prices)\n    return round(s * 0.9 if s >= {limit} else s, {digits})"
        calls = (f"total([{limit}])", f"total([{limit - 1}, 0.126])", "total([])", f"total([{limit}, 0.333])")
        facts = (
            Fact(
                "discount",
                f"Take 10% off orders from {limit} on.",
                phrases=("Is there a discount on large orders?", "Any reductions?"),
            ),
            Fact(
                "rounding",
                f"Round the total to {digits} digits.",
                phrases=("How should the total be rounded?", "How many digits?"),
            ),
        )
        tasks.append(Task(f"shop/{limit}/{digits}", REQUEST, "def total(prices)", hidden=HiddenTask(code, calls, facts)))
    return tasks


def success(simulator: Any, episodes: int) -> list[int]:
    """Play an agent that asks about the topics in order and answers in its last turn; 1 for each success, 0 for each failure."""
    env = DiscreteActions(gym.make("ColBench-Backend-v0", tasks="embedded:test", simulator=simulator), QuestionActions())
    answer, successes = env.action_space.n - 1, []
    for episode in range(episodes):
        env.reset(seed=episode)
        is_over, turn = False, 0
        while not is_over:
            turns_left = env.unwrapped.turn_limit - turn - 1
            _, _, terminated, truncated, info = env.step(turn if turns_left else answer)
            is_over, turn = terminated or truncated, turn + 1
        successes.append(int(info["metrics"]["success"]))
    env.close()
    return successes


def main(arguments: list[str] | None = None) -> int:
    """Play and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="A scripted agent with patient and impatient humans.")
    parser.add_argument("--episodes", type=int, default=60)
    options = parser.parse_args(arguments)
    here = "examples.own_human:Impatient"
    for simulator in ("scripted", {"name": here, "patience": 3}, {"name": here, "patience": 1}):
        passed = success(simulator, options.episodes)
        low, high = wilson(sum(passed) / len(passed), len(passed))
        print(f"{simulator!s:62} {sum(passed) / len(passed):6.1%} of {len(passed)} ({low:.1%} to {high:.1%})")
    env = gym.make("ColBench-Backend-v0", tasks="examples.own_human:shop_tasks", simulator={"name": here, "patience": 1})
    env.reset(seed=0)
    for question in ("Do large orders get a discount?", "How should the result be rounded?"):
        _, _, _, _, info = env.step(question)
    env.close()
    print("\nOwn tasks:", *(f"{message['role']:9} {message['content']}" for message in info["messages"]), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
