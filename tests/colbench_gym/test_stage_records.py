"""The records of a folder: what is no file in the place of one, and folders of other kinds."""

from __future__ import annotations

import os

import pytest

from colbench_gym.digests import rows_of
from colbench_gym.errors import ColBenchError
from colbench_gym.files import append_rows, iter_rows, read_json, write_json, write_text
from colbench_gym.stage_records import COMPARISON, EVALUATION, RUN, StageRecords
from tests.damages import NO_FILES, a_folder, a_pipe

ROWS = rows_of("rows.jsonl", agent="a")
WRITES = ("one.json", "model/", ROWS)


@pytest.fixture
def records(tmp_path):
    made = StageRecords(tmp_path, kind=RUN)
    made.begin("s", (), (), WRITES)
    write_json(tmp_path / "one.json", {})
    write_json(tmp_path / "model" / "config.json", {})
    append_rows(tmp_path / "rows.jsonl", [{"agent": "a"}])
    made.finish("s")
    return made


@pytest.mark.parametrize("name", ["one.json", "model/config.json", "rows.jsonl"])
@pytest.mark.parametrize("damage", NO_FILES)
def test_what_is_no_file_is_a_damaged_file_and_is_removed(name, damage, records, tmp_path):
    damage(tmp_path / name)
    assert list(records.find_invalid({"s": WRITES})) == ["s"]
    records.clear(["s"], {"s": WRITES})
    assert not os.path.lexists(tmp_path / name)


def test_records_that_are_a_pipe_are_refused(records, tmp_path):
    a_pipe(tmp_path / "stages.json")
    with pytest.raises(ColBenchError, match=r"stages.json must be a file, and it is a folder, a pipe or a device; remove it\."):
        StageRecords(tmp_path, kind=RUN)


def test_a_file_is_not_written_over_a_folder_nor_read_from_a_pipe(tmp_path):
    for name, damage in (("a", a_folder), ("b", a_pipe)):
        write_text(tmp_path / name, "{}\n")
        damage(tmp_path / name)
    with pytest.raises(ColBenchError, match=r"a must be a file, and it is a folder"):
        write_text(tmp_path / "a", "")
    with pytest.raises(ColBenchError, match=r"b must be a file"):
        list(iter_rows(tmp_path / "b"))
    assert read_json(tmp_path / "b") == {}
    write_text(tmp_path / "b", "replaced")
    assert (tmp_path / "b").read_text() == "replaced"


@pytest.mark.parametrize("kind", [EVALUATION, COMPARISON])
def test_a_folder_of_another_kind_is_refused(kind, records, tmp_path):
    with pytest.raises(
        ValueError, match=f"is the folder of a run, and this command writes that of {kind}; give another `--output`"
    ):
        StageRecords(tmp_path, kind=kind)
    assert StageRecords(tmp_path).kind == RUN  # a report reads any
