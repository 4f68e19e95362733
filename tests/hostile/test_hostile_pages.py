"""Pages that ended the run: each is rendered, or is a page that cannot be rendered. None raises."""

from __future__ import annotations

import math
from random import Random

import gymnasium as gym
import pytest

pytest.importorskip("playwright")

import colbench_gym  # noqa: F401  (registers the environment)
from colbench_gym.simulators.pages.scripted_designer import ScriptedDesigner
from colbench_gym.tasks import load_tasks
from sandboxes.browser import Browser
from sandboxes.pages import Page, PageOutcome
from sandboxes.pages.boxes import SNAPSHOT_ERRORS, visible_boxes
from sandboxes.pages.placeholders import UNKNOWN_SIZE, photo, picture_at
from sandboxes.pages.styles import MAX_NUMBER, number, solid_colour
from sandboxes.pages.web_files import TAILWIND, WebFiles

TASK = load_tasks("embedded:train[:1]", kind="page")[0]
LINK = '<link rel="stylesheet" href="{}"><p>x'
ADDRESSES = [
    "", "//[", "http://[::1/a.png", "http://[]/tailwindcss@2/tailwind.css", "http://a℀b/tailwindcss@2/tailwind.css", "http://⒈com/",
    "http://\ud800/tailwindcss@2/tailwind.css", "http://picsum.photos:999999/3", "\x00", "http://[v1.x]/", "https://picsum.photos\\300",
]  # fmt: skip
PAGES = {
    **{f"link to {address!r}": LINK.format(address) for address in ADDRESSES},
    "images at all of them": "".join(f'<img src="{address}">' for address in ADDRESSES) + "<p>x",
    "link without an address": '<link rel="stylesheet"><p>x',
    "photo of 5,000 digits": f'<img src="https://picsum.photos/{"9" * 5000}/{"9" * 5000}"><p>x',
    "photo in Arabic digits": '<img src="https://picsum.photos/٣٠٠/٢٠٠"><p>x',
    "photo in superscripts": '<img src="https://picsum.photos/²/²"><p>x',
    "lone surrogate": "<p>x\ud800",
    "lone surrogate in a class": LINK.format("https://x.org/tailwindcss@2/tailwind.css") + '<p class="p-4 \udfff">x',
    "nul": "<p title='\0'>x\0",
    **{f"600 nested {tag}": f"<{tag}>" * 600 + "x" for tag in ("div", "b", "span", "font", "table><tr><td", "ul><li", "blockquote")},
    "oklch": '<p style="background:oklch(0.7 0.1 200);color:oklch(none 0.1 none)">x',
    "display-p3": '<p style="background:color(display-p3 1 0 0);color:color(display-p3 none 1 0 / 0.7)">x',
    "infinite": '<p style="font-size:calc(infinity*1px);border:calc(infinity*1px) solid red;opacity:calc(infinity)">x',
    "infinite colour": '<p style="background:lab(50 calc(-infinity) calc(infinity));color:oklch(.5 .1 calc(infinity))">x',
    "infinite in sRGB": '<p style="background:color(srgb calc(infinity) 0 0)">x',
    "no number": '<p style="font-size:calc(NaN*1px);opacity:calc(NaN)">x<p style="width:calc(-infinity*1px);margin:calc(infinity*1px)">y',
    "none": '<p style="background:oklab(none none none);color:lab(none none none / none);font-size:none">x',
    "tiny": '<p style="opacity:1e-30;zoom:1e-30">x<p style="zoom:1e30;border:1e-30px solid">y',
    "frames": "<frameset><frame src=x></frameset>",
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(needs_browser):
    with Browser(workers=1, pictures=False) as browser:
        yield browser


@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_rendered_and_talked_about(browser, name):
    (rendering,) = browser.render([Page(PAGES[name], timeout_s=60)])
    assert rendering.outcome in (PageOutcome.OK, PageOutcome.CRASH)
    env = gym.make("ColBench-Frontend-v0", tasks=[TASK], sandbox=browser, simulator=ScriptedDesigner(browser, "chatty"))
    env.reset(seed=0)
    reply = env.step(f"```html\n{PAGES[name]}<p>\n```")[4]["messages"][-1]["content"]
    assert reply and reply.encode()
    _, reward, terminated, _, info = env.step("I WANT TO ANSWER:")
    assert terminated and 0 <= reward <= 1 and info["metrics"]["outcome"] in ("rendered", "crash", "timeout")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("style", "colour"),
    [
        ("rgb(10 20 30 / 0.6)", (10, 20, 30)), ("hsl(120 100% 50%)", (0, 255, 0)), ("oklch(0.7 0.1 200)", (64, 177, 183)),
        ("color-mix(in srgb, red, blue)", (128, 0, 128)), ("oklab(0.5 0.1 0.1)", (161, 66, 3)), ("lab(50 20 30)", (161, 105, 69)),
        ("lch(50 20 30)", (151, 108, 103)), ("color(display-p3 .2 .5 .7)", (0, 130, 183)), ("color(srgb 1 .5 0)", (255, 128, 0)),
        ("color(srgb-linear .2 .5 .3)", (124, 188, 149)), ("color(rec2020 .6 .5 .2)", (179, 137, 48)), ("color(xyz .5 .5 .5)", (204, 183, 180)),
        ("color(xyz-d50 .5 .5 .5)", (190, 185, 207)), ("color(prophoto-rgb .5 .5 .2)", (161, 146, 36)), ("rgb(1 2 3 / .4)", None),
    ],
)  # fmt: skip
def test_every_notation_of_a_colour_is_read_as_it_is_painted(browser, style, colour):
    """The expected colours are those of Chromium's pictures."""
    (rendering,) = browser.render([Page(f'<div style="background:{style};border:1px solid red">x</div>', timeout_s=60)])
    assert next(box.background for box in rendering.boxes if box.tag == "div") == colour


