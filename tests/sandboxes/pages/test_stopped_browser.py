"""A browser that has stopped answers nothing: its page is out of time, and the wait for it ends."""

from __future__ import annotations

import asyncio

import pytest

from sandboxes.pages import tab
from sandboxes.pages.page import Page
from sandboxes.pages.web_files import WebFiles

pytest.importorskip("playwright.async_api", reason="needs playwright; run `pip install .[web]`")


class Stopped:
    """A browser whose contexts open, and never close."""

    def on(self, *given):
        """Nothing happens."""

    remove_listener = on

    async def new_context(self, **settings):
        return self

    async def close(self):
        await asyncio.Event().wait()


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_the_wait_for_a_stopped_browser_ends(monkeypatch, is_looked_at):
    async def look(*given):
        if not is_looked_at:
            await asyncio.Event().wait()

    async def render():
        async with asyncio.timeout(0.05):
            await tab.render(Stopped(), Page("<p>a</p>"), WebFiles())

    monkeypatch.setattr(tab, "_looked_at", look)
    monkeypatch.setattr(tab, "CLOSE_S", 0.05)
    with pytest.raises(TimeoutError):
        asyncio.run(render())
