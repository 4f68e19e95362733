"""Render one page in a fresh browser context: its permitted requests, and its picture."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

from sandboxes.pages.boxes import SNAPSHOT_ERRORS, STYLES, Found, visible_boxes
from sandboxes.pages.marks import Marks
from sandboxes.pages.page import Box, Page, PageOutcome, Rendering
from sandboxes.pages.seen import Look
from sandboxes.pages.styles import is_plain
from sandboxes.pages.web_files import WebFile, WebFiles, drawn_picture

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Request, Route
    from playwright.async_api import Page as Tab

#: Address of a page. It does not exist in the DNS.
ADDRESS = "http://page.invalid/"
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline' http: https:; img-src http: https: data:; font-src data:; media-src 'none'; "
    "form-action 'none'; frame-src 'none'; base-uri http: https:; script-src {scripts}"
)
#: Stops animations: finite ones are shown at their end, infinite ones at their start.
_STAND_STILL = """
for (const a of document.getAnimations()) {
  try {
    if (a.effect.getComputedTiming().endTime !== Infinity) a.finish();
    else { a.pause(); a.currentTime = 0; }
  } catch (e) { a.cancel(); }
}"""
#: Longest time in seconds that a browser takes to close a page's context.
CLOSE_S = 5
MAX_REFUSED = 50
#: Maximal number of answered requests of a page. ColBench's test pages have at most 7 addresses.
MAX_ANSWERED = 200


async def new_context(browser: Browser, page: Page) -> BrowserContext:
    """A context without state, which renders the same everywhere."""
    return await browser.new_context(
        java_script_enabled=page.scripts,
        service_workers="block",
        accept_downloads=False,
        viewport={"width": page.width, "height": page.height},
        device_scale_factor=1,
        locale="en-US",
        timezone_id="UTC",
        reduced_motion="reduce",
        color_scheme="light",
    )


async def render(browser: Browser, page: Page, files: WebFiles, picture: bool = True) -> Rendering:
    """Load a page in its own context, compute its boxes and, if wanted, its picture, and discard the context.

    Raises:
        playwright.async_api.Error: If the page's process, or the browser, ends.
        TimeoutError: If the browser does not close the context.
    """
    from playwright.async_api import Error

    context = await new_context(browser, page)
    requests = _Requests(page, files)
    browser.on("disconnected", requests.note_end)
    work, end = asyncio.ensure_future(_looked_at(context, page, requests, picture)), asyncio.ensure_future(requests.end.wait())
    try:
        # A call to a process that has ended may never return.
        await asyncio.wait((work, end), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Error("The page's process, or the browser, has ended.")
        return work.result()
    finally:
        browser.remove_listener("disconnected", requests.note_end)
        work.cancel()
        end.cancel()
        async with asyncio.timeout(CLOSE_S):  # a browser that has stopped answers nothing
            await asyncio.gather(work, end, return_exceptions=True)
            await context.close()


async def _looked_at(context: BrowserContext, page: Page, requests: _Requests, picture: bool) -> Rendering:
    tab = await _load(context, page, requests)
    return await _look(await context.new_cdp_session(tab), page, requests, picture)


async def _load(context: BrowserContext, page: Page, requests: _Requests) -> Tab:
    await context.route("**/*", requests.answer)
    tab = await context.new_page()
    tab.on("crash", requests.note_end)
    if page.scripts:  # scripts need an address and a separate policy
        await context.route_web_socket("**", lambda socket: socket.close())
        tab.on("popup", lambda popup: popup.close())
        await tab.goto(ADDRESS, wait_until="load", timeout=0)
    else:
        requests.has_begun = True
        await tab.set_content(requests.files.inlined(page.html), wait_until="load", timeout=0)
    return tab


async def _look(session: CDPSession, page: Page, requests: _Requests, picture: bool) -> Rendering:
    await session.send("Runtime.evaluate", {"expression": _STAND_STILL})
    snapshot = await _snapshot(session)
    page_height, height, layout = _read(snapshot, page)
    shot = await _shoot(session, page, height) if picture or not layout.is_all_seen else b""
    boxes = layout.boxes if layout.is_all_seen else await _seen(session, page, height, layout, shot)
    return Rendering(
        PageOutcome.OK,
        shot if picture else b"",
        page.width,
        height,
        page_height,
        boxes,
        tuple(dict.fromkeys(requests.refused))[:MAX_REFUSED],
    )


async def _seen(session: CDPSession, page: Page, height: int, layout: Found, whole: bytes) -> tuple[Box, ...]:
    """The visible boxes; none if the pictures of the page differ in size."""
    look = Look(layout.boxes, layout.owners, whole)
    marks = Marks(look.pictures[1])
    await session.send("Runtime.evaluate", {"expression": marks.mark()})
    for taken in look.pictures:
        await session.send("Runtime.evaluate", {"expression": marks.without(taken)})
        try:
            look.add(await _shoot(session, page, height))
        except ValueError:
            return ()
    return await asyncio.to_thread(look.seen)  # other pages continue meanwhile


async def _shoot(session: CDPSession, page: Page, height: int) -> bytes:
    """The picture, PNG."""
    shot: dict[str, Any] = await session.send(
        "Page.captureScreenshot",
        {
            "format": "png",
            "optimizeForSpeed": True,
            "captureBeyondViewport": height > page.height,
            "clip": {"x": 0, "y": 0, "width": page.width, "height": height, "scale": 1},
        },
    )
    return base64.b64decode(shot["data"])


async def _snapshot(session: CDPSession) -> dict[str, Any]:
    snapshot: dict[str, Any] = await session.send("DOMSnapshot.captureSnapshot", {"computedStyles": list(STYLES)})
    return snapshot


def _read(snapshot: dict[str, Any], page: Page) -> tuple[int, int, Found]:
    """Heights of the whole page and of its picture, and the boxes.

    Raises:
        playwright.async_api.Error: If the page's process has not sent a valid snapshot: it may be compromised.
    """
    from playwright.async_api import Error

    try:
        whole = max(round(snapshot["documents"][0].get("contentHeight", 0)), page.height)
        height = min(whole, page.max_height)
        return whole, height, visible_boxes(snapshot, page.width, height, is_plain(page.html) and not page.scripts)
    except SNAPSHOT_ERRORS as error:
        raise Error(f"The page's process has sent a broken snapshot ({error!r}).") from error


class LayoutTab:
    """A tab that lays out one page after the other, without pictures: for trusted pages, which need not be isolated from each other."""

    def __init__(self, tab: Tab, session: CDPSession, requests: _Requests) -> None:
        self._tab, self._session, self._requests = tab, session, requests

    def fits(self, page: Page) -> bool:
        """True for a page with this tab's width and height."""
        return (page.width, page.height) == (self._requests.page.width, self._requests.page.height)

    @classmethod
    async def open(cls, browser: Browser, page: Page, files: WebFiles) -> LayoutTab:
        """A tab for pages with the width and height of this page."""
        context = await new_context(browser, page)
        requests = _Requests(page, files)
        tab = await _load(context, page, requests)
        return cls(tab, await context.new_cdp_session(tab), requests)

    async def lay_out(self, page: Page) -> Rendering:
        """A rendering with boxes and no picture."""
        await self._tab.set_content(self._requests.files.inlined(page.html), wait_until="load", timeout=0)
        snapshot = await _snapshot(self._session)
        page_height, height, layout = _read(snapshot, page)
        return Rendering(PageOutcome.OK, b"", page.width, height, page_height, layout.boxes)