@pytest.mark.browser
def test_mutated_pages_are_rendered(browser):
    rng = Random(0)
    pages = [Page(_mutated(TASK.hidden.reference, rng)) for _ in range(20)]
    assert {rendering.outcome for rendering in browser.render(pages)} <= set(PageOutcome)


def _mutated(html, rng):
    snippets = [
        *PAGES.values(),
        "<",
        ">",
        '"',
        "style='",
        "\0",
        "\ud800",
        "</div>",
        "<div",
        "calc(infinity)",
        "none",
        "<!--",
        "<svg>",
        "<template>",
    ]
    for _ in range(rng.randint(1, 6)):
        start = rng.randrange(len(html))
        html = html[:start] + rng.choice(snippets) + html[start + rng.choice((0, 1, 5, 50)) :]
    return html


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_has_an_answer_or_none(tmp_path, address):
    (tmp_path / TAILWIND.name).write_text(".a{top:0}")
    files = WebFiles(tmp_path)
    file = files.answer(address)
    assert file is None or "picsum.photos" in address or "tailwind" in address
    assert files.inlined(LINK.format(address)).endswith("<p>x")


def test_photos_have_sizes_in_ascii_digits_and_any_seed():
    sizes = [picture_at(f"https://picsum.photos/{path}").size for path in ("٣٠٠/٢٠٠", "9" * 1000, "²", "0/0")]
    assert sizes == [UNKNOWN_SIZE, (4000, 4000), UNKNOWN_SIZE, (1, 1)]
    assert photo(3, 2, "\ud800").startswith("<svg")


@pytest.mark.parametrize(
    ("style", "value"),
    [
        ("16px", 16), ("3.35544e+07px", MAX_NUMBER), ("1e-30", 1e-30), ("calc(infinity * 1px)", MAX_NUMBER), ("calc(-infinity * 1px)", -MAX_NUMBER),
        ("calc(NaN * 1px)", 7), ("none", 7), ("", 7), (".", 7), ("1.2.3", 1.2), ("1e999", MAX_NUMBER), ("٣px", 7),
    ],
)  # fmt: skip
def test_every_style_is_a_number(style, value):
    assert number(style, 7) == value and math.isfinite(number(style))


@pytest.mark.parametrize(
    "style", ["", "none", "rgb", "rgb(", "rgb()", "rgb(1, 2)", "color(--x 1 0 0)", "color(rec2100-pq 1 0 0)", "hwb(1 2 3)"]
)
def test_a_colour_that_is_not_known_is_none(style):
    assert solid_colour(style) is None


@pytest.mark.parametrize(
    "snapshot", [{}, {"strings": [], "documents": []}, {"strings": 1, "documents": [{"nodes": {}, "layout": {}}]}]
)
def test_a_broken_snapshot_is_one_of_the_listed_errors(snapshot):
    with pytest.raises(SNAPSHOT_ERRORS):
        visible_boxes(snapshot, 1280, 720)
