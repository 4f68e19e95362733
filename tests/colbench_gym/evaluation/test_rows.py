"""The file of rows: order, void rows that are held back, and what a kill leaves."""

from __future__ import annotations

import json

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.folder import locked_folder, merged_settings, split_name, unique_names
from colbench_gym.evaluation.rows import MOST_FAILED, RowFile
from colbench_gym.files import read_rows
from colbench_gym.stage_records import StageRecords


def row(task, outcome="answered"):
    return {"agent": "a", "split": "test", "seed": 0, "task_id": task, "episode": 0, "outcome": outcome}


def test_an_incomplete_last_line_is_removed(tmp_path):
    path = tmp_path / "evaluation.jsonl"
    file = RowFile(path)
    file.add(row("x"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"agent": "a", "spl')
    file = RowFile(path)
    assert path.read_bytes() == whole and file.rows == [row("x")]
    file.add(row("\ud800"))
    assert read_rows(path) == [row("x"), row("\ud800")]


def test_void_rows_wait_for_a_valid_one_and_are_dropped_when_all_is_down(tmp_path):
    file = RowFile(tmp_path / "evaluation.jsonl")
    file.add(row("a", "void"))
    assert read_rows(file.path) == []
    file.add(row("b"))
    assert [one["task_id"] for one in read_rows(file.path)] == ["a", "b"]
    with pytest.raises(ColBenchError, match="^10 episodes in a row are void. The last error: no luck. The evaluation stops"):
        for i in range(MOST_FAILED):
            file.add(row(f"v{i}", "void"), "no luck.")
    assert len(read_rows(file.path)) == 2


def test_void_episodes_of_one_task_do_not_stop_it(tmp_path):
    file = RowFile(tmp_path / "evaluation.jsonl")
    for _ in range(3 * MOST_FAILED):
        file.add(row("same", "void"))
    file.flush()
    assert len(read_rows(file.path)) == 3 * MOST_FAILED


def test_rows_are_replaced_in_place(tmp_path):
    file = RowFile(tmp_path / "evaluation.jsonl")
    for one in (row("a"), row("b", "void"), row("c")):
        file.add(one)
    file.replace(lambda one: one["outcome"] == "void", iter([row("b")]))
    assert read_rows(file.path) == file.rows == [row("a"), row("b"), row("c")]


@pytest.mark.parametrize("line", ["[]", "{", '{"agent": "a"}', "[" * 100_000, "\x00"])
def test_a_file_of_other_rows_is_refused_with_the_line(line, tmp_path):
    (tmp_path / "e").write_text(json.dumps(row("a")) + "\n" + line + "\n")
    with pytest.raises(
        ColBenchError, match="e, line 2: expected a JSON object with agent, split, task_id, episode, outcome, got"
    ):
        RowFile(tmp_path / "e")


def test_settings_may_be_added_and_not_changed(tmp_path):
    given = {"evaluation": {"env": "E"}, "policies": {"a": {"policy": "random"}}, "tasks": {"test": "x"}}
    records = StageRecords(tmp_path)
    records.settings = given
    more = merged_settings(records, {**given, "policies": {"b": {"policy": "oracle"}}})
    assert list(more["policies"]) == ["a", "b"]
    with pytest.raises(
        ValueError, match="has another 'a' of policies: policy 'random' there, 'oracle' here; give the same to resume"
    ):
        merged_settings(records, {**given, "policies": {"a": {"policy": "oracle"}}})
    assert merged_settings(StageRecords(tmp_path / "new"), given) == given


def test_one_process_in_a_folder_and_no_links(tmp_path):
    with (
        locked_folder(tmp_path / "e"),
        pytest.raises(ValueError, match="^Another process is working in"),
        locked_folder(tmp_path / "e"),
    ):
        pass
    (tmp_path / "e" / "results.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a symbolic link; remove it"), locked_folder(tmp_path / "e"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="^`output` must name a folder that can be written"), locked_folder(tmp_path / "file"):
        pass


def test_short_names_where_they_differ():
    assert split_name("embedded:test/billing?preset=hard[:50]") == "test/billing"
    assert split_name("data/rows.jsonl[5:]") == "rows" and split_name("hub:a/b:train") == "train"
    assert unique_names(["x:1", "y:1", "z"], ["1", "1", "z"]) == ["x:1", "y:1", "z"]
    with pytest.raises(ValueError, match="got 'x' twice; name one of them, as in other=x"):
        unique_names(["x", "x"], ["1", "1"])
    with pytest.raises(ValueError, match="^Expected another name of a policy than 'metric'"):
        unique_names(["metric"], ["metric"])
