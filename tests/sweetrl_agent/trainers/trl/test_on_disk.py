"""Training rows in a file: taken one by one, read as they are needed, never those of a run that was killed."""

from __future__ import annotations

import pytest

from sweetrl_agent.trainers.trl.on_disk import on_disk


def test_rows_come_back_and_lie_in_the_folder(tmp_path):
    rows = [{"prompt": [{"role": "user", "content": str(i)}], "ids": list(range(i))} for i in range(2500)]
    dataset = on_disk(iter(rows), tmp_path / "critic")
    assert list(dataset) == rows
    assert all(file["filename"].startswith(str(tmp_path / "critic")) for file in dataset.cache_files) and dataset.cache_files
    doubled = dataset.map(lambda row: {"ids": row["ids"] * 2})
    assert doubled[3]["ids"] == [0, 1, 2, 0, 1, 2]
    assert all(file["filename"].startswith(str(tmp_path / "critic")) for file in doubled.cache_files) and doubled.cache_files


def test_a_second_start_reads_the_rows_anew(tmp_path):
    for value in (1, 2):
        dataset = on_disk(({"x": value} for _ in range(3)), tmp_path).map(lambda row: {"y": row["x"] + 1}, new_fingerprint="y")
        assert list(dataset) == [{"x": value, "y": value + 1}] * 3


def test_no_row_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ValueError, match=r"^All dialogues are too long\.$"):
        on_disk([], tmp_path, none="All dialogues are too long.")
