"""Colours: enough contrast in both schemes, and rules for viewers that know no custom properties."""

from __future__ import annotations

import pytest

from sweetrl_agent.reporting.palette import DARK, LIGHT, NUM_COLOURS, custom_properties, dark_rules

SCHEMES = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])


def contrast(one, other):
    """Contrast of two colours: WCAG 2.2, relative luminance."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_the_standards():
    assert contrast("#ffffff", "#000000") == pytest.approx(21) and contrast("#777777", "#ffffff") == pytest.approx(
        4.48, abs=0.01
    )


@SCHEMES
@pytest.mark.parametrize("ground", ["page", "card", "soft"])
def test_texts_can_be_read(colours, ground):
    for name in ("text", "quiet", "accent", "positive", "negative", "good", "bad"):
        assert contrast(colours[name], colours[ground]) >= 4.5, name


@SCHEMES
def test_marks_can_be_seen(colours):
    for name in (f"colour-{i}" for i in range(NUM_COLOURS)):
        assert contrast(colours[name], colours["card"]) >= 3, name


def test_both_schemes_have_all_colours():
    assert LIGHT.keys() == DARK.keys() and NUM_COLOURS == 6
    assert custom_properties().count("--colour-5:") == 2 and "prefers-color-scheme: dark" in custom_properties()


def test_a_chart_in_light_colours_has_the_dark_ones_in_the_dark_scheme():
    rules = dark_rules()
    assert rules.startswith("@media (prefers-color-scheme: dark){") and len(set(LIGHT.values())) == len(LIGHT)
    for name in LIGHT:
        assert (
            f'[fill="{LIGHT[name]}"]{{fill:{DARK[name]}}}' in rules
            and f'[stroke="{LIGHT[name]}"]{{stroke:{DARK[name]}}}' in rules
        )
