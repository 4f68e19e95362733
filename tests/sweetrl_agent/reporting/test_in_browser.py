"""Reports, the index and chart files in a real browser: no error, no request, marks in every chart, and texts that can be read.

All at 400 and 1200 pixels, in the light and the dark scheme; bounding boxes and colours are those that the browser computes.
"""

from __future__ import annotations

import pytest

pytest.importorskip("playwright")

from sandboxes.pages.chromium import FLAGS, find_chromium
from sweetrl_agent.reporting.chart_file import comparison_chart_names
from sweetrl_agent.reporting.comparison import write_comparison
from sweetrl_agent.reporting.index import write_index
from sweetrl_agent.reporting.run_report import write_report

from .made_up import ATTACK, COLUMNS, CRITICS, TITLES, write_comparison_folder, write_run_folder

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("needs_browser")]
VIEWS = [(400, "light"), (400, "dark"), (1200, "light"), (1200, "dark")]
TIMEOUT_MS = 120_000

#: Functions of the page that find what is wrong with it; they return sentences.
LOOK = r"""
(() => {
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && element.getClientRects().length > 0;
  const said = (element) => element.textContent.trim().slice(0, 40);
  // Elements that have text of their own, with the boxes of that text.
  const texts = (root) => [...root.querySelectorAll("*")].filter((e) => shown(e) && !["OPTION", "SCRIPT", "STYLE", "title"].includes(e.tagName))
    .flatMap((element) => [...element.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim()).map((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return { element, box: element.namespaceURI.endsWith("svg") ? element.getBoundingClientRect() : range.getBoundingClientRect() };
    }));
  const cut = (one, other) => Math.min(Math.min(one.right, other.right) - Math.max(one.left, other.left), Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top));
  const parse = (colour) => {
    const numbers = colour.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
    const scale = colour.startsWith("color(") ? 255 : 1;
    return { rgb: numbers.slice(0, 3).map((part) => part * scale), alpha: numbers[3] ?? 1 };
  };
  const over = (top, bottom) => top.rgb.map((part, i) => part * top.alpha + bottom[i] * (1 - top.alpha));
  const ground = (element) => {
    const card = element.closest("body > svg")?.querySelector("rect");
    if (card) return parse(getComputedStyle(card).fill).rgb;
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const luminance = (rgb) => rgb.map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (colour, element) => {
    const below = ground(element), both = [luminance(over(parse(colour), below)), luminance(below)].sort((a, b) => a - b);
    return (both[1] + 0.05) / (both[0] + 0.05);
  };
  const MARKS = "[aria-label=mean], [aria-label=interval], [aria-label=end], .mark-symbol [aria-label=seed]";
  window.look = {
    wide() {
      const found = document.documentElement.scrollWidth > innerWidth ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
      const scrolls = (element) => element.closest(".scroll, pre, .filmstrip, #list") || getComputedStyle(element).position === "absolute";
      return found.concat([...document.body.querySelectorAll("*")].filter((e) => shown(e) && !scrolls(e) && e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => `${e.tagName} ${said(e)} ends at ${e.getBoundingClientRect().right}`));
    },
    overlaps() {
      const found = [];
      for (const root of document.querySelectorAll(".chart, .card, header, .runs, body > svg")) {
        const all = texts(root);
        all.forEach((one, i) => all.slice(i + 1).forEach((other) => {
          if (one.element !== other.element && cut(one.box, other.box) > 1.5) found.push(`${said(one.element)} | ${said(other.element)}`);
        }));
      }
      return found;
    },
    pale() {
      const words = texts(document.body).map(({ element }) => {
        const style = getComputedStyle(element);
        return [contrast(element.namespaceURI.endsWith("svg") ? style.fill : style.color, element), 4.5, said(element)];
      });
      const marks = [...document.querySelectorAll(MARKS)].filter(shown).map((mark) => {
        const style = getComputedStyle(mark);
        const colour = mark.getAttribute("fill") && !mark.getAttribute("stroke") ? style.fill : style.stroke;
        return [contrast(colour, mark), 3, mark.getAttribute("aria-label")];
      });
      return [...words, ...marks].filter(([found, least]) => found < least).map(([found, least, what]) => `${what}: ${found.toFixed(2)} of ${least}`);
    },
    empty() {
      return [...document.querySelectorAll(".chart, body > svg")].filter(shown).filter((chart) => {
        const marks = [...chart.querySelectorAll(MARKS)].map((mark) => mark.getBoundingClientRect());
        return !marks.some((box) => box.width + box.height > 3);
      }).map((chart) => `${said(chart)} has no marks`);
    },
    small() {
      return [...document.querySelectorAll(".chart svg text")].filter(shown).filter((text) => text.getBoundingClientRect().height < 11)
        .map((text) => `${said(text)} is ${text.getBoundingClientRect().height} high`);
    },
  };
})();
"""


@pytest.fixture(scope="module")
def chromium(needs_browser):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", *FLAGS], timeout=TIMEOUT_MS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Function: path of a page or text of an SVG file, width, scheme -> the page, of which all folds are open."""
    contexts, troubles = [], []

    def open_page(source, width, scheme):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("request", lambda request: troubles.append(f"request: {request.url}") if request.url != page_url else None)
        page_url = source.as_uri() if hasattr(source, "as_uri") else "about:blank"
        if hasattr(source, "as_uri"):
            page.goto(page_url)
        else:
            page.set_content(f'<!doctype html><meta name="color-scheme" content="light dark"><body>{source}')
        page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        page.evaluate(LOOK)
        page.wait_for_function(
            "[...document.querySelectorAll('[data-chart]')].every((figure) => figure.classList.contains('drawn'))", polling=100
        )
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def looked_at(page, *questions):
    return {question: found for question in questions if (found := page.evaluate(f"look.{question}()"))}


