"""Does the scripted oracle understand questions?

200 for each game were written before its tables and rules, by the same author; the odd half was not looked at while building. 100 more for each game ("blind")
are by another author, who knew only the names, and were never looked at.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from colbench_gym.lmrl.guessing.secret_table import load_table
from colbench_gym.lmrl.guessing.yes_no import understanding

BAR = 0.85
HALVES = ("dev", "held_out", "blind")
FILES = {"objects": "questions_20q.json", "cities": "questions_city.json"}


def rows(table, half):
    """The questions of a half, "dev" (even) or "held_out" (odd), or those of the other author, "blind"."""
    if half == "blind":
        return _read(FILES[table].replace(".json", "_blind.json"))
    found = _read(FILES[table])
    assert len(found) == 200
    return found[half == "held_out" :: 2]


def _read(name):
    return json.loads((Path(__file__).parent / name).read_text("utf-8"))


def right(table, questions):
    """Of each question, the numbers of right and of all answers: [[right yes, yes], [right no, no]]; shape (questions, 2, 2)."""
    secrets, counts = load_table(table), []
    for row in questions:
        truths = understanding(table).answers(row["question"])
        counts.append([
            [sum((bool(truths[secrets.find(name)]) == (gold == "yes")) for name, gold in row["answers"].items() if gold == wanted),
             list(row["answers"].values()).count(wanted)]
            for wanted in ("yes", "no")
        ])  # fmt: skip
    return np.array(counts)


def balanced(counts):
    """Mean of the accuracies on gold yes and gold no."""
    return float(np.mean(counts.sum(axis=0)[:, 0] / counts.sum(axis=0)[:, 1]))


def report(table, half, samples=2000):
    """Balanced accuracy with a 95% interval (bootstrap over questions), and the numbers of questions and answers."""
    counts, rng = right(table, rows(table, half)), np.random.default_rng(0)
    drawn = [balanced(counts[rng.integers(len(counts), size=len(counts))]) for _ in range(samples)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return balanced(counts), low, high, len(counts), int(counts[:, :, 1].sum())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("table", FILES)
def test_questions_are_understood(table, half):
    assert balanced(right(table, rows(table, half))) >= BAR


if __name__ == "__main__":
    for name in FILES:
        for part in HALVES:
            print(name, part, *report(name, part))
