"""Pages that agents write: what a page is, what comes of rendering it, and the files that it may ask for."""

from sandboxes.pages.page import Box, Page, PageOutcome, Rendering

__all__ = ["Box", "Page", "PageOutcome", "Rendering"]
