"""Pages in a real Chromium: what is seen, what is refused, and that nothing gets out or survives."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("playwright")
from PIL import Image

from sandboxes import SandboxError
from sandboxes.browser import Browser, LayoutBrowser, make_browser
from sandboxes.interpreter import BUBBLEWRAP
from sandboxes.pages import Page, PageOutcome, Rendering
from sandboxes.pages.chromium import EXECUTABLE_VARIABLE
from sandboxes.pages.page import TIMEOUT_VARIABLE, RenderingCache
from sandboxes.pages.web_files import WebFiles

from ..runs import wait_until
from .hostile_pages import HOSTILE, WITH_SCRIPTS

pytestmark = pytest.mark.browser
ROWS = Path(__file__).resolve().parents[4] / "shared" / "colbench" / "frontend_test.jsonl"
LINK = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'


@pytest.fixture(scope="module")
def browser(needs_browser):
    with Browser(workers=2) as browser:
        yield browser


@pytest.fixture(scope="module")
def listener():
    """A port of this machine and what was heard there."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(1)
                    heard.append(connection.recv(200))

        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)


def _pixels(rendering):
    with Image.open(io.BytesIO(rendering.picture)) as image:
        return np.asarray(image.convert("RGB"))


def test_a_page_is_seen_as_a_person_sees_it(browser):
    html = (
        '<body style="margin:0;background:#fff"><div style="background:rgb(10,120,30);height:100px"><h1 style="margin:0">Fresh  bread</h1></div>'
        '<p style="color:rgb(200,0,0);display:none">hidden</p><img src="https://picsum.photos/200/100" width=200 height=100><input placeholder="Your name"><p>plain</p>'
    )
    (rendering,) = browser.render([Page(html)])
    assert rendering.outcome is PageOutcome.OK and (rendering.width, rendering.height) == (1280, 720)
    pixels = _pixels(rendering)
    assert (
        pixels.shape == (720, 1280, 3)
        and tuple(pixels[90, 1200]) == (10, 120, 30)
        and tuple(pixels[300, 1200]) == (255, 255, 255)
    )
    kinds = [(box.kind, box.tag, box.text) for box in rendering.boxes]
    assert kinds == [
        ("block", "body", ""), ("block", "div", ""), ("text", "h1", "Fresh bread"), ("image", "img", ""),
        ("control", "input", "Your name"), ("text", "p", "plain"),
    ]  # fmt: skip
    header, title = rendering.boxes[1:3]
    assert (header.x, header.y, header.width, header.height, header.background) == (0, 0, 1280, 100, (10, 120, 30))
    assert title.font_size == 32 and title.parent == 1 and rendering.boxes[5].parent == 0


def test_real_pages_are_styled(browser):
    html = (
        f'<html>{LINK}<body><div class="bg-green-500 w-1/2 h-16 md:flex"><a class="text-white text-4xl font-bold">x</a></div>'
    )
    (rendering,) = browser.render([Page(html)])
    block, text = rendering.boxes
    assert (block.background, block.width, block.height) == ((16, 185, 129), 640, 64)
    assert (text.colour, text.font_size) == ((255, 255, 255), 36.0)
    assert rendering.refused == ()


def test_what_a_page_does_not_use_of_a_style_sheet_changes_no_pixel(browser):
    if not ROWS.exists():
        pytest.skip(f"no real rows at {ROWS}")
    with ROWS.open() as file:
        pages = [Page(json.loads(line)["ground_truth"]) for line, _ in zip(file, range(6), strict=False)]
    purged = browser.render(pages)
    with Browser(workers=2, files=_WholeSheets()) as other:
        whole = other.render(pages)
    assert {r.outcome for r in purged + whole} == {PageOutcome.OK}
    assert [r.picture for r in purged] == [r.picture for r in whole]
    assert [r.boxes for r in purged] == [r.boxes for r in whole]
    assert all(r.refused == () for r in purged)


class _WholeSheets(WebFiles):
    def answer(self, url, html="", has_scripts=False):
        return super().answer(url, html, has_scripts=True)


def test_photos_are_drawn_in_their_size_and_always_the_same(browser):
    pages = [
        Page(f'<body style="margin:0"><img src="https://picsum.photos/id/48/{size}">')
        for size in ("640/480", "300", "640/480?x")
    ]
    (wide, square, other) = browser.render(pages)
    assert [(b.width, b.height) for r in (wide, square, other) for b in r.boxes] == [(640, 480), (300, 300), (640, 480)]
    assert len(np.unique(_pixels(wide)[:480, :640].reshape(-1, 3), axis=0)) > 4
    assert (_pixels(wide) != _pixels(other)).any()  # another address, another photo


