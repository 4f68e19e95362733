"""Pages rendered per second: our isolated browsers against selenium with one shared page, as ratios of medians in one run.

    PYTHONPATH=. python benchmarks/rendering_speed.py --tasks frontend_test.jsonl [--count 120] [--repeats 3] [--workers 2] [--all]

Selenium (pip install selenium, apt-get install chromium-driver) drives one Chromium without isolation: a file for each page, Tailwind and the photos
beside it on disk, one picture of the window. Ours: a context for each page, behind bubblewrap without a network, a picture of the whole
page and its tree of boxes. `--all` first renders every row once, and prints the outcomes and the refused requests.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.designs.design import STYLES
from sandboxes.browser import Browser
from sandboxes.pages import Page
from sandboxes.pages.placeholders import draw, picture_at
from sandboxes.pages.web_files import TAILWIND, WebFiles

_ADDRESS = re.compile(r"https?://[^\"'\s)<>]+")


def write_styled(pages: Sequence[str], folder: Path) -> list[Path]:
    """Every page as a file that loads the same style sheet and photos from the same folder."""
    files = WebFiles()
    shutil.copy(files.path(TAILWIND), folder / "tailwind.css")

    def local(match: re.Match[str]) -> str:
        url = match[0]
        if "tailwind" in url:
            return "tailwind.css"
        picture = picture_at(url)
        if picture is None:
            return "data:,"
        path = folder / f"{picture.size[0]}x{picture.size[1]}.svg"
        path.write_text(draw(picture, seed=url))
        return path.name

    written = []
    for i, html in enumerate(pages):
        path = folder / f"{i}.html"
        path.write_text(_ADDRESS.sub(local, html))
        written.append(path)
    return written


def selenium_seconds(files: Sequence[Path]) -> float:
    """One shared page, one after the other."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,720", "--disable-background-networking"):
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver"))
    )  # a path: else it asks the network
    try:
        driver.get(files[0].as_uri())
        driver.get_screenshot_as_png()
        start = time.perf_counter()
        for file in files:
            driver.get(file.as_uri())
            driver.get_screenshot_as_png()
        return time.perf_counter() - start
    finally:
        driver.quit()


def our_seconds(pages: Sequence[str], workers: int) -> tuple[float, float]:
    """With started browsers and a loaded style sheet: new pages, and the same pages again from the cache."""
    with Browser(workers) as browser:
        browser.render([Page(f"{STYLES}<p>{i}</p>") for i in range(workers)])
        start = time.perf_counter()
        browser.render([Page(html) for html in pages])
        middle = time.perf_counter()
        browser.render([Page(html) for html in pages])
        return middle - start, time.perf_counter() - middle


def render_all(pages: Sequence[str], workers: int) -> None:
    """Print the outcomes of all pages, and the refused requests."""
    start = time.perf_counter()
    with Browser(workers) as browser:
        renderings = browser.render([Page(html) for html in pages])
    took = time.perf_counter() - start
    refused = Counter(url for rendering in renderings for url in rendering.refused)
    print(f"{len(pages)} rows in {took:.0f} s: {dict(Counter(r.outcome.value for r in renderings))}")
    print(f"refused: {len(refused)} addresses in {sum(bool(r.refused) for r in renderings)} pages: {sorted(refused)[:20]}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="embedded:train")
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    rows = [task.hidden.reference for task in load_tasks(given.tasks, kind="page")]
    if given.all:
        render_all(rows, given.workers)
    pages = rows[: given.count]
    rates: dict[str, list[float]] = {"selenium": [], "ours": [], "ours, seen before": []}
    with tempfile.TemporaryDirectory() as folder:
        files = write_styled(pages, Path(folder))
        for _ in range(given.repeats):
            rates["selenium"].append(len(pages) / selenium_seconds(files))
            fresh, again = our_seconds(pages, given.workers)
            rates["ours"].append(len(pages) / fresh)
            rates["ours, seen before"].append(len(pages) / again)
    base = statistics.median(rates["selenium"])
    print(f"{len(pages)} pages, {given.repeats} repeats, {given.workers} workers, {platform.system()} {platform.machine()}")
    for name, per_second in rates.items():
        median = statistics.median(per_second)
        print(
            f"{name:20} {median:10.1f} pages/s ({min(per_second):.1f} to {max(per_second):.1f})  {median / base:8.2f} of selenium"
        )


if __name__ == "__main__":
    main()
