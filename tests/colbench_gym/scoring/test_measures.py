"""What replies gave away: open points that were stated, and the wishes among them."""

from __future__ import annotations

from dataclasses import replace

from colbench_gym.scoring.measures import reply_measures
from colbench_gym.tasks import load_tasks


def _dialogue(*replies):
    messages = [{"role": "user", "content": "Write a function."}]
    for reply in replies:
        messages += [{"role": "assistant", "content": "And?"}, {"role": "user", "content": reply}]
    return messages


def test_a_point_counts_once_whether_it_is_a_wish_or_not():
    task = load_tasks("embedded:test")[0]
    wish, other = (next(f.sentence for f in task.hidden.facts if f.is_special == is_special) for is_special in (True, False))
    measured = reply_measures(_dialogue(other, "It is up to you.", f"Well. {wish}", other), task)
    wishes = sum(fact.is_special for fact in task.hidden.facts)
    assert (measured["points_stated"], measured["wishes_heard"]) == (2, 1 / wishes)
    assert reply_measures(_dialogue("No idea."), task)["points_stated"] == 0


def test_a_task_without_points_has_no_such_measures():
    task = load_tasks("embedded:test")[0]
    task = replace(task, hidden=replace(task.hidden, facts=()))
    measured = reply_measures(_dialogue("Yes."), task)
    assert measured["points_stated"] is None and measured["wishes_heard"] is None