def test_the_same_page_gives_the_same_picture_in_another_browser(browser):
    page = Page(
        "<h1>Same</h1><style>@keyframes a{from{opacity:0}to{opacity:1}}h1{animation:a 9s}</style><input autofocus value=x>"
    )
    with Browser(workers=1) as other:
        assert other.render([page]) == browser.render([page])


def test_pages_are_as_high_as_they_are_up_to_a_limit(browser):
    low, high, too_high = browser.render(
        [Page(f'<body style="margin:0"><div style="height:{h}px">x') for h in (10, 1500, 99_999)]
    )
    assert [r.height for r in (low, high, too_high)] == [720, 1500, 4000]
    assert too_high.page_height == 99_999 and _pixels(too_high).shape == (4000, 1280, 3)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_contained(browser, listener, name):
    port, heard = listener
    start = time.process_time()
    html = HOSTILE[name].format(port=port)
    page = Page(html, scripts=name in WITH_SCRIPTS, timeout_s=4)
    (rendering,) = browser.render([page])
    assert time.process_time() - start < 25, "the host is kept busy"
    assert not any("root:" in box.text or box.text == "ran" for box in rendering.boxes)
    assert rendering.width <= 1280 and rendering.height <= 4000
    assert heard == []
    if name == "a loop":
        assert rendering.outcome is PageOutcome.TIMEOUT
    healthy = browser.render([Page(f"<p>after {name}</p>")])[0]
    assert healthy.outcome is PageOutcome.OK and healthy.boxes[0].text == f"after {name}"


def test_what_was_asked_for_and_refused_is_said(browser):
    (rendering,) = browser.render(
        [
            Page(
                '<link rel="stylesheet" href="http://example.com/a.css"><link rel="stylesheet" href="http://example.com/a.css"><p>x'
            )
        ]
    )
    assert rendering.refused == ("http://example.com/a.css",)


def test_the_walls_hold_without_our_answers(browser, listener, tmp_path):
    """The namespace alone, with no route between page and network."""
    from playwright.sync_api import Error, sync_playwright

    from sandboxes.pages.chromium import write_embedded_launcher

    port, heard = listener
    launcher = write_embedded_launcher(tmp_path)
    (tmp_path / "secret.txt").write_text("root: secret")
    with sync_playwright() as playwright:
        bare = playwright.chromium.launch(executable_path=str(launcher), chromium_sandbox=True)
        tab = bare.new_page()
        for address in (
            f"http://127.0.0.1:{port}/",
            f"file://{tmp_path}/secret.txt",
            "file:///etc/passwd",
            f"file://{Path.home()}",
        ):
            with pytest.raises(
                Error, match="ERR_(CONNECTION_REFUSED|FILE_NOT_FOUND|ACCESS_DENIED|INTERNET_DISCONNECTED|ADDRESS_UNREACHABLE)"
            ):
                tab.goto(address)
        bare.close()
    assert heard == []


def _browsers(pids):
    """Those of the processes that are browsers, or their walls."""
    return {pid for pid in pids if b"--remote-debugging-pipe" in _command_line(pid)}


def _command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # those of pages that are done end by themselves
            os.kill(pid, signal.SIGKILL)


def test_a_killed_browser_costs_no_page(browser, descendants, monkeypatch):
    before, mine = _browsers(descendants(os.getpid())), set()
    answer = WebFiles.answer

    def kill_and_answer(files, url, *page):
        if "/id/10/" in url and not mine:  # page 10 is half loaded
            mine.update(_browsers(descendants(os.getpid())) - before)
            _kill(mine)
        return answer(files, url, *page)

    monkeypatch.setattr(WebFiles, "answer", kill_and_answer)
    with Browser(workers=2) as killed:
        made = killed.render([Page(f'<p>page {i}</p><img src="https://picsum.photos/id/{i}/9">') for i in range(30)])
        assert mine and wait_until(lambda: not mine & _browsers(descendants(os.getpid())))
    assert [r.boxes[0].text for r in made] == [f"page {i}" for i in range(30)]


def test_nothing_is_left_when_it_is_closed(browser, descendants):
    before = set(descendants(os.getpid()))
    closed = Browser(workers=1)
    closed.render([Page("<p>x")])
    folder = closed._engine._folder
    assert set(descendants(os.getpid())) - before
    closed.close()
    closed.close()
    assert set(descendants(os.getpid())) <= before and not Path(folder).exists()
    assert closed.render([Page("<p>x")])[0].outcome is PageOutcome.OK  # from memory


