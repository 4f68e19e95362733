"""One page in a fresh browser context: what it may ask for, and its picture."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sandboxes.pages.boxes import STYLES, visible_boxes
from sandboxes.pages.page import Page, PageOutcome, Rendering
from sandboxes.pages.web_files import WebFiles

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Route

#: Where a page lives: an address that no name server knows.
ADDRESS = "http://page.invalid/"
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline' http: https:; img-src http: https: data:; font-src data:; media-src 'none'; "
    "form-action 'none'; frame-src 'none'; base-uri http: https:; script-src {scripts}"
)
#: Ends what moves: what comes to an end is shown at its end, what goes on for ever at its beginning.
_STAND_STILL = """
for (const a of document.getAnimations()) {
  try { a.effect.getComputedTiming().endTime === Infinity ? a.cancel() : a.finish(); } catch (e) { a.cancel(); }
}"""
MAX_REFUSED = 50


async def render(browser: Browser, page: Page, files: WebFiles) -> Rendering:
    """Load a page in a context of its own, look at it, and throw the context away.

    Raises:
        playwright.async_api.Error: If the page's process, or the browser, ends.
    """
    context = await browser.new_context(
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
    try:
        return await _look(context, page, _Requests(page, files))
    finally:
        await context.close()


async def _look(context: BrowserContext, page: Page, requests: _Requests) -> Rendering:
    await context.route("**/*", requests.answer)
    if page.scripts:
        await context.route_web_socket("**", lambda socket: socket.close())
    tab = await context.new_page()
    tab.on("popup", lambda popup: popup.close())
    await tab.goto(ADDRESS, wait_until="load", timeout=0)
    session = await context.new_cdp_session(tab)
    await session.send("Runtime.evaluate", {"expression": _STAND_STILL})
    snapshot: dict[str, Any] = await session.send("DOMSnapshot.captureSnapshot", {"computedStyles": list(STYLES)})
    page_height = max(round(snapshot["documents"][0].get("contentHeight", 0)), page.height)
    height = min(page_height, page.max_height)
    shot: dict[str, Any] = await session.send(
        "Page.captureScreenshot",
        {
            "format": "png",
            "optimizeForSpeed": True,
            "captureBeyondViewport": height > page.height,
            "clip": {"x": 0, "y": 0, "width": page.width, "height": height, "scale": 1},
        },
    )
    return Rendering(
        PageOutcome.OK,
        base64.b64decode(shot["data"]),
        page.width,
        height,
        page_height,
        visible_boxes(snapshot, page.width, height),
        tuple(dict.fromkeys(requests.refused))[:MAX_REFUSED],
    )


class _Requests:
    """Answers what the page asks for: itself once, the files that we have, and nothing else."""

    def __init__(self, page: Page, files: WebFiles) -> None:
        self.page, self.files = page, files
        self.refused: list[str] = []
        self.has_begun = False

    async def answer(self, route: Route) -> None:
        request = route.request
        if request.is_navigation_request():
            await self._navigation(route)
        elif file := self.files.answer(request.url, self.page.html, self.page.scripts):
            await route.fulfill(body=file.body, content_type=file.content_type)
        else:
            self._note(request.url)
            await route.abort()

    async def _navigation(self, route: Route) -> None:
        if self.has_begun:  # anything else would replace the page, or blank it
            self._note(route.request.url)
            await route.fulfill(status=204)
            return
        self.has_begun = True
        scripts = "'unsafe-inline' 'unsafe-eval'" if self.page.scripts else "'none'"
        await route.fulfill(
            body=self.page.html,
            content_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": _POLICY.format(scripts=scripts), "Content-Type": "text/html; charset=utf-8"},
        )

    def _note(self, url: str) -> None:
        if len(self.refused) < 10 * MAX_REFUSED:
            self.refused.append(url[:500])
