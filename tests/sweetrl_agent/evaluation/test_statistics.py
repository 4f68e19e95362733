"""Intervals cover what they promise, a planted difference is found at the promised power, and a planted null is not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from colbench_gym.scoring.intervals import holm
from sweetrl_agent.evaluation.statistics import (
    Components,
    agents_interval,
    algorithm_interval,
    cell_table,
    components,
    permutation_p,
    power,
    score_interval,
    score_of,
    share_difference_interval,
    task_table,
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


TABLE = np.array([[0.9, 0.1, 0.6, 0.4], [0.5, 0.3, 0.2, 0.8], [0.7, 0.0, 0.9, 0.1]])


def _slow_mean_squares(table):
    seeds, tasks = len(table), len(table[0])
    mean = sum(map(sum, table)) / (seeds * tasks)
    by_seed = [sum(row) / tasks for row in table]
    by_task = [sum(row[t] for row in table) / seeds for t in range(tasks)]
    rest = sum((table[s][t] - by_seed[s] - by_task[t] + mean) ** 2 for s in range(seeds) for t in range(tasks))
    return (
        tasks * sum((value - mean) ** 2 for value in by_seed) / (seeds - 1),
        seeds * sum((value - mean) ** 2 for value in by_task) / (tasks - 1),
        rest / ((seeds - 1) * (tasks - 1)),
    )


def test_components_are_those_of_a_slow_loop_and_never_negative():
    of_seed, of_task, rest = _slow_mean_squares(TABLE.tolist())
    assert of_seed < rest < of_task  # so that one estimate is negative
    assert components(TABLE) == Components(0.0, pytest.approx((of_task - rest) / 3), pytest.approx(rest))
    of_seed, of_task, rest = _slow_mean_squares(TABLE.T.tolist())
    assert components(TABLE.T) == Components(pytest.approx((of_seed - rest) / 3), 0.0, pytest.approx(rest))
    assert Components(0.6, 0.8, 2.4).of_mean(3, 4) == pytest.approx(0.6 / 3 + 0.8 / 4 + 2.4 / 12)


@pytest.mark.parametrize("table", [TABLE, TABLE.T, TABLE + [[0.0], [2.0], [1.0]], np.arange(6.0).reshape(2, 3)])
def test_an_interval_is_students_with_satterthwaites_degrees_of_freedom(table):
    seeds, tasks = table.shape
    of_seed, of_task, rest = _slow_mean_squares(table.tolist())
    together = of_seed + of_task - rest
    freedom = together**2 / (of_seed**2 / (seeds - 1) + of_task**2 / (tasks - 1) + rest**2 / ((seeds - 1) * (tasks - 1)))
    half = stats.t.ppf(0.975, max(freedom, seeds - 1)) * math.sqrt(max(together, of_seed, of_task) / (seeds * tasks))
    mean = sum(map(sum, table.tolist())) / (seeds * tasks)
    assert algorithm_interval(table) == pytest.approx((mean - half, mean + half))


def test_of_one_run_or_one_task_the_interval_is_that_of_its_agents():
    assert algorithm_interval(TABLE[:1]) == agents_interval(TABLE[:1]) != algorithm_interval(TABLE[:2])
    assert algorithm_interval(TABLE[:, :1]) == agents_interval(TABLE[:, :1]) == (pytest.approx(0.7), pytest.approx(0.7))
    assert algorithm_interval(TABLE[:, :2]) != agents_interval(TABLE[:, :2])


def test_the_interval_of_agents_is_a_bootstrap_of_whole_tasks():
    scores = np.random.default_rng(5).random((3, 30))
    rng = np.random.default_rng(6)
    means = [scores.mean(axis=0)[rng.integers(0, 30, 30)].mean() for _ in range(4000)]
    assert agents_interval(scores) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.006)
    assert agents_interval(scores) == agents_interval(scores, 0) != agents_interval(scores, 1)
    two = np.array([[0.0, 1.0]])
    assert agents_interval(two) == (0.0, 1.0)


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


@pytest.mark.parametrize(
    ("difference", "parts", "seeds", "tasks"),
    [
        (0.08, Components(0.0009, 0.04, 0.25), 4, 300),
        (-0.08, Components(0.0009, 0.04, 0.25), 4, 300),
        (0.2, Components(0.02, 0.01, 0.1), 2, 2),
        (0.3, Components(0.0, 0.3, 0.0), 5, 3),
        (0.1, Components(0.01, 0.0, 0.0), 3, 50),
        (0.1, Components(0.01, 0.02, 0.03), 1, 1),
    ],
)
def test_power_is_that_of_a_noncentral_t_test(difference, parts, seeds, tasks):
    squares = parts.seed * tasks + parts.rest, parts.task * seeds + parts.rest, parts.rest
    variance = parts.seed / seeds + parts.task / tasks + parts.rest / (seeds * tasks)
    frees = [max(free, 1) for free in (seeds - 1, tasks - 1, (seeds - 1) * (tasks - 1))]
    freedom = (seeds * tasks * variance) ** 2 / sum(square**2 / free for square, free in zip(squares, frees, strict=True))
    freedom = max(freedom, seeds - 1, 1)
    expected = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, abs(difference) / math.sqrt(variance))
    assert power(difference, parts, seeds, tasks) == pytest.approx(expected)


def test_without_variance_every_difference_is_seen():
    assert power(0.1, Components(0.0, 0.0, 0.0), 2, 2) == 1.0
    assert tasks_needed(0.1, Components(0.0, 0.0, 0.0), 2) == tasks_needed(0.1, Components(0.0, 0.0, 0.0), 2, wanted=1.0) == 2


@pytest.mark.parametrize("wanted", [0.5, 0.8])
def test_the_tasks_that_are_needed_are_the_fewest(wanted):
    parts = Components(0.0005, 0.02, 0.05)
    slow = next(tasks for tasks in range(2, 300) if power(0.1, parts, 3, tasks) >= wanted)
    assert tasks_needed(0.1, parts, 3, wanted) == slow == tasks_needed(0.1, parts, 3, wanted, most=slow)
    assert tasks_needed(0.1, parts, 3, wanted, most=slow - 1) is None
    assert tasks_needed(0.1, parts, 2) is not None or power(0.1, parts, 2, 100_000) < 0.8


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


def test_the_permutation_test_counts_all_signs_of_a_few_tasks():
    differences = np.array([[0.5, 0.1, -0.2, 0.4], [0.3, 0.3, 0.0, 0.2]])
    by_task = [(a + b) / 2 for a, b in differences.T.tolist()]
    means = [sum(sign * x for sign, x in zip(signs, by_task, strict=True)) for signs in itertools.product((1, -1), repeat=4)]
    count = sum(abs(mean) >= abs(sum(by_task)) - 1e-12 for mean in means)
    assert 1 < count < 16
    assert permutation_p(differences) == permutation_p(-differences) == pytest.approx(count / 16)


def test_permutations_are_drawn_by_their_seed():
    differences = np.random.default_rng(8).normal(0.2, 1, (2, 40))
    assert permutation_p(differences) == permutation_p(differences, 0) != permutation_p(differences, 1)


def test_holm_is_what_the_definition_says():
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert holm(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0] and holm([]) == []


def test_of_no_tasks_an_interval_says_nothing():
    with pytest.warns(RuntimeWarning, match="empty|invalid"):
        assert np.isnan(agents_interval(np.zeros((2, 0)))).all()


def test_degenerate_tables_have_an_interval():
    assert algorithm_interval(np.ones((5, 10))) == (1.0, 1.0)
    assert algorithm_interval(np.array([[0.0, 1.0, 1.0, 0.0]])) == agents_interval(np.array([[0.0, 1.0, 1.0, 0.0]]))


def test_no_success_at_all_is_no_certainty():
    none, all_ = np.zeros((2, 40)), np.ones((1, 40))
    assert score_interval(none) == pytest.approx((0.0, 0.0876), abs=1e-3)  # Wilson's, 0 of 40
    assert score_interval(all_, agents_interval) == pytest.approx((0.9124, 1.0), abs=1e-3)
    assert score_interval(np.ones((1, 1))) == pytest.approx((0.2065, 1.0), abs=1e-3)
    mixed = np.array([[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    assert score_interval(mixed) == algorithm_interval(mixed)


def test_a_score_is_cut_to_what_can_be_and_says_its_numbers():
    scores = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    low, high = algorithm_interval(scores)
    assert low < 0 and high > 1
    assert score_of(scores) == {"success": 0.6667, "ci95": [0.0, 1.0], "n": 3, "seeds": 2, "by_seed": [0.6667, 0.6667]}
    assert score_of(TABLE) == {
        "success": 0.4583, "ci95": [round(max(0.0, bound), 4) for bound in algorithm_interval(TABLE)], "n": 4, "seeds": 3,
        "by_seed": [0.5, 0.45, 0.425],
    }  # fmt: skip
    assert score_interval(np.full((2, 3), 0.5)) == (0.5, 0.5)  # neither none nor all


def test_a_cell_is_a_table_of_the_rows_that_have_its_values():
    row = {"outcome": "answered", "success": 0, "return": 2.5}
    easy, hard = ({**row, "task_id": "a", "level": level, "success": success} for level, success in (("easy", 1), ("hard", 0)))
    rows = {0: [easy, hard], 1: [hard, {**easy, "task_id": "b"}, easy]}
    assert cell_table(rows, {"level": "easy"}).tolist() == [[1.0], [1.0]]
    assert cell_table(rows, {"level": "hard", "outcome": "answered"}).tolist() == [[0.0], [0.0]]
    assert cell_table(rows, {"level": "hard"}, "return").tolist() == [[2.5], [2.5]]
    assert cell_table(rows, {"level": "easy", "task_id": "b"}).shape == (2, 0)


def test_a_table_has_the_order_of_the_ids_and_of_the_seeds():
    def rows(*cells):
        return [{"task_id": task, "outcome": "answered", "success": value} for task, value in cells]

    table = task_table({3: rows(("b", 1), ("a", 0), ("b", 0)), 1: rows(("a", 1), ("b", 1), ("c", 1))}, "success")
    assert table.tolist() == [[0.0, 0.5], [1.0, 1.0]] and table.dtype == float
    assert task_table({0: [], 1: []}, "success").shape == (2, 0)


def test_differences_that_are_all_equal_are_no_certainty():
    low, high = share_difference_interval(np.zeros((2, 40)))
    assert low < 0 < high
    low, high = share_difference_interval(np.full((2, 40), 0.25))
    assert low < 0.25 < high < 0.5
    differences = np.array([[0.0, 1.0, -1.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    assert share_difference_interval(differences) == algorithm_interval(differences)
