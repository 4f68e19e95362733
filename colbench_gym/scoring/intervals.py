"""95% confidence intervals of the two numbers that a benchmark reports. Needs only numpy.

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
_DRAWS_AT_ONCE = 1_000_000

Interval = tuple[float, float]


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


def mean_interval(values: Sequence[float], groups: Sequence[object] | None = None, seed: int = 0) -> Interval:
    """Percentile bootstrap of the mean of values in [0, 1].

    If all groups have the same mean, the resampled means do not vary. The result is then Wilson's interval over the groups.

    Args:
        values: One value for each row.
        groups: Group of each row, i.e. its task. Groups are resampled as a whole. None if all rows are independent.
        seed: Seed of the resampling.

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
        return wilson(float(np.clip(sums[0] / counts[0], 0.0, 1.0)), len(sums))
    low, high = np.quantile(_resampled_means(sums, counts, seed), [0.025, 0.975])
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
