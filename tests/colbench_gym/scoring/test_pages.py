"""Which page an agent means."""

from __future__ import annotations

import pytest

from colbench_gym.scoring.pages import apply_edits, current_page, extract_page

PAGE = "<html><h1>Old</h1></html>"


@pytest.mark.parametrize(
    ("text", "page"),
    [
        (PAGE, PAGE),
        (f"Here it is:\n{PAGE}\nDo you like it?", PAGE),
        (f"```html\n{PAGE}\n```", PAGE),
        (f"```\nno page\n```\n```HTML\n{PAGE}\n```\n```html\n<p>other</p>\n```", PAGE),
        (f"```html\n{PAGE}", PAGE),
        (f"I WANT TO ANSWER:\n{PAGE}", PAGE),
        ("<!DOCTYPE html>\n<body>x</body> bye", "<!DOCTYPE html>\n<body>x</body>"),
        ("What colour do you like?", ""),
        ("Is 3 < 4 and 5 > 4?", ""),
        ("", ""),
    ],
)
def test_a_page_is_found_among_words(text, page):
    assert extract_page(text) == page


EDIT = "<<<<<<< SEARCH\n<h1>Old</h1>\n=======\n<h1>New</h1>\n>>>>>>> REPLACE"


def test_edits_replace_what_they_name():
    assert apply_edits(PAGE, f"Like this?\n{EDIT}") == "<html><h1>New</h1></html>"
    assert apply_edits(PAGE + PAGE, EDIT) == "<html><h1>New</h1></html>" + PAGE
    assert apply_edits(PAGE, EDIT.replace("<h1>Old", "<h1>Not there")) == PAGE
    assert apply_edits(PAGE, EDIT.replace("<h1>New</h1>\n", "\n")) == "<html></html>"
    assert apply_edits(PAGE, "no edit") is None


def test_the_last_page_counts_and_words_do_not_change_it():
    assert current_page(["hello"]) == ""
    assert current_page([PAGE, "Do you like it?", "<p>two</p>", "I WANT TO ANSWER:"]) == "<p>two</p>"
    assert current_page([PAGE, EDIT, "Good?"], has_edits=True) == "<html><h1>New</h1></html>"
    assert current_page([PAGE, EDIT]).startswith("<h1>Old</h1>")  # without edits it is a page like any other


@pytest.mark.parametrize(
    "edit",
    [
        EDIT.replace("\n", "\r\n"),
        EDIT.replace("SEARCH\n", "SEARCH \n").replace("=======\n", "=======\t\n"),
        EDIT.replace("\n", "\r"),
    ],
)
def test_edits_may_have_other_line_ends_and_blanks_behind_their_marks(edit):
    assert current_page([PAGE, edit], has_edits=True) == "<html><h1>New</h1></html>"


def test_a_broken_edit_is_no_page():
    assert current_page([PAGE, EDIT.replace("=======\n", "")], has_edits=True) == PAGE


def test_a_whole_page_counts_beside_a_broken_edit_or_the_words_for_one():
    page = "<html><p>new</p></html>"
    for text in (
        f"Instead of <<<<<<< SEARCH edits:\n```html\n{page}\n```",
        f"<<<<<<< SEARCH\n<p>o\n\nNo, better:\n```html\n{page}\n```",
        f"<<<<<<< SEARCH\n<p>o\n\nNo, a part:\n```html\n{page}\n```\n",
    ):
        assert current_page([PAGE, text], has_edits=True) == page


def test_a_page_may_show_the_mark_of_an_edit():
    page = "<html><body><pre>\n<<<<<<< SEARCH\n</pre></body></html>"
    for text in (page, f"```html\n{page}\n```"):
        assert current_page([PAGE, text], has_edits=True) == page
    assert current_page([PAGE, "<<<<<<< SEARCH\n<p>o\n\nNo:\n```html\n<div>new</div>\n```"], has_edits=True) == "<div>new</div>"
