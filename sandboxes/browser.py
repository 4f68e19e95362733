"""Render untrusted pages to pictures and boxes, in persistent headless Chromiums without access to network or files.

    with Browser() as browser:
        (rendering,) = browser.render([Page("<h1>Hello</h1>")])
    rendering.outcome, rendering.width, rendering.boxes[0].text       # PageOutcome.OK, 1280, "Hello"

Every page has its own browser context. It gets the files of `pages.web_files`; all other requests are refused. A page that takes too long
or crashes its process is an outcome, and the browser is then replaced. Renderings are cached.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import sandboxes
from sandboxes.extras import pip_install
from sandboxes.named import Spec, build, load_named, name_and_arguments
from sandboxes.pages.chromium import BROWSER_IMAGE, FLAGS, write_embedded_launcher, write_unsafe_launcher
from sandboxes.pages.container import write_docker_launcher
from sandboxes.pages.page import MAX_CHARS, Page, PageOutcome, Rendering, RenderingCache
from sandboxes.pages.tab import LayoutTab, render
from sandboxes.pages.web_files import WebFiles
from sandboxes.sandbox import SandboxError

if TYPE_CHECKING:
    from playwright import async_api

#: Number of attempts for a page after its process ended: another page may have caused the first failure.
TRIES = 2
_LAUNCH_TIMEOUT_MS = 30_000
Launcher = Callable[[Path], Path]


def make_browser(name: Spec = "auto", workers: int = 2, pictures: bool = True) -> Browser:
    """Build a renderer by name. Nothing is started before the first page.

    Args:
        name: "embedded" (bubblewrap), "docker" (containers of the image of `python -m sandboxes build browser`), or "auto": Docker if
            a daemon answers and has that image, else embedded. "unsafe-no-isolation" opens pages with the rights of this
            process: only for pages that you wrote yourself. "package.module:Class" is a `Browser` of your own. A mapping has such a
            name under "name", and keyword arguments.
        workers: Number of browsers, each of which renders one page at a time.
        pictures: False to compute only boxes, which takes less time.

    Raises:
        ValueError: If the name is unknown, the class is no `Browser`, or an argument is unknown to it.
    """
    backend, arguments = name_and_arguments("sandbox", name)
    defaults: dict[str, Any] = {"workers": workers, "pictures": pictures}
    if ":" in backend:
        sandboxes.check_name(backend, Browser, ("render", "close"))
        made: Browser = build("sandbox", backend, load_named("sandbox", backend), arguments, defaults)
        return made
    resolved, _ = sandboxes.resolve(backend, BROWSER_IMAGE)
    launchers = {
        "embedded": write_embedded_launcher,
        "docker": write_docker_launcher,
        "unsafe-no-isolation": write_unsafe_launcher,
    }
    built: Browser = build("sandbox", backend, Browser, {**defaults, "launcher": launchers[resolved], **arguments})
    return built


class Browser:
    """A pool of browsers that render pages in parallel. Thread-safe; use it as a context manager or call `close`.

    Args:
        workers: Number of browsers, each of which renders one page at a time.
        files: Files that pages may load; None for the default folder.
        cache: Cache of renderings; None for one in memory.
        launcher: Function that writes a script into a folder, which starts an isolated Chromium; None for bubblewrap.
        pictures: False to compute only boxes; pictures are then empty. It may be changed until the first page.
    """

    _is_trusted = False  # of the class, so that no specification of a browser can set it

    def __init__(
        self,
        workers: int = 2,
        files: WebFiles | None = None,
        cache: RenderingCache | None = None,
        launcher: Launcher = write_embedded_launcher,
        pictures: bool = True,
    ) -> None:
        """Nothing is started before the first page."""
        if workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {workers}.")
        self.workers, self.launcher, self.pictures = workers, launcher, pictures and not self._is_trusted
        self.files = files or WebFiles()
        self.cache = cache if cache is not None else RenderingCache()
        self._lock = threading.Lock()
        self._engine: _Engine | None = None
        self._owner = os.getpid()

    def render(self, pages: Sequence[Page]) -> list[Rendering]:
        """Render pages. Results are in the same order, and equal pages are rendered once.

        Raises:
            SandboxError: If no browser can be started. The message says what to do. A page never causes this error.
        """
        renderings: dict[str, Rendering] = {}
        wanted: dict[str, Page] = {}
        keys = [page.key() if self.pictures else f"{page.key()}-boxes" for page in pages]
        for key, page in zip(keys, pages, strict=True):
            if key in renderings or key in wanted:
                continue
            if len(page.html) > MAX_CHARS:
                renderings[key] = Rendering(PageOutcome.TOO_LARGE)
            elif (known := self.cache.get(key)) is not None:
                renderings[key] = known
            else:
                wanted[key] = page
        if wanted:
            made = self._started().render(list(wanted.values()), self._is_trusted)
            for key, rendering in zip(wanted, made, strict=True):
                renderings[key] = rendering
                if rendering.outcome is PageOutcome.OK:
                    self.cache.put(key, rendering)
        return [renderings[key] for key in keys]

    def _started(self) -> _Engine:
        with self._lock:
            if self._engine is None or self._owner != os.getpid():  # a forked process has neither the thread nor the pipes
                self._engine, self._owner = _Engine(self.workers, self.files, self.launcher, self.pictures), os.getpid()
            if self._engine.pictures != self.pictures:
                raise SandboxError(f"`pictures` was {self._engine.pictures} for the first page; make another Browser.")
            return self._engine

    def close(self) -> None:
        """End the browsers. A second call does nothing."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None and self._owner == os.getpid():
            engine.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("workers", "files", "cache", "launcher", "pictures")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class LayoutBrowser(Browser):
    """Boxes of trusted pages, without pictures or separate contexts and several times as fast; for agents that write no HTML of their own.

    It can replace a `Browser` if no page has scripts and no pictures are needed; pages of one width and height share a tab. A page that cannot
    be laid out is a `SandboxError`. Never use it for a page that an agent wrote.
    """

    _is_trusted = True


