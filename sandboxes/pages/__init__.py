"""Pages that agents write: the page, its rendering, and the files that it may request."""

from sandboxes.pages.page import Box, Page, PageOutcome, Rendering, small_jpeg

__all__ = ["Box", "Page", "PageOutcome", "Rendering", "small_jpeg"]
