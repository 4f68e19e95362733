"""The built site in a browser, from disk and without a network. Build it first: `bash docs/build.sh`."""

from __future__ import annotations

import pytest

from tests.docs.blocks import ROOT

SITE = ROOT / "build" / "site"
TIMEOUT_MS = 120_000  # ends a hanging browser; a page takes less than a second on quiet cores
PAGES = [
    "index.html",
    "concepts.html",
    "results.html",
    "troubleshooting.html",
    "algorithms/sweet.html",
    "own/environment.html",
    "reference/colbench_gym.html",
    "sandboxes.html",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="The site is not built: `bash docs/build.sh`."),
]


@pytest.fixture(scope="module")
def chromium(needs_browser):
    """A Chromium without a network."""
    from playwright.sync_api import sync_playwright

    from sandboxes.pages.chromium import find_chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(find_chromium()), args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(chromium, name, width):
    """A page of the site, with what its scripts complained about and what it asked of the network."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, offline=True)
    context.set_default_timeout(TIMEOUT_MS)
    page, troubles = context.new_page(), []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: troubles.append(request.url) if request.url.startswith("http") else None)
    page.goto(f"file://{SITE / name}")
    page.wait_for_function("document.documentElement.classList.contains('js')")  # the scripts of the theme ran
    return page, troubles


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_without_a_network(chromium, name, width):
    page, troubles = opened(chromium, name, width)
    beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    broken = page.evaluate("[...document.images].filter(image => !image.naturalWidth).map(image => image.src)")
    assert not troubles and not broken and beyond <= 0, (troubles, broken, beyond)
    assert page.inner_text("article h1").strip("¶ \n")
    page.context.close()


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (ROOT / "docs" / "algorithms").glob("*.md") if path.stem != "index")
)
def test_equations_are_drawn_and_fit(chromium, name):
    page, _ = opened(chromium, f"algorithms/{name}.html", 1280)
    heights = page.evaluate("[...document.querySelectorAll('math')].map(math => math.getBoundingClientRect().height)")
    beyond = page.evaluate("[...document.querySelectorAll('.equation')].map(one => one.scrollWidth - one.clientWidth)")
    assert heights and min(heights) > 15 and max(beyond) <= 0
    page.context.close()


def test_search_works_from_disk(chromium):
    page, troubles = opened(chromium, "algorithms/index.html", 1280)
    page.fill("input.md-search__input", "standardized")
    page.wait_for_function(  # a key that is pressed before the theme listens is lost: press again
        """document.querySelector("input.md-search__input").dispatchEvent(new KeyboardEvent("keyup")) &&
        document.querySelectorAll(".md-search-result__item").length > 0"""
    )
    found = page.evaluate("[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)")
    assert any("grpo.html" in link for link in found) and not troubles
    page.context.close()