class _Engine:
    """The browsers, driven by Playwright in a separate thread."""

    def __init__(self, workers: int, files: WebFiles, launcher: Launcher, pictures: bool) -> None:
        self._files, self.pictures = files, pictures
        self._folder = tempfile.mkdtemp(prefix="colbench-browser-")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="browsers", daemon=True)
        self._thread.start()
        try:
            self._launcher = launcher(Path(self._folder))
            self._run(self._start(workers))
        except BaseException:
            self.close()
            raise

    def render(self, pages: Sequence[Page], are_trusted: bool) -> list[Rendering]:
        for page in pages:
            self._files.prepare(page.html)
        renderings: list[Rendering] = self._run(self._lay_out_all(pages) if are_trusted else self._render_all(pages))
        return renderings

    def close(self) -> None:
        if self._loop.is_running():
            with contextlib.suppress(Exception):  # the browser may have ended already
                self._run(self._stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self, workers: int) -> None:
        try:
            from playwright.async_api import async_playwright
        except ImportError:
            raise SandboxError(f"Rendering needs Playwright: `{pip_install('[frontend]')}`.") from None
        self._playwright = await async_playwright().start()
        self._free: asyncio.Queue[_Seat] = asyncio.Queue()
        self._seats = [_Seat(self._playwright.chromium, str(self._launcher), self.pictures) for _ in range(workers)]
        for seat in self._seats:
            self._free.put_nowait(seat)

    async def _stop(self) -> None:
        for seat in getattr(self, "_seats", []):
            await seat.leave()
        if hasattr(self, "_playwright"):
            await self._playwright.stop()

    async def _render_all(self, pages: Sequence[Page]) -> list[Rendering]:
        return list(await asyncio.gather(*(self._render(page) for page in pages)))

    async def _lay_out_all(self, pages: Sequence[Page]) -> list[Rendering]:
        size = -(-len(pages) // len(self._seats))
        parts = await asyncio.gather(*(self._lay_out(pages[i : i + size]) for i in range(0, len(pages), max(size, 1))))
        return [rendering for part in parts for rendering in part]

    async def _lay_out(self, pages: Sequence[Page]) -> list[Rendering]:
        async with self._seat() as seat:
            return await seat.lay_out(pages, self._files)

    async def _render(self, page: Page) -> Rendering:
        async with self._seat() as seat:
            return await seat.render(page, self._files)

    @contextlib.asynccontextmanager
    async def _seat(self) -> AsyncIterator[_Seat]:
        seat = await self._free.get()
        try:
            yield seat
        finally:
            self._free.put_nowait(seat)


class _Seat:
    """A slot for one browser, which is replaced if a page has damaged it."""

    def __init__(self, kind: async_api.BrowserType, launcher: str, pictures: bool) -> None:
        self._kind, self._launcher, self._pictures = kind, launcher, pictures
        self._browser: async_api.Browser | None = None
        self._layouts: LayoutTab | None = None  # if it exists, the browser has only seen trusted pages

    async def render(self, page: Page, files: WebFiles) -> Rendering:
        from playwright.async_api import Error

        if self._layouts is not None:
            await self.leave()
        for _ in range(TRIES):
            browser = await self._take()
            try:
                async with asyncio.timeout(page.timeout_s):
                    return await render(browser, page, files, self._pictures)
            except TimeoutError:
                await self.leave()
                return Rendering(PageOutcome.TIMEOUT)
            except Error:
                await self.leave()
        return Rendering(PageOutcome.CRASH)

    async def lay_out(self, pages: Sequence[Page], files: WebFiles) -> list[Rendering]:
        from playwright.async_api import Error

        try:
            if self._layouts is None or not self._layouts.fits(pages[0]):
                await self.leave()
                self._layouts = await LayoutTab.open(await self._take(), pages[0], files)
            return [await self._layouts.lay_out(page) for page in pages]
        except BaseException as error:
            await self.leave()
            if isinstance(error, Error):
                raise SandboxError(f"A page of our own cannot be laid out: {error}") from None
            raise

    async def _take(self) -> async_api.Browser:
        from playwright.async_api import Error

        if self._browser is None or not self._browser.is_connected():
            try:
                self._browser = await self._kind.launch(
                    executable_path=self._launcher, args=list(FLAGS), chromium_sandbox=True, timeout=_LAUNCH_TIMEOUT_MS
                )
            except Error as error:
                lines = [line for line in str(error).splitlines() if line.strip()]
                browser_lines = [line for line in lines if "[err]" in line]
                raise SandboxError(f"The browser does not start: {' '.join([*lines[:1], *browser_lines[-3:]])}") from None
        return self._browser

    async def leave(self) -> None:
        browser, self._browser, self._layouts = self._browser, None, None
        if browser is not None:
            with contextlib.suppress(Exception):  # it may be dead, or hang
                await asyncio.wait_for(browser.close(), 5)
