"""Answers to the web requests of a page: files of known packages from disk, drawn pictures (`pages.placeholders`), and nothing else.

The packages are downloaded once with npm, from its configured registry, and checked against the hashes in this module. The repository
contains none of them.

The page chooses the addresses. An invalid address, or one longer than `placeholders.MAX_URL_CHARS`, is not answered. The first `MAX_INLINED` linked
style sheets are inlined into the page. The reduced style sheet is computed once per page.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from sandboxes.pages.placeholders import address_parts, draw, picture_at
from sandboxes.pages.stylesheet import StyleSheet
from sandboxes.sandbox import SandboxError

FOLDER_VARIABLE = "COLBENCH_WEB_FILES"
_DOWNLOAD_TIMEOUT_S = 120
MAX_INLINED = 4


@dataclass(frozen=True)
class NpmFile:
    """A file of an npm package.

    Attributes:
        package, version: Name and version of the package.
        integrity: SHA-512 of its archive, as published by the registry.
        member: Path of the file in the archive.
    """

    package: str
    version: str
    integrity: str
    member: str

    @property
    def name(self) -> str:
        """Its file name in the folder of `WebFiles`."""
        return f"{self.package}-{self.version}-{Path(self.member).name}"

    @property
    def specifier(self) -> str:
        """The package specifier for npm."""
        return f"{self.package}@{self.version}"


TAILWIND = NpmFile(
    "tailwindcss",
    "2.2.19",
    "6Ui7JSVtXadtTUo2NtkBBacobzWiQYVjYW0ZnKaP9S1ZCKQ0w7KVNz+YSDI/j7O7KCMHbOkz94ZMQhbT9pOqjw==",
    "package/dist/tailwind.min.css",
)
#: Style sheets by the addresses that pages load them from. This version is used for every Tailwind 2: they differ in a few rules.
STYLE_SHEETS = ((re.compile(r"/tailwindcss(@|/)\^?2[\d.]*/(dist/)?tailwind(\.min)?\.css$"), TAILWIND),)
_LINK = re.compile(r"<link\b[^<>]*>", re.IGNORECASE)
_STYLESHEET = re.compile(r"\bstylesheet\b", re.IGNORECASE)
_HREF = re.compile(r"""\bhref\s*=\s*(?:["']([^"']*)["']|([^\s"'>]+))""", re.IGNORECASE)
_MARKUP = re.compile(r"<style\b[^<]*|<[a-z][^<>]*>", re.IGNORECASE)
_NO_SCHEME = re.compile(r"""(\b(?:src|srcset|poster|href)\s*=[\s"']*|\burl\([\s"']*)//(?!/)""", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class WebFile:
    """An answer to a request."""

    content_type: str
    body: bytes


def drawn_picture(url: str, is_picture: bool = True) -> WebFile | None:
    """The drawing for an address; None if it asks for none, see `placeholders.picture_at`."""
    picture = picture_at(url, is_picture)
    return WebFile("image/svg+xml", draw(picture, seed=url).encode("utf-8", "replace")) if picture else None


class WebFiles:
    """Answers the requests of pages from disk.

    Args:
        folder: Folder of the packages' files; None for $COLBENCH_WEB_FILES, or `colbench_gym/web` in the user's cache.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """Files are only read on request."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "colbench_gym" / "web"
        self.folder = Path(folder or os.environ.get(FOLDER_VARIABLE) or cache).expanduser()

    def answer(self, url: str, html: str = "", has_scripts: bool = False) -> WebFile | None:
        """The file for an address; None if there is none.

        Args:
            url: The requested address.
            html: The page's source. Of a large style sheet, only the rules that the page can use are sent.
            has_scripts: True if the page may change its classes, so that it needs the whole style sheet.
        """
        parts = address_parts(url)
        if parts is not None and any(pattern.search(parts.path) for pattern, _ in STYLE_SHEETS):
            sheet = self._tailwind.css if has_scripts else self._tailwind.for_page(html)
            return WebFile("text/css; charset=utf-8", sheet.encode())
        return drawn_picture(url, is_picture=False)

    def prepare(self, html: str) -> None:
        """Read large files that a page may request, before the time limit of the page starts.

        Raises:
            SandboxError: If a file is not available.
        """
        if "tailwind" in html:
            self._tailwind  # noqa: B018  # read once, then remembered

    def inlined(self, html: str) -> str:
        """The page with its first linked style sheets inlined, reduced to the rules that it can use. This saves requests.

        Addresses without a scheme (`//host/path`) get `https:`: a page that is set as content has no scheme of its own.
        Half of a surrogate pair, which cannot be encoded, becomes U+FFFD.
        """
        html = _MARKUP.sub(lambda tag: _NO_SCHEME.sub(r"\1https://", tag[0]), _SURROGATE.sub("\ufffd", html))
        parts: list[str] = []
        end = inlined = 0
        for link in _LINK.finditer(html):
            sheet = self._linked_sheet(link[0], html)
            if sheet is not None:
                parts += [html[end : link.start()], f"<style>{sheet}</style>"]
                end, inlined = link.end(), inlined + 1
                if inlined >= MAX_INLINED:
                    break
        return "".join([*parts, html[end:]])

    def _linked_sheet(self, tag: str, html: str) -> str | None:
        """The style sheet that a tag links to; None if it is not available here."""
        address = _HREF.search(tag) if _STYLESHEET.search(tag) else None
        file = self.answer(address[1] or address[2] or "", html) if address else None
        return file.body.decode() if file is not None and file.content_type.startswith("text/css") else None

    @cached_property
    def _tailwind(self) -> StyleSheet:
        path = self.path(TAILWIND)
        return _parse(path, path.stat().st_mtime_ns)

    def path(self, file: NpmFile) -> Path:
        """Path of a package's file on this machine. The file is downloaded if it is missing.

        Raises:
            SandboxError: If it cannot be downloaded. The message says how to place it by hand.
        """
        path = self.folder / file.name
        if not path.exists():
            _download(file, path)
        return path


@lru_cache(maxsize=2)  # every browser of a process has the same one, and parsing takes seconds
def _parse(path: Path, changed_ns: int) -> StyleSheet:
    return StyleSheet(path.read_text(encoding="utf-8"))


def _download(file: NpmFile, path: Path) -> None:
    by_hand = (
        f"Put `{file.member}` of the npm package {file.specifier} at {path} (`npm pack {file.specifier}` "
        f"fetches it), or name a folder that holds it in ${FOLDER_VARIABLE}."
    )
    try:
        archive = _fetch(file.specifier)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"npm cannot fetch {file.specifier}: {error}. {by_hand}") from None
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != file.integrity:
        raise SandboxError(f"{file.specifier} is not what it was: its SHA-512 differs. {by_hand}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile(file.member)
        assert member is not None  # the archive is known by its hash
        content = member.read()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, path)


def _fetch(specifier: str) -> bytes:
    """Archive of a package from npm's configured registry."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, specifier]
        subprocess.run(command, capture_output=True, check=True, timeout=_DOWNLOAD_TIMEOUT_S)
        (archive,) = Path(folder).iterdir()
        return archive.read_bytes()
