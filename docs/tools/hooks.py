"""Hooks of MkDocs: equations as MathML, and pages that include a file of the repository.

An equation is LaTeX between two lines of ``$$``, or inline between ``$` `` and `` `$``, as GitHub renders it. It becomes MathML, which browsers draw
without a script. ``<!-- include: PATH -->`` is replaced by a file of the repository, without its title; links in it are adapted to the site.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(```+).*?^\1\s*?$", re.MULTILINE | re.DOTALL)
_DISPLAY = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"\$`([^`]+)`\$")
_INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
#: An address that a browser loads by itself; links that a reader follows are `<a href>`.
LOADED = re.compile(r"""<(?:script|img|iframe|link|source)\b[^>]*?\s(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
_NAME = re.compile(r"<code>([^<\s]{1,32})</code>")
#: Files outside `docs` that the site shows as pages.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "sandboxes/README.md": "sandboxes.md",
    "tests/hostile/README.md": "hostile.md",
}


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Called by MkDocs with the HTML of every page; refuses what a browser would load from the network.

    Raises:
        ValueError: Names the page and the address.
    """
    if found := LOADED.search(output):
        raise ValueError(f"{page.file.src_uri}: the site must work without a network, but this page loads {found[1]}.")
    return output


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs with the body of every page: names in code, such as a flag, are not broken at their hyphens."""
    return _NAME.sub(r'<code class="name">\1</code>', html)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs with the source of every page."""
    markdown = _INCLUDE.sub(lambda found: included(found[1], page.file.src_uri), markdown)
    return outside_fences(markdown, with_equations)


def included(path: str, page: str) -> str:
    """A file of the repository as part of a page: without its title, with links that hold on the site.

    Args:
        path: Path of the file in the repository.
        page: Path of the page in `docs`.
    """
    text = re.sub(r"\A# .*\n", "", (ROOT / path).read_text(encoding="utf-8"))
    return outside_fences(text, lambda part: _LINK.sub(lambda found: _link(found[1], found[2], path, page), part))


def _link(text: str, target: str, path: str, page: str) -> str:
    if "://" in target or target.startswith("#"):
        return f"[{text}]({target})"
    file, _, anchor = target.partition("#")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
    name = PAGES.get(file, file.removeprefix("docs/") if file.startswith("docs/") else "")
    if not name:  # a file that the site does not show
        return text if file in text else f"{text} (`{file}`)"
    relative = posixpath.relpath(name, posixpath.dirname(page) or ".")
    return f"[{text}]({relative}{'#' * bool(anchor)}{anchor})"


def outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    """Apply a function to everything but fenced code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def with_equations(markdown: str) -> str:
    """Replace LaTeX by MathML."""
    if "$" not in markdown:
        return markdown
    from latex2mathml.converter import convert  # here, because tests use the other functions without the tools of the site

    markdown = _DISPLAY.sub(lambda found: f'<div class="equation">{convert(found[1], display="block")}</div>', markdown)
    return _INLINE.sub(lambda found: convert(found[1]), markdown)
