"""The difference between the trained and the initial policy, and the example on the screen."""

from __future__ import annotations

import pytest

from sweetrl_agent.evaluation.gains import example, gain_lines, paired_gain


def _row(task, success, agent="initial", episode=0, split="test", outcome="wrong", said="Hello"):
    return {
        "agent": agent, "split": split, "task_id": task, "episode": episode, "outcome": outcome, "success": success, "turns": 2,
        "dialogue_history": [{"role": "user", "content": "Please."}, {"role": "assistant", "content": said}],
    }  # fmt: skip


def test_the_difference_is_taken_task_by_task():
    initial = [_row(f"t{i}", float(i % 4 == 0)) for i in range(40)]
    trained = [_row(f"t{i}", float(i % 2 == 0)) for i in range(40)]
    found = paired_gain(initial, trained)
    assert found["mean"] == 0.25
    assert found["tasks"] == 40
    assert 0.1 <= found["ci95"][0] < 0.25 < found["ci95"][1] <= 0.4
    assert found["p"] < 0.01  # ten tasks for, none against: 2 / 2^10 by the sign test


def test_void_episodes_and_tasks_of_one_side_do_not_count():
    initial = [_row("a", 0.0), _row("b", 0.0), _row("c", 1.0), _row("a", 1.0, episode=1)]
    trained = [_row("a", 1.0), _row("b", 1.0, outcome="void"), _row("d", 1.0)]
    found = paired_gain(initial, trained)
    assert (found["mean"], found["tasks"]) == (0.5, 1)
    assert paired_gain(initial, []) is None


def test_no_difference_has_no_small_p():
    rows = [_row(f"t{i}", float(i % 3 == 0)) for i in range(30)]
    found = paired_gain(rows, rows)
    assert (found["mean"], found["ci95"], found["p"]) == (0.0, [0.0, 0.0], 1.0)


def test_it_is_written_in_points():
    gain = {"of": "success", "mean": 0.1167, "ci95": [0.0633, 0.1668], "p": 0.0002, "tasks": 300}
    assert gain_lines({"test": gain}) == ["trained - initial, test: success +11.7 points (6.3 to 16.7), p = 0.0002, 300 tasks"]


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
