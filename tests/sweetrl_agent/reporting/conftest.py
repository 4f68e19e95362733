"""A comparison on disk."""

from __future__ import annotations

import pytest

from .made_up import write_comparison_folder


@pytest.fixture
def comparison(tmp_path):
    """Folder of a comparison, without a report."""
    return write_comparison_folder(tmp_path / "compare")
