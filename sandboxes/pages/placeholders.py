"""Placeholder pictures: what the address of a placeholder service asks for, and the drawing that answers it.

All services are read alike. `WIDTHxHEIGHT` anywhere in the path is the size. In an address of `LABELLED` and `PHOTOS`, a number is a side, and
in `PHOTOS` the next one is the other side; elsewhere numbers identify a picture. Else the parameters state the size. The parts after the size of
a picture of `LABELLED` are its colours, so that a colour is never read as a size. A picture of any other host has `UNKNOWN_SIZE`.

The page chooses the addresses: one that cannot be read is no error, sizes are bounded by `MAX_SIDE`, and a colour consists of hexadecimal
digits or letters.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

MAX_URL_CHARS = 2_000
MAX_SIDE = 4_000
MAX_TEXT_CHARS = 60
#: Width and height of a picture whose address states neither, in pixels.
UNKNOWN_SIZE = (600, 400)
_FORMATS = r"(?:png|jpe?g|gif|webp|svg|avif)"
_FORMAT = re.compile(_FORMATS, re.IGNORECASE)
_EXTENSION = re.compile(rf"\.{_FORMATS}$", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]+)(?:[x×*]([0-9]+))?(?:@([1-4])x)?(?![0-9a-z:])", re.IGNORECASE)
_IDENTIFIER = re.compile(r"/(?:id|seed)/[^/]*")
_COLOUR = re.compile(r"#?([0-9a-f]{1,8})|([a-z]{3,20})", re.IGNORECASE)

Size = tuple[int, int]
#: Services whose pictures show their size or a text, by host without "www.".
LABELLED = frozenset((
    "via.placeholder.com", "placeholder.com", "placehold.co", "placehold.it", "placehold.jp", "placehold.es", "placehold.net", "dummyimage.com",
    "fakeimg.pl", "fpoimg.com", "imgplaceholder.com", "placeholder.pics", "dummyjson.com", "ui-avatars.com",
))  # fmt: skip
#: Services of photos with their size in the path.
PHOTOS = frozenset((
    "picsum.photos", "unsplash.it", "loremflickr.com", "lorempixel.com", "placeimg.com", "placekitten.com", "placecats.com", "placebear.com",
    "placebeard.it", "placebeer.com", "placedog.net", "place.dog", "placecage.com", "placekeanu.com", "placeskull.com", "fillmurray.com",
    "stevensegallery.com", "baconmockup.com", "pravatar.cc", "i.pravatar.cc",
))  # fmt: skip
#: All other services.
OTHERS = frozenset((
    "source.unsplash.com", "static.photos", "images.unsplash.com", "plus.unsplash.com", "images.pexels.com", "api.lorem.space", "cataas.com",
    "gravatar.com", "avatars.dicebear.com", "api.dicebear.com", "robohash.org", "randomuser.me",
))  # fmt: skip
#: Side of the square pictures of the services that have one unless the address states another.
SIDES = {
    "ui-avatars.com": 64, "gravatar.com": 80, "avatars.dicebear.com": 128, "api.dicebear.com": 128, "robohash.org": 300, "pravatar.cc": 150,
    "i.pravatar.cc": 150, "randomuser.me": 128,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """What an address asks for.

    Attributes:
        size: Width and height in pixels.
        background, colour: CSS colours of the picture and of the text on it; "" if the address names none.
        text: The text on it; "" for its size.
    """

    size: Size
    background: str = ""
    colour: str = ""
    text: str = ""


def _stated(host: str, path: str, query: Mapping[str, str]) -> tuple[Size | None, list[str]]:
    """The size that an address of a service states, if any, and the words that may be colours."""
    words = [word for word in _IDENTIFIER.sub("", path).split("/") if word]
    sizes = [(place, size) for place, word in enumerate(words) if (size := _SIZE.match(word))]
    whole = [(place, size) for place, size in sizes if size[2]] or (sizes if host in LABELLED | PHOTOS else [])
    if whole:
        place, size = whole[0]
        after = _SIZE.match("".join(words[place + 1 : place + 2])) if host in PHOTOS else None
        beside = words[place + 1 :] or words[max(place - 2, 0) : place]
        return _sides(size, 2 if query.get("retina") == "1" else 1, after), beside
    scale = _number(query, "dpr") or 1
    if square := _SIZE.match(query.get("size") or query.get("s") or ""):
        return _sides(square, scale), []
    width, height = _number(query, "w", "width"), _number(query, "h", "height")
    if not width and not height:
        return None, []
    return ((width or height * 3 // 2) * scale, (height or width * 2 // 3) * scale), []


def _sides(size: re.Match[str], scale: int, after: re.Match[str] | None = None) -> Size:
    """Width and height; a lone number is both, unless another number comes after it."""
    width = int(size[1])
    scale *= int(size[3] or 1)
    return width * scale, (int(size[2]) if size[2] else int(after[1]) if after else width) * scale


def _number(query: Mapping[str, str], *names: str) -> int:
    """The first whole number among parameters; 0 if there is none."""
    return next((int(digits[0]) for name in names if (digits := re.match("[0-9]+", query.get(name, "")))), 0)


def _colour(word: str) -> str:
    """A colour as CSS: hexadecimal digits (one is repeated six times, two three times) or a name; "" for a file format and anything else."""
    word = _EXTENSION.sub("", word).split(",")[0]  # fakeimg.pl has an alpha value after a comma
    match = _COLOUR.fullmatch(word)
    if match is None or _FORMAT.fullmatch(word):
        return ""
    return f"#{match[1] * {1: 6, 2: 3}.get(len(match[1]), 1)}" if match[1] else match[2].lower()


def picture_at(url: str, is_picture: bool = False) -> Picture | None:
    """What an address asks for, with sides from 1 to `MAX_SIDE`.

    Args:
        url: The address.
        is_picture: True if the page shows what it asks for as a picture, so that it is one whatever its host and path.

    Returns:
        The picture; None if it is neither a service's nor a file of a picture, or if the address is invalid, longer than `MAX_URL_CHARS`,
        not of the web, or of a host that cannot exist (".invalid").
    """
    parts = address_parts(url)
    host = (parts.hostname or "").rstrip(".").removeprefix("www.") if parts else ""
    if parts is None or not host or host.endswith(".invalid") or parts.scheme not in ("", "http", "https"):
        return None
    path, _, caption = unquote(parts.path).partition("&")  # "/350x150&text=Hello" has no "?"
    query = dict(parse_qsl(f"{parts.query}&{caption}", keep_blank_values=True))
    host = "gravatar.com" if host.endswith(".gravatar.com") else host
    is_service = host in LABELLED | PHOTOS | OTHERS
    size, words = _stated(host, path, query) if is_service else (None, [])
    if size is None and not (is_picture or _EXTENSION.search(path) or (is_service and (path.strip("/") or query))):
        return None
    width, height = size or ((SIDES[host],) * 2 if host in SIDES else UNKNOWN_SIZE)
    colours = [colour for word in words if (colour := _colour(word))] if host in LABELLED else []
    if is_service and not colours:
        colours = [
            _colour(query.get(name) or query.get(other, ""))
            for name, other in (("bg_color", "background"), ("text_color", "color"))
        ]
    bounded = min(max(width, 1), MAX_SIDE), min(max(height, 1), MAX_SIDE)
    background, colour = (*colours, "", "")[:2]
    return Picture(bounded, background, colour, query.get("text", "") if host in LABELLED else "")


def address_parts(url: str) -> SplitResult | None:
    """The parts of an address; None if it is invalid or too long."""
    if len(url) > MAX_URL_CHARS:
        return None
    try:
        return urlsplit(url)
    except ValueError:  # brackets without a valid address, or characters that normalize to delimiters
        return None


def draw(picture: Picture, seed: str) -> str:
    """A picture as SVG: with its text on its background, or without a background a photo that depends only on the seed."""
    width, height = picture.size
    if not picture.background:
        return photo(width, height, seed)
    text = "".join(c for c in picture.text if c.isprintable())[:MAX_TEXT_CHARS] or f"{width} × {height}"
    size = max(min(height // 4, width * 3 // 2 // len(text)), 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
        f'<rect width="100%" height="100%" fill="#ccc" style="fill:{picture.background}"/>'
        f'<text x="50%" y="50%" text-anchor="middle" dominant-baseline="central" font-family="sans-serif" font-size="{size}" fill="#969696" '
        f'style="fill:{picture.colour}">{html.escape(text)}</text></svg>'
    )


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
