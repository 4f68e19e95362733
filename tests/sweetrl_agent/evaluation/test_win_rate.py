"""Win rates against a recorded run."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import yaml

from colbench_gym.files import write_rows
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.evaluation.win_rate import recorded, refuse_other_settings, summarize


def _row(agent, task, grade, split="test", outcome="wrong"):
    return {"agent": agent, "split": split, "task_id": task, "outcome": outcome, "similarity": grade}


def _run(folder, seed, rows):
    folder.mkdir()
    write_rows(folder / "evaluation.jsonl", rows)
    return SimpleNamespace(seed=seed, path=folder.joinpath, record=SimpleNamespace(metric="similarity"))


def test_wins_ties_and_losses_are_counted_on_the_tasks_of_both(tmp_path):
    file = tmp_path / "old.jsonl"
    write_rows(
        file, [_row("old", "a", 0.5), _row("old", "b", 0.5), _row("old", "c", 0.5), _row("old", "d", None, outcome="void")]
    )
    rows = [_row("new", "a", 0.6), _row("new", "b", 0.5), _row("new", "c", 0.1), _row("new", "d", 1.0), _row("new", "e", 1.0)]
    runs = [
        _run(tmp_path / "0", 0, rows),
        _run(tmp_path / "1", 1, [{**row, "similarity": row["similarity"] + 0.01} for row in rows]),
    ]
    (found,) = summarize(runs, ["new"], str(file))
    assert (found["win_rate"], found["n"], found["seeds"]) == (pytest.approx((1.5 + 2) / 6, abs=1e-4), 3, 2)
    assert found["ci95"][0] <= found["win_rate"] <= found["ci95"][1]


def test_a_task_that_one_algorithm_lost_counts_for_none(tmp_path):
    write_rows(tmp_path / "old.jsonl", [_row("old", task, 0.5) for task in "ab"])
    rows = [_row("new", "a", 0.6), _row("new", "b", 0.1), _row("other", "a", 0.6), _row("other", "b", None, outcome="void")]
    found = summarize([_run(tmp_path / "0", 0, rows)], ["new", "other", "void everywhere"], str(tmp_path / "old.jsonl"))
    assert [(one["algorithm"], one["win_rate"], one["n"]) for one in found] == [("new", 1.0, 1), ("other", 1.0, 1)]


def test_several_episodes_of_a_task_count_by_their_mean(tmp_path):
    write_rows(tmp_path / "old.jsonl", [_row("old", "a", 0.2), _row("old", "a", 0.6)])
    assert recorded(str(tmp_path / "old.jsonl"), "similarity") == {("test", "a"): pytest.approx(0.4)}


def test_one_agent_must_be_named(tmp_path):
    file = tmp_path / "old.jsonl"
    write_rows(file, [_row("initial", "a", 0.2), _row("trained", "a", 0.6)])
    assert recorded(f"{file}:trained", "similarity") == {("test", "a"): 0.6}
    for source, words in ((str(file), "FILE:AGENT"), (f"{file}:other", "initial"), (str(tmp_path / "no.jsonl"), "no file")):
        with pytest.raises(ValueError, match=words):
            recorded(source, "similarity")


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({"simulator": "terse"}, "simulator 'terse', here it is 'scripted'"),
        ({"max_turns": 3}, "max_turns 3, here it is 0"),
        ({"seed": 7}, ""),
    ],
)
def test_a_baseline_with_other_settings_is_refused(there, says, tmp_path):
    write_rows(tmp_path / "evaluation.jsonl", [_row("old", "a", 0.5)])
    refuse_other_settings(f"{tmp_path / 'evaluation.jsonl'}:old", TaskArguments())  # no settings lie beside it
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"env": "ColBench-Backend-v0", "simulator": "scripted", **there}))
    human = {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:8000/v1"}
    (tmp_path / "other").mkdir()
    write_rows(tmp_path / "other" / "evaluation.jsonl", [_row("old", "a", 0.5)])
    (tmp_path / "other" / "config.yaml").write_text(yaml.safe_dump({"simulator": json.dumps(human)}))
    moved = TaskArguments(simulator=json.dumps({"base_url": "http://127.0.0.1:8001/v1", "model": "m", "name": "openai"}))
    refuse_other_settings(str(tmp_path / "other" / "evaluation.jsonl"), moved)
    (tmp_path / "other" / "config.yaml").write_text("{: broken")
    refuse_other_settings(str(tmp_path / "other" / "evaluation.jsonl"), moved)
    if not says:
        refuse_other_settings(str(tmp_path / "evaluation.jsonl"), TaskArguments())
        return
    with pytest.raises(ValueError, match=says):
        refuse_other_settings(f"{tmp_path / 'evaluation.jsonl'}:old", TaskArguments())
