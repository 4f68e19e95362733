"""Files that survive a kill: whole or old, and growing files without a torn line."""

from __future__ import annotations

import json

import pytest

from colbench_gym.files import append_rows, read_rows, write_json, write_rows, write_text

ROWS = [{"a": 1, "text": "ä\u2028\n"}, {"a": 2, "text": "\r\n"}]


def test_rows_come_back(tmp_path):
    path = tmp_path / "folder" / "rows.jsonl"
    assert read_rows(path) == []
    write_rows(path, ROWS)
    append_rows(path, [{"a": 3}])
    assert read_rows(path) == [*ROWS, {"a": 3}]
    assert path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("keep", [1, 5, -2, -1])
def test_a_torn_last_line_is_dropped_and_then_cut_off(keep, tmp_path):
    path = tmp_path / "rows.jsonl"
    append_rows(path, ROWS)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:keep])
    assert read_rows(path) == ROWS[:1]
    append_rows(path, [{"a": 3}])
    assert read_rows(path) == [ROWS[0], {"a": 3}]


def test_a_file_with_nothing_but_a_torn_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": "\xc3')
    assert read_rows(path) == []
    append_rows(path, ROWS)
    assert read_rows(path) == ROWS


def test_a_whole_file_is_old_or_new(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows(path, ROWS)

    def breaks_off():
        yield {"a": 9}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(path, breaks_off())
    assert read_rows(path) == ROWS
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert read_rows(path) == ROWS
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


def test_json_keeps_the_order_of_its_keys(tmp_path):
    write_json(tmp_path / "x.json", {"b": 1, "a": "ä"})
    assert (tmp_path / "x.json").read_text() == '{\n  "b": 1,\n  "a": "\\u00e4"\n}\n'
    assert list(json.loads((tmp_path / "x.json").read_text())) == ["b", "a"]
