"""The search over settings: every algorithm has the same number of different trials, of settings that exist."""

from __future__ import annotations

import importlib.util
from dataclasses import fields
from pathlib import Path

import pytest

from sweetrl_agent.config import Config

PATH = Path(__file__).resolve().parents[1] / "benchmarks" / "search.py"


@pytest.fixture(scope="module")
def search():
    spec = importlib.util.spec_from_file_location("search", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_trials_are_different_and_begin_with_the_defaults(search):
    for algorithm in search.SPACES:
        trials = search.trials(algorithm, 8)
        assert trials[0] == {} and len(trials) == 8
        assert all(one not in trials[:i] for i, one in enumerate(trials))
        assert trials == search.trials(algorithm, 8) and trials[:5] == search.trials(algorithm, 5)


def test_every_setting_exists(search):
    known = {setting.name for part in Config.PARTS for setting in fields(part)}
    assert {name for space in search.SPACES.values() for name in space} <= known


def test_nothing_is_measured_on_test_tasks(search):
    words = search.arguments(Path("out"), 1, {"rft_epochs": 2})
    assert words[words.index("--test_tasks") + 1].startswith("embedded:train[")
    assert words[-2:] == ["--rft_epochs", "2"]
