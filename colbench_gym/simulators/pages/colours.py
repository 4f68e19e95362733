"""Names of colours as people use them."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np

from colbench_gym.scoring.blocks import to_lab

#: Upper bound of the hue of each name, in degrees.
_HUES = ((14, "red"), (24, "brown"), (44, "orange"), (66, "yellow"), (165, "green"), (190, "teal"), (231, "blue"), (250, "indigo"),
         (292, "purple"), (346, "pink"), (361, "red"))  # fmt: skip
_LIGHT, _DARK = 80.0, 42.0


def colour_name(colour: Sequence[int]) -> str:
    """A colour in words: "dark green", "light grey", "white".

    Args:
        colour: Red, green and blue in [0, 255].
    """
    lightness, a, b = to_lab(np.array(colour))
    chroma = float(np.hypot(a, b))
    if lightness > 98 and chroma < 3:
        return "white"
    if lightness < 6:
        return "black"
    shade = "light " if lightness > _LIGHT else "dark " if lightness < _DARK else ""
    if chroma < (4 if lightness > 90 else 13):
        return f"{shade}grey"
    hue = 360 * colorsys.rgb_to_hsv(*(part / 255 for part in colour))[0]
    name = next(name for end, name in _HUES if hue < end)
    if name in ("brown", "orange"):
        return "brown" if lightness < 45 else f"{shade}orange"
    return f"{shade}{name}"
