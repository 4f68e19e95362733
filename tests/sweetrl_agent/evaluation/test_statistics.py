"""Intervals cover what they promise, a planted difference is found at the promised power, and a planted null is not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sweetrl_agent.evaluation.statistics import (
    Components,
    agents_interval,
    algorithm_interval,
    components,
    holm,
    pass_at_k,
    pass_hat_k,
    permutation_p,
    power,
    score_interval,
    tasks_needed,
)

EXPERIMENTS = 1_000


def logistic(x):
    return 1 / (1 + np.exp(-x))


def outcomes(rng, seeds, tasks, sd_seed, sd_task, level=-0.5):
    """Successes of runs of one algorithm: some runs are better than others, some tasks easier."""
    chance = logistic(level + rng.normal(0, sd_seed, (seeds, 1)) + rng.normal(0, sd_task, (1, tasks)))
    return (rng.random((seeds, tasks)) < chance).astype(float)


@pytest.mark.parametrize(
    ("seeds", "tasks", "sd_seed", "sd_task"), [(5, 300, 0.3, 1.5), (5, 100, 0.5, 1.0), (10, 100, 0.2, 2.0), (5, 300, 0.0, 1.5)]
)
def test_a_95_percent_interval_covers_95_percent(seeds, tasks, sd_seed, sd_task):
    rng = np.random.default_rng(0)
    truth = logistic(-0.5 + rng.normal(0, math.hypot(sd_seed, sd_task), 1_000_000)).mean()
    intervals = [algorithm_interval(outcomes(rng, seeds, tasks, sd_seed, sd_task)) for _ in range(EXPERIMENTS)]
    assert 0.93 <= np.mean([low <= truth <= high for low, high in intervals]) <= 0.975


def test_the_interval_of_these_agents_covers_over_tasks_and_not_over_runs():
    rng = np.random.default_rng(1)
    covers_agents, covers_algorithm = [], []
    for _ in range(300):
        agents = rng.normal(0, 0.5, (5, 1))
        truth = logistic(-0.5 + agents + rng.normal(0, 1.0, (1, 20_000))).mean()
        scores = (rng.random((5, 200)) < logistic(-0.5 + agents + rng.normal(0, 1.0, (1, 200)))).astype(float)
        low, high = agents_interval(scores)
        covers_agents.append(low <= truth <= high)
        covers_algorithm.append(low <= logistic(-0.5 + rng.normal(0, math.hypot(0.5, 1.0), 20_000)).mean() <= high)
    assert 0.91 <= np.mean(covers_agents) <= 0.985
    assert np.mean(covers_algorithm) < 0.8  # why runs are a level of their own


def test_components_are_found():
    rng = np.random.default_rng(2)
    planted = Components(seed=0.04, task=0.09, rest=0.16)
    found = [
        components(rng.normal(0, 0.2, (6, 1)) + rng.normal(0, 0.3, (1, 200)) + rng.normal(0, 0.4, (6, 200))) for _ in range(400)
    ]
    for name in ("seed", "task", "rest"):
        assert np.mean([getattr(parts, name) for parts in found]) == pytest.approx(getattr(planted, name), rel=0.12)


@pytest.mark.parametrize("seeds", [4, 6])
def test_a_planted_difference_is_found_at_the_promised_power_and_a_null_is_not(seeds):
    parts = Components(seed=0.0009, task=0.04, rest=0.25)
    difference = 0.08
    tasks = tasks_needed(difference, parts, seeds)
    assert tasks is not None and power(difference, parts, seeds, tasks) >= 0.8 > power(difference, parts, seeds, tasks - 1)
    rng = np.random.default_rng(3)

    def is_seen(planted):
        scores = (
            planted
            + rng.normal(0, parts.seed**0.5, (seeds, 1))
            + rng.normal(0, parts.task**0.5, (1, tasks))
            + rng.normal(0, parts.rest**0.5, (seeds, tasks))
        )
        low, high = algorithm_interval(scores)
        return low > 0 or high < 0

    assert np.mean([is_seen(difference) for _ in range(EXPERIMENTS)]) == pytest.approx(0.8, abs=0.08)
    assert np.mean([is_seen(0.0) for _ in range(EXPERIMENTS)]) <= 0.08


def test_more_tasks_do_not_help_against_few_runs():
    parts = Components(seed=0.01, task=0.04, rest=0.2)
    assert tasks_needed(0.05, parts, seeds=3) is None and tasks_needed(0.05, parts, seeds=1) is None
    assert tasks_needed(0.05, parts, seeds=100) is not None


def test_no_number_of_tasks_shows_a_difference_that_is_none():
    assert tasks_needed(0.0, Components(seed=0.0, task=0.0, rest=0.0), seeds=5) is None


def test_the_permutation_test_keeps_its_level():
    rng = np.random.default_rng(4)
    p_values = [permutation_p(rng.normal(0, 1, (3, 40))) for _ in range(200)]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.10
    assert permutation_p(rng.normal(1.0, 1, (3, 40))) < 0.001
    assert permutation_p(np.zeros((3, 4))) == 1.0


def test_holm_is_what_the_definition_says():
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert holm(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0] and holm([]) == []


@pytest.mark.parametrize(("successes", "episodes", "k"), [(0, 5, 2), (2, 5, 2), (3, 5, 3), (5, 5, 1)])
def test_pass_rates_count_all_choices_of_k_episodes(successes, episodes, k):
    drawn = [sum(choice) for choice in itertools.combinations([1] * successes + [0] * (episodes - successes), k)]
    assert pass_at_k(successes, episodes, k) == pytest.approx(np.mean([count > 0 for count in drawn]))
    assert pass_hat_k(successes, episodes, k) == pytest.approx(np.mean([count == k for count in drawn]))


def test_degenerate_tables_have_an_interval():
    assert algorithm_interval(np.ones((5, 10))) == (1.0, 1.0)
    assert algorithm_interval(np.array([[0.0, 1.0, 1.0, 0.0]])) == agents_interval(np.array([[0.0, 1.0, 1.0, 0.0]]))


def test_no_success_at_all_is_no_certainty():
    none, all_ = np.zeros((2, 40)), np.ones((1, 40))
    assert score_interval(none) == pytest.approx((0.0, 0.0876), abs=1e-3)  # Wilson's, 0 of 40
    assert score_interval(all_, agents_interval) == pytest.approx((0.9124, 1.0), abs=1e-3)
    mixed = np.array([[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    assert score_interval(mixed) == algorithm_interval(mixed)
