"""The example on the screen: a task that only the trained policy solves."""

from __future__ import annotations

import pytest

from sweetrl_agent.evaluation.example import example


def _row(task, success, agent="initial", episode=0, split="test", outcome="wrong", said="Hello"):
    return {
        "agent": agent, "split": split, "task_id": task, "episode": episode, "outcome": outcome, "success": success, "turns": 2,
        "dialogue_history": [{"role": "user", "content": "Please."}, {"role": "assistant", "content": said}],
    }  # fmt: skip


@pytest.mark.parametrize("said", ["I ask.", "\x1b[2J\x1b[31mred", "a" * 500 + "\n" * 200])
def test_the_example_is_a_test_task_that_only_the_trained_policy_solves(said):
    rows = [
        _row("both", 1.0), _row("both", 1.0, "trained"), _row("void", 0.0, outcome="void"), _row("void", 1.0, "trained"),
        _row("elsewhere", 0.0, split="unseen"), _row("elsewhere", 1.0, "trained", split="unseen"),
        _row("gain", 0.0, said=said), _row("gain", 1.0, "trained", said="def f(): pass"),
    ]  # fmt: skip
    shown = example(rows)
    assert shown.startswith(
        "A test task that only the trained policy solves (gain):\n\n--- before: 2 turns, outcome wrong\n human  Please."
    )
    assert "--- after: 2 turns, outcome wrong\n human  Please.\n agent  def f(): pass" in shown
    assert "\x1b" not in shown
    assert len(shown.split("\n")) < 60
    assert max(map(len, shown.split("\n"))) <= 120
    assert example(rows[:-2]) == ""


def test_the_dialogues_of_a_team_have_the_names_of_its_agents():
    rows = [_row("gain", 0.0), _row("gain", 1.0, "trained")]
    for row in rows:
        row["dialogue_history"] = [
            {"role": role, "content": text, "agent": agent}
            for agent, text in (("coder", "Hm. " * 60), ("an\x1b" + "a" * 500, "x"))
            for role in ("user", "assistant")
        ]
    lines = example(rows).split("\n")
    assert " to coder  Hm. " in lines[3]
    assert sum(" coder  Hm. " in line and "to coder" not in line for line in lines) == 2
    assert "\x1b" not in "".join(lines) and max(map(len, lines)) <= 120
