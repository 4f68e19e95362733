"""The block score: where it is 1, where it is 0, and that each of its numbers sees what it is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colbench_gym.scoring.blocks import CELL, colour_distance, compare, distance, paint, to_lab
from colbench_gym.scoring.texts import text_likeness
from sandboxes.pages import Box, PageOutcome, Rendering

HEADER = Box("block", "header", 0, 0, 1280, 100, background=(20, 80, 20))
TITLE = Box("text", "h1", 20, 20, 300, 40, "Fresh bread", (255, 255, 255), font_size=32, parent=0)
PHOTO = Box("image", "img", 200, 200, 400, 300)
TEXT = Box("text", "p", 200, 550, 600, 20, "Baked every morning")
BUTTON = Box("control", "button", 200, 600, 120, 40, background=(20, 80, 20))
BOXES = (HEADER, TITLE, PHOTO, TEXT, BUTTON)


def _page(*boxes, height=720):
    return Rendering(PageOutcome.OK, b"", 1280, height, height, boxes)


PAGE, EMPTY = _page(*BOXES), _page()


def test_identical_pages_score_one_in_everything():
    found = compare(PAGE, PAGE)
    assert found.score.total == 1.0 and len(found.pairs) == 5 and not found.missing and not found.extra


def test_an_empty_page_scores_only_for_the_ground_that_it_shares():
    score = compare(EMPTY, PAGE).score
    assert (score.matched, score.text, score.place, score.colour) == (0, 0, 0, 0)
    assert 0.8 < score.ground < 1 and compare(PAGE, EMPTY).score == score
    assert compare(EMPTY, EMPTY).score.total == 1.0
    assert compare(Rendering(PageOutcome.CRASH), PAGE).score.total < 0.05


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (replace(PHOTO, x=800), "place"),
        (replace(TEXT, text="Baked every evening"), "text"),
        (replace(TEXT, colour=(200, 0, 0)), "colour"),
        (replace(HEADER, background=(200, 0, 0)), "ground"),
    ],
)
def test_each_number_sees_what_it_is_for_and_nothing_else(changed, part):
    boxes = [changed if (b.kind, b.tag) == (changed.kind, changed.tag) else b for b in BOXES]
    score = compare(_page(*boxes), PAGE).score
    lower = {name for name in ("matched", "text", "place", "colour", "ground") if getattr(score, name) < 1}
    assert lower == {part}


@pytest.mark.parametrize("missing", [TITLE, PHOTO, TEXT, BUTTON])
def test_what_is_missing_is_found_and_costs(missing):
    found = compare(_page(*(box for box in BOXES if box is not missing)), PAGE)
    assert found.missing == (missing,) and not found.extra
    assert found.score.matched < 1 and found.score.place < 1
    back = compare(PAGE, _page(*(box for box in BOXES if box is not missing)))
    assert back.extra == (missing,) and back.score.total == pytest.approx(found.score.total)


def test_texts_are_paired_by_what_they_say_not_by_where_they_are():
    left, right = replace(TEXT, x=0, text="apples and pears"), replace(TEXT, x=900, text="nuts and bolts")
    swapped = compare(_page(replace(left, x=900), replace(right, x=0)), _page(left, right))
    assert sorted((a.text, b.text) for a, b in swapped.pairs) == [("apples and pears",) * 2, ("nuts and bolts",) * 2]
    assert swapped.score.text == 1 and swapped.score.place < 0.5


def test_a_higher_page_shares_less_ground():
    assert compare(_page(HEADER), _page(HEADER, height=1440)).score.ground == pytest.approx(0.5)


def test_later_boxes_are_painted_over_earlier_ones():
    ground = paint(_page(HEADER, replace(BUTTON, x=0, y=0, width=CELL, height=CELL, background=(1, 2, 3))))
    assert ground.shape == (36, 64, 3)
    assert tuple(ground[0, 0]) == (1, 2, 3) and tuple(ground[0, 1]) == (20, 80, 20) and tuple(ground[10, 0]) == (255, 255, 255)


def test_colours_are_as_far_apart_as_people_see_them():
    assert colour_distance((0, 0, 0), (255, 255, 255)) == pytest.approx(1, abs=1e-3)
    assert colour_distance((250, 0, 0), (255, 0, 0)) < 0.03 < colour_distance((255, 0, 0), (0, 255, 0))
    np.testing.assert_allclose(to_lab(np.array([255, 0, 0])), [53.24, 80.09, 67.20], atol=0.02)  # published value of sRGB red


@given(st.text(max_size=30), st.text(max_size=30))
def test_likeness_of_texts_is_symmetric_and_bounded(a, b):
    assert 0 <= text_likeness(a, b) == text_likeness(b, a) <= 1 and text_likeness(a, a) == 1


def test_likeness_of_texts_is_dices():
    assert text_likeness("night", "nacht") == 0.25 and text_likeness("A b", "ab") == 1


def test_distance_is_of_centres_and_at_most_one():
    assert distance(PHOTO, replace(PHOTO, x=840), 1280, 720) == 0.5
    assert distance(PHOTO, replace(PHOTO, y=9000), 1280, 720) == 1
