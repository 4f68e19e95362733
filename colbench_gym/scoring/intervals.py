"""95% confidence intervals of the numbers that a benchmark reports, and paired differences of two agents. Needs only numpy.

Rows of one task are not independent: a file with several answers to each task has a smaller effective sample size than its
number of rows. If tasks repeat, whole tasks are resampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Z = 1.959963984540054  # 97.5% quantile of the normal distribution
RESAMPLES = 2000
#: Random sign flips of a paired test.
FLIPS = 9_999
_DRAWS_AT_ONCE = 1_000_000

Interval = tuple[float, float]
#: Metrics in [0, 1]; other metrics, such as a return, belong to environments that are not ours.
SHARES = ("success", "tests_passed", "similarity")


def wilson(rate: float, n: int) -> Interval:
    """Wilson's score interval of a rate over `n` independent rows; (0, 1) if n is 0.

    For a mean of values in [0, 1] that are not all 0 or 1 it is conservative: wider than needed, never narrower.

    Source: Wilson, 1927, J. Am. Stat. Assoc. 22.
    """
    if n == 0:
        return 0.0, 1.0
    centre = (rate + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_interval(
    values: Sequence[float], groups: Sequence[object] | None = None, seed: int = 0, is_share: bool = True
) -> Interval:
    """Percentile bootstrap of a mean.

    If all groups have the same mean, the resampled means do not vary. For shares the result is then Wilson's interval over the groups; other
    values, such as returns, have no bounds to derive one from, and the result is the mean itself.

    Args:
        values: One value for each row.
        groups: Group of each row, i.e. its task. Groups are resampled as a whole. None if all rows are independent.
        seed: Seed of the resampling.
        is_share: Whether values are in [0, 1] by their nature, as those of `SHARES` are.

    Returns:
        The interval; (0, 1) if there are no values.
    """
    if not values:
        return 0.0, 1.0
    number: dict[object, int] = {}
    codes = np.array([number.setdefault(group, len(number)) for group in (range(len(values)) if groups is None else groups)])
    sums = np.bincount(codes, weights=np.asarray(values, dtype=np.float64)).astype(np.float64)
    counts = np.bincount(codes).astype(np.float64)
    if np.ptp(sums / counts) == 0:
        mean = float(sums[0] / counts[0])
        return wilson(mean, len(sums)) if is_share else (mean, mean)
    low, high = np.quantile(_resampled_means(sums, counts, seed), [0.025, 0.975])
    return float(low), float(high)


def difference_of_means_interval(
    first: Sequence[tuple[object, float]], second: Sequence[tuple[object, float]], seed: int = 0
) -> Interval:
    """95% interval of mean(second) - mean(first) of shares, where not every row has a partner: percentile bootstrap over the groups of both.

    If the values of each side are all equal, the resampled means do not vary. The interval then is that between the ends of the sides' own intervals.

    Args:
        first: Group, i.e. task, and value of each row. A group may lack rows here or in `second`.
        second: The same of the other side.
        seed: Seed of the resampling.

    Returns:
        The interval; (-1, 1) if a side has no rows.
    """
    if not first or not second:
        return -1.0, 1.0
    number = {group: i for i, group in enumerate(dict.fromkeys(group for side in (first, second) for group, _ in side))}
    if all(np.ptp([value for _, value in side]) == 0 for side in (first, second)):
        (low_1, high_1), (low_2, high_2) = (wilson(side[0][1], len({group for group, _ in side})) for side in (first, second))
        return low_2 - high_1, high_2 - low_1
    means = []
    for side in (first, second):  # the same seed draws the same groups
        codes, values = np.array([number[group] for group, _ in side]), np.array([value for _, value in side], dtype=np.float64)
        sums, counts = (np.bincount(codes, weights, len(number)).astype(np.float64) for weights in (values, None))
        with np.errstate(invalid="ignore"):  # a draw without rows of this side has no mean
            means.append(_resampled_means(sums, counts, seed))
    low, high = np.nanquantile(means[1] - means[0], [0.025, 0.975])
    return float(low), float(high)


def _resampled_means(sums: NDArray[np.float64], counts: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    n = len(sums)
    means: list[NDArray[np.float64]] = []
    step = max(1, _DRAWS_AT_ONCE // n)
    for start in range(0, RESAMPLES, step):
        drawn = random.integers(n, size=(min(step, RESAMPLES - start), n))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    return np.concatenate(means)


def rate_interval(successes: Sequence[float], tasks: Sequence[object]) -> Interval:
    """95% interval of a rate: Wilson's, or, if tasks repeat (several episodes or seeds), a bootstrap over whole tasks.

    Args:
        successes: 0 or 1 for each episode.
        tasks: The task of each episode.
    """
    if len(set(tasks)) < len(tasks):
        return mean_interval(successes, tasks)
    return wilson(sum(successes) / len(successes) if successes else 0.0, len(successes))


def difference_interval(differences: Sequence[float], seed: int = 0, is_share: bool = True) -> Interval:
    """95% interval of a mean paired difference over the population of tasks: percentile bootstrap over tasks.

    If all differences are equal, the resampled means do not vary. For shares the interval then allows for tasks of another kind, of which
    `wilson` says that there may be as many as u = wilson(0, n): each could differ by as much as shares can. Other values have no such bound, and
    the result is the difference itself.

    Args:
        differences: Mean difference of every task.
        seed: Seed of the resampling.
        is_share: Whether they are differences of values in [0, 1], as in `mean_interval`.

    Returns:
        The interval; (-1, 1) if there are no tasks.
    """
    if not len(differences):
        return -1.0, 1.0
    values = np.asarray(differences, dtype=np.float64)
    if np.ptp(values) == 0:
        mean, others = float(values[0]), wilson(0.0, len(values))[1] if is_share else 0.0
        return mean - others * (1 + mean), mean + others * (1 - mean)
    low, high = np.quantile(_resampled_means(values, np.ones(len(values)), seed), [0.025, 0.975])
    return float(low), float(high)


def sign_flip_p(differences: Sequence[float] | NDArray[np.float64], seed: int = 0) -> float:
    """Two-sided p-value of "no difference between these agents": random sign flips per task, all of them for up to 13 tasks.

    The random flips are those of `scipy.stats.permutation_test(..., permutation_type="samples", random_state=seed)`.

    Args:
        differences: Mean difference of every task.
        seed: Seed of the flips.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not values.any():
        return 1.0
    n, observed = len(values), values.mean()
    is_exact = 2**n <= FLIPS
    means = _all_flips(values) if is_exact else _random_flips(values, seed)
    tolerance = abs(100 * np.finfo(np.float64).eps * observed)
    extra = 0 if is_exact else 1  # a random test counts the observed table as one of its flips
    less = (np.count_nonzero(means <= observed + tolerance) + extra) / (len(means) + extra)
    greater = (np.count_nonzero(means >= observed - tolerance) + extra) / (len(means) + extra)
    return float(min(1.0, 2 * min(less, greater)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for multiple tests, in the given order.

    Source: Holm, 1979, Scand. J. Stat. 6.
    """
    order = np.argsort(p_values)
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def _all_flips(values: NDArray[np.float64]) -> NDArray[np.float64]:
    bits = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
    means: NDArray[np.float64] = np.where(bits == 1, -values, values).mean(axis=1)
    return means


def _random_flips(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    random, n = np.random.RandomState(seed), len(values)
    means: list[NDArray[np.float64]] = []
    step = max(1, _DRAWS_AT_ONCE // n)
    for start in range(0, FLIPS, step):
        drawn = random.random((min(step, FLIPS - start), n, 2))
        means.append(np.where(drawn[..., 1] < drawn[..., 0], -values, values).mean(axis=1))
    return np.concatenate(means)
