"""What training has changed: one test task, as the initial and the trained policy played it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from colbench_gym.files import Row
from colbench_gym.outside_text import printable

#: Lines of a dialogue on the screen, and columns of a line.
_MOST_LINES, _WIDTH = 40, 110


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
    names = {"user": "human", "assistant": "agent"}
    lines = [
        line
        for message in row["dialogue_history"]
        for line in _wrapped(names.get(message["role"], message["role"]), printable(message["content"]))
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"[{len(lines) - _MOST_LINES} more lines are in the report]"]
    return "\n".join(lines)


def _wrapped(name: str, text: str) -> list[str]:
    lines = [part for line in text.split("\n") for part in (textwrap.wrap(line, _WIDTH, replace_whitespace=False) or [""])]
    return [f"{name if i == 0 else '':>6}  {line}" for i, line in enumerate(lines)]
