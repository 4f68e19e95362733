"""Formatting of numbers in reports: checked, rounded and with units. Anything that is not a finite number is an em dash."""

from __future__ import annotations

import math

from colbench_gym.scoring.intervals import SHARES

Interval = tuple[float, float]
NOTHING = "\N{EM DASH}"
MINUS = "\N{MINUS SIGN}"


def number(value: object) -> float | None:
    """`value` as a float, or None for anything but a finite number (booleans are none)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer too large for a float
        return None


def interval(value: object) -> Interval | None:
    """`value` as (low, high), or None for anything but two finite numbers in that order."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return None if low is None or high is None or low > high else (low, high)


def percent(fraction: float | None) -> str:
    """0.2 as "20.0%"."""
    return NOTHING if fraction is None else f"{100 * fraction:.1f}%".replace("-", MINUS)


def percent_interval(bounds: Interval | None) -> str:
    """(0.1, 0.2) as "[10.0, 20.0]", in percent."""
    return NOTHING if bounds is None else f"[{100 * bounds[0]:.1f}, {100 * bounds[1]:.1f}]"


def measure(name: str, value: float | None) -> str:
    """A metric: those of `SHARES` in percent, others as plain numbers."""
    return percent(value) if name in SHARES else plain(value)


def measure_interval(name: str, bounds: Interval | None) -> str:
    """Interval of a metric, formatted like `measure`."""
    if name in SHARES or bounds is None:
        return percent_interval(bounds)
    return f"[{plain(bounds[0])}, {plain(bounds[1])}]"


def points(difference: float | None) -> str:
    """A difference of fractions in percentage points: 0.05 as "+5.0"."""
    return NOTHING if difference is None else f"{100 * difference:+.1f}".replace("-", MINUS)


def plain(value: float | None, digits: int = 4) -> str:
    """A number with `digits` significant digits; integers in full."""
    if value is None:
        return NOTHING
    text = f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.{digits}g}"
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def duration(seconds: float) -> str:
    """Seconds as "41 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def difference_interval(
    before: float | None, before_bounds: Interval | None, after: float | None, after_bounds: Interval | None
) -> Interval | None:
    """95% interval of `after` - `before` from the two 95% intervals, assumed to be independent (square-and-add).

    Agents evaluated on the same tasks are not independent; the interval is then usually slightly too wide.

    Source: Newcombe, Statistics in Medicine 17 (1998) 873-890, method 10.
    """
    if before is None or after is None or before_bounds is None or after_bounds is None:
        return None
    low = math.hypot(after - after_bounds[0], before_bounds[1] - before)
    high = math.hypot(after_bounds[1] - after, before - before_bounds[0])
    return (after - before - low, after - before + high)