def test_what_is_wrong_with_a_page_is_found(opened):
    bad = """<style>.chart { background: white; width: 300px } .page { width: 900px } p { color: #999 }</style>
        <figure class="chart page"><p>pale</p><svg class="plot"><text x="10" y="20">one text</text><text x="30" y="24">over another</text>
        <text x="10" y="60" font-size="7">small</text><circle aria-label="mean" fill="#ddd" cx="90" cy="90" r="4"></circle></svg></figure>
        <figure class="chart"><svg class="plot"></svg></figure>"""
    found = looked_at(opened(bad, 400, "light"), "wide", "overlaps", "pale", "empty", "small")
    assert found["wide"][0].startswith("the page is 9") and found["overlaps"] == ["one text | over another"]
    assert [text.split(":")[0] for text in found["pale"]] == ["pale", "mean"]
    assert len(found["empty"]) == 1 and [text.split()[0] for text in found["small"]] == ["small"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The report of a comparison and of a run, and the index of both."""
    folder = tmp_path_factory.mktemp("runs")
    compared = write_comparison(write_comparison_folder(folder / "compare"), TITLES, CRITICS, COLUMNS)
    return {"comparison": compared, "run": write_report(write_run_folder(folder / "one")), "index": write_index(folder)}


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
@pytest.mark.parametrize("name", ["comparison", "run", "index"])
def test_a_page_can_be_read(name, width, scheme, pages, opened):
    page = opened(pages[name], width, scheme)
    assert looked_at(page, "wide", "overlaps", "pale", "empty", "small") == {}


def test_the_script_draws_curves_and_dialogues_beside_charts_without_a_stage(pages, opened):
    """A chart of the page itself has no data of the script: looking for some once stopped the script, and with it the dialogues."""
    page = opened(pages["comparison"], 1200, "light")
    assert page.locator("figure[data-chart] svg.marks").count() == 13 == page.locator("figure[data-chart]").count()
    assert page.locator("#curves figure").count() == 5 and page.locator("#curves .mark-line path").count() > 5
    assert "15 of 15 dialogues" in page.locator("#count").inner_text() and page.locator("#list button").count() == 15
    assert page.locator("article.dialogue .amount").count() >= 5 and ATTACK in page.locator("#dialogues").inner_text()
    assert page.locator("img").count() == 0 and page.locator("h3", has_text=f"critic {ATTACK}").count() == 1


def test_curves_are_drawn_over_what_the_reader_chooses(pages, opened):
    page = opened(pages["comparison"], 1200, "light")
    figure = page.locator("#curves figure").first
    metric, axis = figure.locator("select").all()
    names = ["steps", "episodes", "agent turns", "generated tokens", "trained tokens", "wall time in s"]
    assert axis.locator("option").all_inner_texts() == names
    line = figure.locator(".mark-line [aria-label=mean]")
    assert figure.locator(".mark-line [aria-label=seed]").count() == 6 and line.count() == 2
    drawn = line.first.get_attribute("d")
    metric.select_option(label="loss")
    page.wait_for_function(
        "(d) => document.querySelector('#curves .mark-line [aria-label=mean]').getAttribute('d') !== d", arg=drawn
    )
    axis.select_option(label="wall time in s")
    figure.locator(".role-axis-label text", has_text="14").wait_for()
    figure.locator("svg.marks").scroll_into_view_if_needed()
    box = figure.locator("svg.marks").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] * 0.6)
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert page.locator("#vg-tooltip-element").inner_text().endswith(" at 15: 0.1667")


def test_the_index_is_sorted_and_filtered(pages, opened):
    page = opened(pages["index"], 1200, "light")

    def column(number):
        return [row.locator("th, td").nth(number).inner_text() for row in page.locator("tbody tr").all() if row.is_visible()]

    page.locator("thead button", has_text="test").click()
    assert [text.split()[0] for text in column(5)] == ["10.0%", "20.0%", "20.0%", "30.0%", "40.0%", "40.0%", "50.0%"]
    page.locator("thead button", has_text="test").click()
    assert column(5)[0] == "50.0% [45.0, 55.0]" and page.locator("[aria-sort=descending]").count() == 1
    page.locator("#search").fill("comparison rft")
    assert column(1) == ["rft"]
    page.locator("#search").fill("")
    links = {link.get_attribute("href") for link in page.locator("tbody a").all()}
    assert links == {"compare/report.html", "one/report.html"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chart_files_can_be_read(scheme, pages, opened):
    charts = comparison_chart_names(pages["comparison"].parent, TITLES, CRITICS)
    assert {"scores", "paired", "best_of_n", "scaling", "dials", "simulators", "curves", "curves_grpo"} <= charts.keys()
    for name, chart in charts.items():
        page = opened(chart.svg(), 1200, scheme)
        assert (name, looked_at(page, "overlaps", "pale", "empty")) == (name, {})
        outside = page.evaluate(
            "[...document.querySelectorAll('body > svg text')].filter((text) => text.getBoundingClientRect().right >"
            " document.querySelector('body > svg').getBoundingClientRect().right).map((text) => text.textContent)"
        )
        assert (name, outside) == (name, [])
