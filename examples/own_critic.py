"""Your own critic: SWEET-RL's actor is trained on the turns that it prefers, everything else stays the same.

    python examples/own_critic.py [--output runs/own_critic] [settings of `python -m sweetrl_agent.train`]

is the same as

    python -m sweetrl_agent.train --critic '{"name": "examples.own_critic:ReadsTheCode", "answer": 0.5}' ...

and `compare --algorithms sweet examples.own_critic:ReadsTheCode` sets it beside SWEET-RL's. This critic has no weights: it reads the hidden
reference and prefers the question that mentions most of its words, which nobody could do who does not see it.
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

    A critic that learns has `train(run, folder)`, too, which reads `run.path("outcome_pairs.jsonl")` and writes `folder`, and
    `load(run, folder)`, which reads it again.

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
    from sweetrl_agent.config.command_line import with_defaults
    from sweetrl_agent.train import main as train

    defaults = {
        "config": "quick",
        "critic": {"name": "examples.own_critic:ReadsTheCode", "answer": 0.5},
        "output": "runs/own_critic",
    }
    return train(with_defaults(defaults, arguments))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
