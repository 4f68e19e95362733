"""The benchmark's markers: what of an agent's message is thought, utterance and answer. The only place that knows them.

Rules (ours; where the released environment differs is said):
    * ``OUTPUT:`` ends the agent's private thought: everything up to its first appearance is dropped and never reaches the
      human. So does the released code.
    * ``I WANT TO ANSWER:`` starts the final answer: everything after its first appearance is the answer. The released code
      drops what follows a second marker; we keep it, for it is part of the program.
    * The answer's program is its first fenced block (any language tag, any case), or, without a fence, the whole text. The
      released code knows only the lower-case tag ``python`` and bare fences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ANSWER_MARKER = "I WANT TO ANSWER:"
THOUGHT_MARKER = "OUTPUT:"
_FENCE = re.compile(r"```[^\S\n]*[\w+.#-]*[^\S\n]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True)
class AgentMessage:
    """An agent's message taken apart.

    Attributes:
        thought: What stood before ``OUTPUT:``; never shown to the human.
        utterance: The rest, as the human hears it.
        answer: What followed ``I WANT TO ANSWER:``; None where the agent did not answer.
    """

    thought: str
    utterance: str
    answer: str | None


def parse_message(text: str) -> AgentMessage:
    """Take an agent's message apart by the rules of the module."""
    thought, marker, rest = text.partition(THOUGHT_MARKER)
    utterance = (rest if marker else text).strip()
    _, marker, answer = utterance.partition(ANSWER_MARKER)
    return AgentMessage(thought.strip() if utterance != text.strip() else "", utterance, answer.strip() if marker else None)


def extract_program(answer: str) -> str:
    """The program in an answer: its first fenced block, else the whole text without stray fences."""
    match = _FENCE.search(answer)
    return (match.group(1) if match else answer.replace("```", "")).strip("\n")


def extract_program_released(answer: str) -> str:
    """The program as ColBench's released grader cuts it out (arXiv:2503.15478, the code of 5 May 2025)."""
    for fence in ("```python", "```"):
        if fence in answer:
            return answer.split(fence)[1].split("```")[0].strip()
    return answer
