"""The search over settings: every algorithm has the same number of different trials, of settings that exist."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from colbench_gym.tasks import load_tasks
from sweetrl_agent.algorithms.settings import known_settings
from sweetrl_agent.config.job import SECTIONS
from tests.benchmark_modules import loaded


@pytest.fixture(scope="module")
def search():
    yield from loaded("search")


def test_trials_are_different_and_begin_with_the_defaults(search):
    for algorithm, space in search.SPACES.items():
        trials = search.trials(algorithm, 8)
        complete = [search.complete(algorithm, one) for one in trials]
        assert trials[0] == {} and len(trials) == min(8, len(_all(space)))
        assert all(one not in complete[:i] and one in _all(space) for i, one in enumerate(complete))
        assert trials == search.trials(algorithm, 8) and trials[:5] == search.trials(algorithm, 5)


def test_every_setting_exists(search):
    known = {*known_settings(SECTIONS)}
    assert {name for space in search.SPACES.values() for name in space} <= known
    assert all(search.default_of(name) in values for space in search.SPACES.values() for name, values in space.items())


def test_nothing_is_measured_on_test_tasks(search):
    words = search.arguments(Path("out"), 1, {"rft.epochs": 2})
    assert words[words.index("--test_tasks") + 1].startswith("embedded:train[")
    train, held_out = (load_tasks(words[words.index(name) + 1]) for name in ("--tasks", "--test_tasks"))
    assert len(held_out) >= 200 and not {task.id for task in train} & {task.id for task in held_out}
    assert words[-2:] == ["--rft.epochs", "2"]


def test_steps_move_one_setting_of_the_best_and_are_never_repeated(search):
    rows = [
        {"algorithm": "rft", "settings": {}, "success": 0.2},
        {"algorithm": "rft", "settings": {"rft.learning_rate": 3e-4, "rft.epochs": 9, "rft.batch": 32}, "success": 0.3},
    ]
    best = rows[1]["settings"]
    steps = search.next_steps("rft", rows, 3)
    assert steps == [s for s in steps if sum(s[name] != best[name] for name in best) == 1] and len(steps) == 3
    rows += [{"algorithm": "rft", "settings": step, "success": 0.1} for step in steps]
    assert all(sum(s[n] != v for n, v in search.complete("rft", {}).items()) == 1 for s in search.next_steps("rft", rows, 2))
    everything = [{"algorithm": "rft", "settings": s, "success": 0.0} for s in _all(search.SPACES["rft"])]
    assert search.next_steps("rft", everything, 2) == []


def _all(space):
    return [dict(zip(space, values, strict=True)) for values in product(*space.values())]
