"""Colours of reports and chart files, in a light and a dark scheme.

Text has a contrast of at least 4.5 to the surfaces that it stands on, and marks of charts one of at least 3 (WCAG 2.2, 1.4.3 and 1.4.11).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LIGHT: Mapping[str, str] = MappingProxyType({
    "page": "#fbfbfa", "card": "#ffffff", "text": "#1d1f23", "quiet": "#5d626a", "line": "#dcdee2", "soft": "#f1f2f4",
    "accent": "#1a63d6", "positive": "#0b6bcb", "negative": "#c2410c", "good": "#17733b", "bad": "#b42318",
    "colour-0": "#747c87", "colour-1": "#0072b2", "colour-2": "#d55e00", "colour-3": "#008f68", "colour-4": "#b3589a", "colour-5": "#a07800",
})  # fmt: skip
DARK: Mapping[str, str] = MappingProxyType({
    "page": "#15171a", "card": "#1c1f23", "text": "#e4e6e9", "quiet": "#a3aab4", "line": "#353a41", "soft": "#24282d",
    "accent": "#6ba6ff", "positive": "#5aa9f5", "negative": "#f2884b", "good": "#58c27d", "bad": "#ff8078",
    "colour-0": "#929aa5", "colour-1": "#4aa8e8", "colour-2": "#f08a3c", "colour-3": "#35c79b", "colour-4": "#d98bc4", "colour-5": "#d9b23a",
})  # fmt: skip
NUM_COLOURS = sum(name.startswith("colour-") for name in LIGHT)


def colour(index: int) -> str:
    """The `index`-th colour of series in the light scheme; the colours repeat after the last."""
    return LIGHT[f"colour-{index % NUM_COLOURS}"]


def custom_properties() -> str:
    """The colours as CSS custom properties, for pages."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in colours.items()) for colours in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


def dark_rules() -> str:
    """CSS that gives a chart drawn in the light colours the dark ones where the reader prefers them, in pages and in SVG files."""
    rules = (f'[{of}="{LIGHT[name]}"]{{{of}:{DARK[name]}}}' for name in LIGHT for of in ("fill", "stroke"))
    return f"@media (prefers-color-scheme: dark){{{''.join(rules)}}}\n"
