"""Your own tasks: vague requests for functions, as rows of a file. No code of ColBench-Gym changes.

    python examples/own_tasks.py [--output runs/postage] [settings of `python -m sweetrl_agent.train`]

A row has a vague request, a reference and ten test calls. The scripted human reads the reference and answers questions about it; the tests compare
an answer with it. SFT trains a tiny model on a demonstrator that asks random questions. GRPO then teaches it which questions to ask. The script is the same as

    python -m sweetrl_agent.train --tasks postage.jsonl --test_tasks "" --demonstrations demonstrations.jsonl --algorithm grpo ...
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

REQUEST = "Please write a function for the postage of a parcel.\nThe signature of the function is: def postage(weight, express)"
REFERENCE = """def postage(weight, express):
    price = {base} + {rate} * weight
    if express:
        price = price + {extra}
    return min(price, {most})"""
CALLS = [f"postage({weight}, {express})" for weight in (1, 3, 7, 12, 50) for express in (True, False)]
#: What an agent may ask. The last two questions matter in no task.
QUESTIONS = (
    "What is the price?",
    "What does express cost?",
    "Is there a maximum?",
    "Is anything rounded?",
    "What if the input is empty?",
)


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Tasks in ColBench's format, each with its own prices."""
    rng, tasks = random.Random(seed), []
    for _ in range(count):
        wishes = {"base": rng.randint(2, 9), "rate": rng.randint(2, 5), "extra": rng.randint(3, 9), "most": rng.randint(40, 60)}
        tasks.append({
            "problem_description": REQUEST,
            "ground_truth": REFERENCE.format(**wishes),
            "test_cases": {f"test{number}": call for number, call in enumerate(CALLS, start=1)},
        })  # fmt: skip
    return tasks


def answer(heard: dict[str, str]) -> str:
    """A function from the replies, with guesses for the rest."""
    numbers = {
        question: [word.strip(".") for word in reply.split() if word.strip(".").isdigit()] for question, reply in heard.items()
    }
    base, rate = (numbers.get(QUESTIONS[0]) or ["5", "3"])[:2]
    (extra,) = (numbers.get(QUESTIONS[1]) or ["5"])[-1:]
    (most,) = (numbers.get(QUESTIONS[2]) or ["50"])[-1:]
    return "I WANT TO ANSWER:\n" + REFERENCE.format(base=base, rate=rate, extra=extra, most=most)


def demonstrations(tasks: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Dialogues of an agent that asks three random questions and answers with the numbers in the replies."""
    import colbench_gym  # noqa: F401  (registers the environment)

    rng, dialogues = random.Random(seed), []
    env = gym.make("ColBench-Backend-v0", tasks=tasks, sandbox="embedded")
    for episode in range(count):
        _, info = env.reset(seed=episode)
        heard: dict[str, str] = {}
        for question in rng.sample(QUESTIONS, 3):
            _, _, _, _, info = env.step(question)
            heard[question] = info["messages"][-1]["content"]
        last_message = {"role": "assistant", "content": answer(heard)}  # not graded: demonstrations need no score
        dialogues.append({"messages": [*info["messages"], last_message]})
    env.close()
    return dialogues


def main(arguments: list[str]) -> int:
    """Write the tasks and the demonstrations, and train; returns the exit status."""
    from colbench_gym.files import write_rows
    from sweetrl_agent.train import main as train

    tasks, test_tasks, file = (
        Path("runs/postage.jsonl"),
        Path("runs/postage_test.jsonl"),
        Path("runs/postage_demonstrations.jsonl"),
    )
    write_rows(tasks, rows(400))
    write_rows(test_tasks, rows(100, seed=1))
    write_rows(file, demonstrations(str(tasks), 1_500))
    defaults = {
        "tasks": tasks, "test_tasks": test_tasks, "unseen_tasks": "", "demonstrations": file, "output": "runs/postage", "max_turns": 4,
        "algorithm": "grpo", "sft_dialogues": 1_500, "sft_epochs": 3, "tiny_hidden_size": 128, "tiny_layers": 2, "tiny_vocab_size": 500,
        "temperature": 1.0, "grpo.iterations": 30, "grpo.tasks": 16, "grpo.group": 8, "grpo.learning_rate": 5e-4,
    }  # fmt: skip
    return train(arguments, defaults)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
