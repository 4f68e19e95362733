"""What training has changed: one test task, as the initial and the trained policy played it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from colbench_gym.files import Row
from colbench_gym.outside_text import printable

#: Lines of a dialogue on the screen, columns of a line, and characters of an agent's name.
_MOST_LINES, _WIDTH, _MOST_NAME = 40, 110, 20


def example(rows: Sequence[Row]) -> str:
    """A test task that only the trained policy solves, as both policies played it; "" if there is none.

    It is chosen for that, so it shows what has been learnt and not how often.

    Args:
        rows: Rows of `evaluation.jsonl`.
    """
    first = {(row["agent"], row["task_id"]): row for row in rows if row["split"] == "test" and row["episode"] == 0}
    for (agent, task), row in first.items():
        other = first.get(("trained", task))
        if agent == "initial" and other and row["success"] == 0 and other["success"] == 1 and row["outcome"] != "void":
            parts = (("before", row), ("after", other))
            return f"A test task that only the trained policy solves ({printable(task)}):" + "".join(
                f"\n\n--- {when}: {row['turns']} turns, outcome {printable(str(row['outcome']))}\n{_dialogue(row)}"
                for when, row in parts
            )
    return ""


def _dialogue(row: Row) -> str:
    names = [_speaker(message) for message in row["dialogue_history"]]
    width = max([6, *map(len, names)])
    lines = [
        line
        for name, message in zip(names, row["dialogue_history"], strict=True)
        for line in wrapped(f"{name:>{width}}", printable(message["content"]), _WIDTH + 6 - width)
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"[{len(lines) - _MOST_LINES} more lines are in the report]"]
    return "\n".join(lines)


def _speaker(message: Row) -> str:
    """Who speaks, or in a team the agent that speaks or is spoken to."""
    names = {"user": "human", "assistant": "agent"}
    if "agent" not in message:
        return names.get(message["role"], str(message["role"]))
    name = printable(str(message["agent"]))[:_MOST_NAME]
    return name if message["role"] == "assistant" else f"to {name}"


def wrapped(name: str, text: str, width: int) -> list[str]:
    """A text as lines of at most `width` columns behind the name of its speaker, which stands on the first."""
    lines = [part for line in text.split("\n") for part in (textwrap.wrap(line, width, replace_whitespace=False) or [""])]
    return [f"{name if i == 0 else '':>{len(name)}}  {line}" for i, line in enumerate(lines)]
