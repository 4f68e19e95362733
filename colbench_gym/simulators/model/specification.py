"""What a model that plays the human is told: the reference itself, or a specification of it in words.

A model that has the reference before it can be brought to recite it, and an agent in training learns how. A model that has only a specification, written once
from the reference and checked for code, has nothing to recite.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from colbench_gym.outside_text import encodable
from colbench_gym.scoring.leak import leak_fraction
from colbench_gym.tasks.task import Task

#: What the human is told.
Hidden = Literal["reference", "specification"]
PROMPT = """\
You play a person who asked a programming assistant for a Python function. You know exactly what the function must do, \
because you have the {what} below. The assistant cannot see it.

{title}, for your eyes only:
{text}

How to answer the assistant's last message:
- Speak as that person would in a chat: plain everyday words, at most two sentences.
- Answer only what was asked, and only with what the {noun} says. Give names, values and texts exactly as they stand in it.
- If the {noun} does not settle the question, say that you do not know or do not mind.
- Never write code, never quote lines of the {noun}, never mention that a {noun} exists."""
WORDS: dict[Hidden, dict[str, str]] = {
    "reference": {"what": "finished solution", "title": "Solution", "noun": "solution"},
    "specification": {"what": "specification", "title": "Specification", "noun": "specification"},
}
WRITE = """\
Describe the Python function below for a person who does not program. State in plain English sentences everything that it does: what it is given, every rule \
in the order in which it is applied, every number and text exactly, what happens in special cases, and what it returns. Use no code, no symbols of Python and \
no names of its variables; names of fields and parameters that a caller has to know stand in quotes.

{reference}"""
#: Tokens of a specification, and tries to get one without code: the first at temperature 0.
MAX_TOKENS, TRIES = 1024, 3
#: Largest share of the reference's code in a specification.
MOST_LEAK = 0.05


def check_hidden(hidden: str) -> None:
    """Refuse an unknown kind.

    Raises:
        ValueError: Names those that are known.
    """
    if hidden not in get_args(Hidden):
        raise ValueError(f"`hidden` must be one of {get_args(Hidden)}, got {hidden!r}.")


def instructions(hidden: Hidden, text: str) -> str:
    """The system prompt of the model that plays the human.

    Args:
        hidden: What it is told.
        text: The reference or the specification.
    """
    prompt = PROMPT
    for name, words in WORDS[hidden].items():
        prompt = prompt.replace(f"{{{name}}}", words)
    return prompt.replace("{text}", encodable(text))


def requests(task: Task, model: str) -> list[dict[str, Any]]:
    """The requests for a specification of a task, in the order in which they are tried until one gets a text without code."""
    messages = [{"role": "user", "content": WRITE.replace("{reference}", encodable(task.hidden.reference))}]
    return [
        {"model": model, "temperature": 0.7 if seed else 0.0, "max_tokens": MAX_TOKENS, "seed": seed, "messages": messages}
        for seed in range(TRIES)
    ]


def leak_of(text: str, task: Task) -> float:
    """Share of the reference's code in a specification."""
    return leak_fraction(text, task.hidden.reference, task.signature)