class _Requests:
    """Answers the requests of a page: the page itself once, the files in `WebFiles`, and nothing else."""

    def __init__(self, page: Page, files: WebFiles) -> None:
        self.page, self.files = page, files
        self.refused: list[str] = []
        self.answered = 0
        self.has_begun = False
        self.end = asyncio.Event()

    def note_end(self, _: Any) -> None:
        """The page's process, or the browser, has ended."""
        self.end.set()

    async def answer(self, route: Route) -> None:
        request = route.request
        if request.is_navigation_request():
            await self._navigation(route)
        elif file := self._file(request):
            self.answered += 1
            await route.fulfill(body=file.body, content_type=file.content_type)
        else:
            self._note(request.url)
            await route.abort()

    def _file(self, request: Request) -> WebFile | None:
        if self.answered >= MAX_ANSWERED:
            return None
        file = self.files.answer(request.url, self.page.html, self.page.scripts)
        return file or (drawn_picture(request.url) if request.resource_type == "image" else None)

    async def _navigation(self, route: Route) -> None:
        if self.has_begun:  # anything else would replace the page, or blank it
            self._note(route.request.url)
            await route.fulfill(status=204)
            return
        self.has_begun = True
        scripts = "'unsafe-inline' 'unsafe-eval'" if self.page.scripts else "'none'"
        await route.fulfill(
            body=self.page.html.encode("utf-8", "replace"),
            content_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": _POLICY.format(scripts=scripts), "Content-Type": "text/html; charset=utf-8"},
        )

    def _note(self, url: str) -> None:
        if len(self.refused) < 10 * MAX_REFUSED:
            self.refused.append(url[:500])
