"""Pages as people show them in Markdown."""

from __future__ import annotations

import pytest

from colbench_gym.scoring.pages import current_page, extract_page

from .page_forms import FORMS

PAGES = (
    "<html>\n<head>\n  <title>T</title>\n</head>\n\n<body>\n    <h1>Hello</h1>\n\n    <p>a &lt; b</p>\n</body>\n</html>",
    '<!DOCTYPE html>\n<html>\n<body class="x">\n  <div>\n\n    <p>One</p>\n  </div>\n</body>\n</html>',
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_what_a_reader_of_markdown_sees(form, page):
    lines = extract_page(FORMS[form](page)).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if form == "no-break spaces":  # a fence that is indented takes as much indentation from its lines
        lines, page = [line.strip() for line in lines], "\n".join(line.strip() for line in page.split("\n"))
    assert "\n".join(lines) == page


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
def test_a_page_may_hold_fences(fence):
    page = "<html>\n<body>\n<pre>\n```python\nx\n```\n</pre>\n<p>and\n```\ny\n```\n</p>\n</body>\n</html>"
    assert extract_page(f"Here:\n\n{fence}html\n{page}\n{fence}\n\nGood?") == page
    assert extract_page("<div>\n```\nx\n```\n</div>") == "<div>\n```\nx\n```\n</div>"


def test_a_fragment_is_a_page_where_there_is_no_document():
    assert extract_page("```css\np { color: red }\n```\n```html\n<style></style><p>x</p>\n```") == "<style></style><p>x</p>"
    assert extract_page("```html\n<h1>a</h1>\n```\nor\n```html\n<h1>b</h1>\n```") == "<h1>b</h1>"
    assert extract_page("```jsx\n<div>x</div>\n```") == "<div>x</div>"


def test_css_in_a_fence_of_its_own_goes_into_a_page_without_style():
    page, css = "<html><head></head><body><p>x</p></body></html>", "p > a { color: red }\n"
    styled = f"<html><head><style>\n{css}</style>\n</head><body><p>x</p></body></html>"
    assert extract_page(f"```html\n{page}\n```\n\n```css\n{css}```") == styled
    assert extract_page(f"```css\n{css}```\n\n{page}") == styled
    assert extract_page(f"```html\n<p>x</p>\n```\n```css\n{css}```") == f"<style>\n{css}</style>\n<p>x</p>"


@pytest.mark.parametrize(
    "text",
    [
        "What colour?",
        "```css\np { color: red }\n```",
        "```python\nprint(1)\n```",
        "```html\n```",
        "```js\nlet a = 1 < 2;\n```",
        "Is 3 < 4 and 5 > 4?",
        "",
    ],
)
def test_what_is_no_page(text):
    assert extract_page(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "The page above, its `<h1>` is centred.", "Should the `<button>` be blue?", "I used a <div> for the card. Is 5 > 3?", "Is an <img> or a <link> wanted?",
        "Do you mean `<b>this</b>` or that?", "Is 5 < 6 and 7 > 6?",
    ],
)  # fmt: skip
def test_a_tag_that_prose_mentions_is_no_page(text):
    assert extract_page(text) == ""
    assert current_page([PAGES[0], text]) == PAGES[0]


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("<div>\n<p>Hi</p>\n</div>\nThis is > 90% similar.", "<div>\n<p>Hi</p>\n</div>"),
        ("Here: <DIV><p>x</p></DIV> Good?", "<DIV><p>x</p></DIV>"),
        ("I WANT TO ANSWER: `<div>Hi</div>`", "<div>Hi</div>"),
        ("Its `<p>` is new:\n\n<p>a</p>\n<img src='b.png'>\n\nGood?", "<p>a</p>\n<img src='b.png'>"),
        ("- <p>a</p>\n- <p>b</p>", "<p>a</p>\n- <p>b</p>"),
        ("> <div>\n> <p>a</p>\n> </div>", "<div>\n<p>a</p>\n</div>"),
        ("```html\n<center><b>Hi</b></center>\n```", "<center><b>Hi</b></center>"),
        ("```svg\n<svg></svg>\n```", "<svg></svg>"),
        ("```python\nx = '<b>'\n```", ""),
        ("```html\n<div>page</div>\n```\n```svg\n<svg></svg>\n```", "<div>page</div>"),
        ("```html\n<div>page</div>\n```\n```html\n<script>go()</script>\n```", "<div>page</div>"),
        ("```html\nif a <b then\n```", ""),
        ("Here: `<!doctype html><html><h1>Hi</h1></html>` Good?", "<!doctype html><html><h1>Hi</h1></html>"),
        ("`<div><h1>Hi</h1></div>`\nGood?", "<div><h1>Hi</h1></div>"),
        ("See `<!DOCTYPE html><html><h1>Hi</h1></html>` for it.", "<!DOCTYPE html><html><h1>Hi</h1></html>"),
        ("Here is the page: `<div><h1>Hi</h1></div>`.", "<div><h1>Hi</h1></div>"),
        ("**`<h1>Hi</h1>`**\nok?", "<h1>Hi</h1>"),
        ("The tag is `<p>x</p>`.\n\n<div>real</div>", "<div>real</div>"),
        ("Page: <p>Hello<p>World</p> Good?", "<p>Hello<p>World</p>"),
        ("I made this: <img src='cat.png'> ok", "<img src='cat.png'>"),
    ],
)
def test_a_page_in_prose_ends_with_its_last_tag(text, page):
    assert extract_page(text) == page


@pytest.mark.parametrize(
    "text",
    ["Look: <img " + "=" * 60_000, '<img src="data:' + "a=b&" * 20_000, "`<p>a</p>` " * 20_000, "<a " * 60_000, "`<" * 60_000],
)
def test_a_page_takes_time_that_is_linear_in_the_text(text):
    assert len(extract_page(text)) <= len(text)
