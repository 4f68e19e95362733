"""Training rows in a file: taken one by one, read as they are needed, never those of a run that was killed."""

from __future__ import annotations

import pytest

from sweetrl_agent.trainers.trl.on_disk import left_on_disk, on_disk


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


def test_what_a_killed_run_has_finished_can_be_kept(tmp_path):
    assert left_on_disk(tmp_path) is None
    rows = [{"x": 1, "y": [0.5]}, {"x": 2, "y": [0.25, 1.0]}]
    on_disk(rows, tmp_path)
    kept = left_on_disk(tmp_path)
    assert kept is not None and list(kept) == rows


def test_what_a_killed_run_has_not_finished_is_not_kept(tmp_path):
    def rows():
        yield {"x": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_disk(rows(), tmp_path)
    assert left_on_disk(tmp_path) is None and left_on_disk(tmp_path) is None


def test_no_row_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ValueError, match=r"^All dialogues are too long\.$"):
        on_disk([], tmp_path, none="All dialogues are too long.")
