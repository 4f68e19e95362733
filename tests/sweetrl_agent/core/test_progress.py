"""Progress bars tell how far they are, also where they are not shown."""

from __future__ import annotations

import json
import logging

import pytest

from colbench_gym import progress
from colbench_gym.progress import PROGRESS, progress_file
from sweetrl_agent.core.progress import progress_bar


@pytest.mark.parametrize("level", ["INFO", "ERROR"])
def test_a_bar_tells_how_far_it_is(level, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(progress, "WRITE_EVERY_S", 0.0)

    def told():
        return json.loads((tmp_path / PROGRESS).read_text())

    with caplog.at_level(level, "sweetrl_agent"), progress_file(tmp_path):
        assert logging.getLogger("sweetrl_agent").level == getattr(logging, level)
        with progress_bar(total=9, initial=2, desc="grpo", unit="step") as bar:
            bar.update()
            bar.update(3)
            assert told() == {"what": "grpo", "done": 6, "total": 9, "unit": "steps"}
        seen = [told()["done"] for _ in progress_bar("abc", desc="credit", unit="turn")]
        assert seen == [0, 1, 2] and told()["total"] == 3
