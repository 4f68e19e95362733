"""Your own critic: it ranks the turns for SWEET-RL's actor, and everything else stays the same.

    python examples/own_critic.py [--output runs/own_critic] [settings of `python -m sweetrl_agent.train`]

is the same as

    python -m sweetrl_agent.train --critic '{"name": "examples.own_critic:ReadsTheCode", "answer": 0.5}' ...

and `compare --algorithms sweet examples.own_critic:ReadsTheCode` compares it with SWEET-RL's. This critic has no weights. It reads the hidden
reference and prefers the question that mentions most of its words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sweetrl_agent import Critic

WORD = re.compile(r"[a-z]{3,}")
#: The start of an answer, in ColBench's words.
ANSWER = "I WANT TO ANSWER"


class ReadsTheCode(Critic):
    """Scores a question by the share of its words that occur in the hidden reference, and an answer by a constant.

    A trained critic also has `train(run, folder)`, which reads `run.path("outcome_pairs.jsonl")` and writes `folder`, and
    `load(run, folder)`, which reads the folder.

    Args:
        answer: Score of an answer.
    """

    title = "words of the reference"

    def __init__(self, answer: float = 0.3) -> None:
        self.answer = answer

    def rank(self, messages: Sequence[dict[str, str]], hidden: str, texts: Sequence[str]) -> list[float]:
        """Scores of candidates for the agent's next turn; higher is better."""
        known = set(WORD.findall(hidden.lower()))
        return [self.answer if ANSWER in text else self._share(text, known) for text in texts]

    def _share(self, text: str, known: set[str]) -> float:
        words = WORD.findall(text.lower())
        return sum(word in known for word in words) / max(len(words), 1)


def main(arguments: list[str]) -> int:
    """Train; returns the exit status."""
    from sweetrl_agent.train import main as train

    defaults = {
        "config": "quick",
        "critic": {"name": "examples.own_critic:ReadsTheCode", "answer": 0.5},
        "output": "runs/own_critic",
    }
    return train(arguments, defaults)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
