"""An algorithm of one's own trains, with a setting of its own."""

from __future__ import annotations

import json

import pytest
import yaml

from examples import own_algorithm
from tests.examples.test_examples import SHORT
from tests.words import with_defaults


def test_an_algorithm_of_ones_own_trains_with_its_own_setting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ["--mine.iterations", "2", "--mine.tasks", "4", "--mine.group", "4", "--mine.clip", "0.1"]
    assert own_algorithm.main(with_defaults(SHORT, [*sizes, "--output", "run"])) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["algorithm"] == "mine" and list(results["seconds"]) == ["sft", "mine", "evaluate"]
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["mine"]["clip"] == 0.1


def test_returns_are_standardized_as_grpo_does():
    scaled = own_algorithm.standardized([0.0, 1.0, 1.0, 0.0])
    assert scaled == pytest.approx([-(0.75**0.5), 0.75**0.5, 0.75**0.5, -(0.75**0.5)], abs=1e-4)
    assert own_algorithm.standardized([1.0, 1.0]) == [0.0, 0.0]
