"""Confidence intervals, against known values and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from colbench_gym.scoring.intervals import (
    difference_interval,
    difference_of_means_interval,
    mean_interval,
    rate_interval,
    sign_flip_p,
    wilson,
)


def test_wilson_equals_scipy():
    stats = pytest.importorskip("scipy.stats", reason="needs scipy; run `pip install .[dev]`")
    for successes, n in ((0, 10), (3, 10), (10, 10), (500, 1000), (996, 1000)):
        expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
        assert wilson(successes / n, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_without_rows_nothing_is_known():
    assert wilson(0.0, 0) == (0.0, 1.0) and mean_interval([]) == (0.0, 1.0)


def test_the_bootstrap_equals_the_normal_interval_where_that_holds():
    values = np.random.default_rng(0).uniform(size=2000)
    low, high = mean_interval(values.tolist())
    half = 1.96 * values.std() / 2000**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=half / 8)


def test_equal_values_do_not_give_an_interval_of_no_width():
    assert mean_interval([1.0] * 100) == wilson(1.0, 100)
    assert mean_interval([1.0] * 100, list(range(10)) * 10) == wilson(1.0, 10)


def test_rows_of_one_task_count_together():
    rng = np.random.default_rng(0)
    tasks = rng.uniform(size=50)
    values, groups = np.repeat(tasks, 20).tolist(), np.repeat(np.arange(50), 20).tolist()
    low, high = mean_interval(values, groups)
    naive = mean_interval(values)
    assert high - low > 3 * (naive[1] - naive[0])


@pytest.mark.parametrize("grouped", [False, True])
def test_95_of_100_intervals_hold_the_truth(grouped):
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        tasks = rng.beta(2, 1, size=60)
        values = np.repeat(tasks, 4) if grouped else tasks
        low, high = mean_interval(values.tolist(), np.repeat(np.arange(60), 4).tolist() if grouped else None)
        hits += low <= 2 / 3 <= high
    assert 0.90 <= hits / 200 <= 0.99


def test_the_interval_is_the_same_each_time():
    values = [0.0, 0.3, 1.0, 0.5] * 9
    assert mean_interval(values) == mean_interval(values) != mean_interval(values, seed=1)


def test_a_rate_over_repeated_tasks_is_clustered():
    successes, tasks = [1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"]
    assert rate_interval(successes, tasks) == mean_interval(successes, tasks) != wilson(0.5, 4)
    assert rate_interval(successes, list("abcd")) == wilson(0.5, 4)
    assert rate_interval([], []) == (0.0, 1.0)


def test_the_interval_of_a_difference_covers_what_it_promises():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        low, high = difference_interval(rng.choice([-1.0, 0.0, 1.0], 80, p=[0.1, 0.6, 0.3]).tolist())
        covered += low <= 0.2 <= high
    assert 0.91 <= covered / 300 <= 0.98


def test_the_difference_of_two_means_is_the_paired_one_where_every_row_has_a_partner():
    rng = np.random.default_rng(0)
    first, second = ([*zip("abcdefgh", rng.uniform(size=8).tolist(), strict=True)] for _ in range(2))
    paired = [after - before for (_, before), (_, after) in zip(first, second, strict=True)]
    assert difference_of_means_interval(first, second[::-1]) == pytest.approx(difference_interval(paired))


def test_the_difference_of_two_means_covers_the_truth_where_rows_lack_a_partner():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        tasks = rng.beta(2, 2, size=60)
        sides = [
            [(task, min(1.0, tasks[task] * factor)) for task in np.repeat(range(60), 2) if rng.random() < share]
            for factor, share in ((0.8, 0.3), (0.9, 0.6))
        ]
        low, high = difference_of_means_interval(*sides)
        covered += low <= 0.05 <= high
    assert 0.90 <= covered / 200 <= 0.99


def test_two_means_of_equal_values_do_not_give_an_interval_of_no_width():
    low, high = difference_of_means_interval([("a", 1.0), ("b", 1.0)], [("a", 1.0)])
    assert (low, high) == (wilson(1.0, 1)[0] - 1, pytest.approx(1 - wilson(1.0, 2)[0]))
    assert difference_of_means_interval([], [("a", 1.0)]) == (-1.0, 1.0)


def test_equal_differences_do_not_give_an_interval_of_no_width():
    u = wilson(0.0, 50)[1]
    assert difference_interval([0.0] * 50) == pytest.approx((-u, u))
    assert difference_interval([1.0] * 50) == pytest.approx((1 - 2 * u, 1.0))
    assert difference_interval([-1.0] * 50) == pytest.approx((-1.0, -1 + 2 * u))
    assert difference_interval([]) == (-1.0, 1.0)


@pytest.mark.parametrize("count", [3, 13, 14, 300])
def test_sign_flips_are_those_of_scipy(count):
    stats = pytest.importorskip("scipy.stats", reason="needs scipy; run `pip install .[dev]`")
    for seed in range(3):
        values = np.random.default_rng(seed).normal(0.2, 1, count)
        expected = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=9_999, random_state=seed)
        assert sign_flip_p(values, seed) == expected.pvalue
    assert sign_flip_p([0.0] * count) == 1.0


def test_equal_values_that_are_no_shares_are_their_own_interval():
    assert mean_interval([-6.0] * 20, is_share=False) == (-6.0, -6.0)
    assert mean_interval([0.0] * 20, is_share=False) == difference_interval([0.0] * 20, is_share=False) == (0.0, 0.0)
    assert mean_interval([0.0] * 20) == wilson(0.0, 20)
