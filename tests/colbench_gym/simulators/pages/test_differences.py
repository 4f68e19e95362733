"""What a person says who sees two pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colbench_gym.simulators.pages.differences import MAX_DICTATED_CHARS, Difference, differences
from colbench_gym.simulators.pages.scripted_designer import sentences
from sandboxes.pages import Box, PageOutcome, Rendering

BODY = Box("block", "body", 0, 0, 1280, 720, background=(255, 255, 255))
HEADER = Box("block", "header", 0, 0, 1280, 100, background=(6, 95, 70), parent=0)
TITLE = Box("text", "h1", 20, 20, 300, 40, "Fresh bread", (255, 255, 255), font_size=32, parent=1)
PHOTO = Box("image", "img", 800, 200, 400, 300, parent=0)
TEXT = Box("text", "p", 200, 550, 600, 20, "Baked every morning", parent=0)
BUTTON = Box("control", "button", 200, 600, 120, 40, background=(6, 95, 70), parent=0)
LABEL = Box("text", "button", 210, 610, 100, 20, "Order now", (255, 255, 255), parent=5)
BOXES = (BODY, HEADER, TITLE, PHOTO, TEXT, BUTTON, LABEL)


def _said(own, wanted=BOXES):
    pages = [Rendering(PageOutcome.OK, b"", 1280, 720, 720, tuple(boxes)) for boxes in (own, wanted)]
    return [difference.sentence for difference in differences(*pages)]


def _with(old, **changes):
    return [replace(box, **changes) if box is old else box for box in BOXES]


def test_of_the_same_page_nothing_is_said():
    assert _said(BOXES) == []


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (_with(BODY, background=(31, 41, 55)), "The background of the page should be white."),
        (_with(HEADER, background=(59, 130, 246)), "The bar at the top should be dark green."),
        (_with(HEADER, background=(16, 185, 129)), "The bar at the top should be dark green."),
        (_with(BUTTON, background=(239, 68, 68)), 'The button "Order now" should be dark green.'),
        (_with(TITLE, text="Fresh fish"), 'It should say "Fresh bread" where it says "Fresh fish".'),
        (_with(TITLE, text="Wholly other"), 'It should say "Fresh bread" where it says "Wholly other".'),
        (_with(TITLE, font_size=16), 'The words "Fresh bread" should be much larger.'),
        (_with(TEXT, colour=(239, 68, 68)), 'The words "Baked every morning" should be black.'),
        (_with(PHOTO, x=0), "The photo should be on the right."),
        (_with(PHOTO, y=20), "The photo should be further down."),
        (_with(PHOTO, width=200, height=150, x=900, y=275), "The photo should be wider."),
        ([b for b in BOXES if b is not PHOTO], "A photo is missing on the right, 400 wide and 300 high."),
        ([b for b in BOXES if b is not TEXT], 'The words "Baked every morning" are missing in the middle, under "Fresh bread".'),
        ([b for b in BOXES if b not in (BUTTON, LABEL)], 'A button "Order now" is missing on the left, under "Baked every morning".'),
        ([*BOXES, replace(PHOTO, x=0, y=200)], "There should be no photo on the left, under \"Fresh bread\"."),
        ([*BOXES, replace(TEXT, y=680, text="Bye")], 'The words "Bye" should not be there.'),
    ],
)  # fmt: skip
def test_a_difference_is_said_as_a_person_would(own, sentence):
    assert sentence in _said(own)


def test_what_stands_out_more_is_said_first():
    said = _said(_with(BODY, background=(31, 41, 55))[:3] + [TEXT, BUTTON, LABEL])
    assert said[0].startswith("The background") and any("photo" in sentence for sentence in said[1:3])


def test_nothing_is_said_in_the_words_of_html():
    said = " ".join(_said([]))
    assert not any(word in said.lower() for word in ("<", "div", "class", "px", "html", "css", "#", "rgb", "h1", "bg-"))


def test_a_long_text_is_dictated_as_far_as_a_person_would_and_then_left_alone():
    long = replace(TEXT, text="Every loaf is made by hand. " * 20)
    (said,) = _said([b for b in BOXES if b is not TEXT], [long if b is TEXT else b for b in BOXES])
    dictated = said.partition('"')[2].partition('"')[0]
    assert 150 < len(dictated) <= MAX_DICTATED_CHARS and dictated.endswith("...")
    assert _said(_with(TEXT, text=dictated), [long if b is TEXT else b for b in BOXES]) == []


def test_what_was_said_in_vain_comes_after_other_points():
    found = [Difference(1.0, "First."), Difference(0.6, "Second."), Difference(0.4, "Third.")]
    assert sentences(found, [], "terse") == ["First."]
    assert sentences(found, ["First."], "terse") == ["Second."]
    assert sentences(found, ["First.", "Second."], "normal") == ["First.", "Third."]
    assert sentences(found, ["First. Second.", "First. Third."], "chatty") == ["Second.", "First.", "Third."]