def test_a_copy_renders_by_itself(browser):
    with pickle.loads(pickle.dumps(browser)) as copy:
        assert copy.render([Page("<p>copy")])[0].boxes[0].text == "copy"


def test_several_threads_render_at_once(browser):
    made = {}
    threads = [threading.Thread(target=lambda i=i: made.update({i: browser.render([Page(f"<p>{i}")])})) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {i: r[0].boxes[0].text for i, r in made.items()} == {i: str(i) for i in range(6)}


def test_a_rendering_is_remembered_until_others_are_used_more_recently():
    rendering = Rendering(PageOutcome.OK, b"png", 2, 3, 3, (), ("http://x",))
    small = RenderingCache(most=1)
    small.put("a", rendering)
    small.put("b", rendering)
    assert small.get("a") is None and small.get("b") is rendering


def test_a_page_that_is_too_large_is_not_even_tried():
    with Browser(workers=1, launcher=_never) as browser:
        assert browser.render([Page("x" * 1_000_001)])[0].outcome is PageOutcome.TOO_LARGE


def _never(folder):
    raise AssertionError("no browser is needed")


def test_the_time_limit_of_a_page_can_be_raised_for_a_busy_machine(monkeypatch):
    monkeypatch.delenv(TIMEOUT_VARIABLE)
    assert Page("").timeout_s == 6
    monkeypatch.setenv(TIMEOUT_VARIABLE, "20")
    assert Page("").timeout_s == 20 and Page("", timeout_s=2).timeout_s == 2
    monkeypatch.setenv(TIMEOUT_VARIABLE, "long")
    with pytest.raises(ValueError, match=r"COLBENCH_PAGE_TIMEOUT_S must be a number of seconds, got 'long'"):
        Page("")


@pytest.mark.parametrize("wrong", [{"width": 0}, {"height": 5000}, {"max_height": 10_000}, {"timeout_s": 0.0}])
def test_pages_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        Page("x", **wrong)


@pytest.mark.bubblewrap
def test_without_a_browser_it_is_said_what_to_do(monkeypatch, is_missing):
    if not Path(BUBBLEWRAP).exists():
        is_missing(f"{BUBBLEWRAP} is missing: `apt-get install bubblewrap`.")
    monkeypatch.setenv(EXECUTABLE_VARIABLE, "/no/such/program")
    with Browser() as browser, pytest.raises(SandboxError, match="names no program"):
        browser.render([Page("x")])


def test_trusted_pages_are_laid_out_in_one_tab_and_untrusted_ones_never_there(browser):
    pages = [Page(f"<h1>Title {i}</h1><p>Words</p>") for i in range(4)]
    with LayoutBrowser(workers=1) as layouts:
        renderings = layouts.render([*pages, pages[0]])
        assert [rendering.boxes for rendering in renderings[:4]] == [rendering.boxes for rendering in browser.render(pages)]
        assert renderings[0] is renderings[4] and {rendering.picture for rendering in renderings} == {b""}
        (seat,) = layouts._engine._seats
        tab, chromium = seat._layouts, seat._browser
        layouts.render([Page("<p>Another</p>")])
        assert (seat._layouts, seat._browser) == (tab, chromium)
        (untrusted,) = layouts._engine.render([Page("<p>Not ours</p>")], are_trusted=False)
        assert [box.text for box in untrusted.boxes if box.text] == ["Not ours"] and untrusted.picture == b""
        assert seat._layouts is None and seat._browser is not chromium
        assert layouts.render([Page("<p>Ours again</p>", width=800)])[0].width == 800


def test_no_specification_makes_a_browser_that_trusts_its_pages():
    for name in ("_is_trusted", "is_trusted"):
        with pytest.raises(ValueError, match=f"got an unexpected keyword argument '{name}'"):
            make_browser({"name": "embedded", name: True})


def test_boxes_alone_are_the_same_boxes_and_never_taken_for_a_picture(browser):
    pages = [Page("<h1>Boxes</h1><img src='https://picsum.photos/200/100'>"), Page("<p>More</p>")]
    cache = RenderingCache()
    with Browser(workers=1, cache=cache, pictures=False) as blind:
        boxes = blind.render(pages)
        blind.pictures = True  # what it has started cannot take any
        with pytest.raises(SandboxError, match="`pictures` was False for the first page; make another Browser"):
            blind.render([Page("<p>New</p>")])
    assert [r.picture for r in boxes] == [b"", b""]
    with Browser(workers=1, cache=cache) as seeing:
        whole = seeing.render(pages)
    assert all(r.picture for r in whole)
    assert [(r.outcome, r.boxes, r.width, r.height) for r in boxes] == [(r.outcome, r.boxes, r.width, r.height) for r in whole]
