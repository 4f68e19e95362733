"""Formatting of numbers in reports: rounded and with units. None is an em dash."""

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


def points_interval(bounds: Interval | None) -> str:
    """Interval of a difference of fractions, formatted like `points`."""
    return NOTHING if bounds is None else f"[{points(bounds[0])}, {points(bounds[1])}]"


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
