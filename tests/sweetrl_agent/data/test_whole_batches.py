"""Rows of an incomplete batch are removed, and rows of other work in the same file never."""

from __future__ import annotations

import pytest

from colbench_gym.files import read_rows, whole_batches, write_rows


@pytest.mark.parametrize(
    ("count", "batch", "total", "kept"), [(5, 2, 9, 4), (5, 2, 5, 5), (5, 2, 3, 3), (1, 4, 8, 0), (0, 4, 8, 0)]
)
@pytest.mark.parametrize("is_last", [True, False])
def test_only_rows_of_the_work_are_removed(count, batch, total, kept, is_last, tmp_path):
    own, other = [{"own": True, "i": i} for i in range(count)], [{"own": False, "i": i} for i in range(4)]
    write_rows(tmp_path / "rows.jsonl", [*other, *own] if is_last else [*own, *other])
    assert whole_batches(tmp_path / "rows.jsonl", batch, total, lambda row: row["own"]) == kept
    left = read_rows(tmp_path / "rows.jsonl")
    assert [row for row in left if row["own"]] == own[:kept] and [row for row in left if not row["own"]] == other
