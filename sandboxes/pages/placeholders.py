"""Placeholder pictures: what the address of a placeholder service asks for, and the drawing that answers it.

`SERVICES` is the table of services. Each has a reader of the documented forms of its addresses: where the size stands, and what may stand
before and after it (identifiers, keywords, colours), so that a colour is never read as a size. A picture of any other host has
`UNKNOWN_SIZE`.

The page chooses the addresses: one that cannot be read is no error, sizes are bounded by `MAX_SIDE`, and a colour consists of hexadecimal
digits or letters.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

MAX_URL_CHARS = 2_000
MAX_SIDE = 4_000
MAX_TEXT_CHARS = 60
#: Width and height of a picture whose address states neither, in pixels.
UNKNOWN_SIZE = (600, 400)
_FORMATS = r"(?:png|jpe?g|gif|webp|svg|avif)"
_FORMAT = re.compile(_FORMATS, re.IGNORECASE)
_EXTENSION = re.compile(rf"\.{_FORMATS}$", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]+)(?:[x×*]([0-9]+))?(?:@([1-4])x)?(?![0-9])", re.IGNORECASE)
_RATIO = re.compile(r"(?:([0-9]+)x)?([0-9]+):([0-9]+)(?:x([0-9]+))?(?![0-9])", re.IGNORECASE)
_COLOUR = re.compile(r"#?([0-9a-f]{1,8})|([a-z]{3,20})", re.IGNORECASE)

Size = tuple[int, int]
Path = Sequence[str]
Query = Mapping[str, str]


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


Reader = Callable[[Path, Query], Picture | None]


def _labelled(path: Path, query: Query) -> Picture | None:
    """`SIZE/BACKGROUND/COLOUR/FORMAT`, or `FONT/BACKGROUND/COLOUR/SIZE`; SIZE is 600x400, 400 or, with a ratio, 640x4:3; the rest is optional."""
    path = [part for part in path if part not in ("svg", "image")]
    place = next((i for i, part in enumerate(path) if (found := _sides(part)) and found[1] is not None), 0)
    found = _sides(path[place]) if path else None
    if found is None:
        return None
    width, height = found
    named = [colour for part in path[place + 1 :] or path[max(place - 2, 0) : place] if (colour := _colour(part))]
    background, colour = (*(named or (_colour(query.get(name, "")) for name in ("bg_color", "text_color"))), "")[:2]
    scale = 2 if query.get("retina") == "1" else 1
    return Picture((width * scale, (width if height is None else height) * scale), background, colour, query.get("text", ""))


def _photo(path: Path, query: Query) -> Picture | None:
    """`WIDTH/HEIGHT`, `WIDTHxHEIGHT` or `SIDE`, after words (`g`, `id/48`, `seed/2x3`) and before anything."""
    while path and not path[0][:1].isdigit():
        path = path[2 if path[0] in ("id", "seed") else 1 :]
    if not path or (found := _sides(path[0])) is None:
        return None
    width, height = found
    after = _sides(path[1]) if len(path) > 1 else None
    return Picture((width, height if height is not None else after[0] if after else width))


def _last(path: Path, query: Query) -> Picture | None:
    """`.../WIDTHxHEIGHT`, after anything, a number too."""
    sizes = [(found[0], found[1]) for part in path if (found := _sides(part)) and found[1] is not None]
    return Picture(sizes[-1]) if sizes else None


def _asked(path: Path, query: Query) -> Picture | None:
    """`?w=600&h=400&dpr=2` in one of several spellings; with one side, the picture is three to two."""
    width, height = (_number(query, *names) for names in (("w", "width"), ("h", "height")))
    scale = _number(query, "dpr") or 1
    if not width and not height:
        return None
    width, height = width or (height or 0) * 3 // 2, height or (width or 0) * 2 // 3
    return Picture((width * scale, height * scale))


def _avatar(path: Path, query: Query) -> Picture | None:
    """A square of `?size=128&background=0D8ABC&color=fff`, `?s=80`, `?width=96` or `?size=200x200`."""
    found = next((found for name in ("size", "s", "width", "w") if (found := _sides(query.get(name, "")))), None)
    if found is None:
        return None
    width, height = found
    return Picture(
        (width, width if height is None else height), _colour(query.get("background", "")), _colour(query.get("color", ""))
    )


def _initials(path: Path, query: Query) -> Picture | None:
    """As `_avatar`, or `/api/NAME/SIZE/BACKGROUND/COLOUR`."""
    names = ("", "name", "size", "background", "color")
    return _avatar(path, {**dict(zip(names, path, strict=False)), **query})


def _portrait(path: Path, query: Query) -> Picture | None:
    """`/api/portraits[/med|/thumb]/men/75.jpg`."""
    side = 48 if "thumb" in path else 72 if "med" in path else 128
    return Picture((side, side))


def _sides(word: str) -> tuple[int, int | None] | None:
    """Width and height at the start of a word such as "600x400@2x.png", "400" (without a height) or "640x4:3"; None if there are none."""
    if ratio := _RATIO.match(word):
        width, across, down, height = (int(one or 0) for one in ratio.groups())
        if not across or not down or not (width or height):
            return None
        return (width, width * down // across) if width else (height * across // down, height)
    if size := _SIZE.match(word):
        scale = int(size[3] or 1)
        return int(size[1]) * scale, int(size[2]) * scale if size[2] else None
    return None


def _number(query: Query, *names: str) -> int:
    """The first whole number among parameters; 0 if there is none."""
    return next((int(found[0]) for name in names if (found := re.match("[0-9]+", query.get(name, "")))), 0)


def _colour(word: str) -> str:
    """A colour as CSS: hexadecimal digits (one is repeated six times, two three times) or a name; "" for a file format and anything else."""
    word = _EXTENSION.sub("", word).split(",")[0]  # fakeimg.pl has an alpha value after a comma
    found = _COLOUR.fullmatch(word)
    if found is None or _FORMAT.fullmatch(word):
        return ""
    return f"#{found[1] * {1: 6, 2: 3}.get(len(found[1]), 1)}" if found[1] else found[2].lower()


@dataclass(frozen=True)
class Service:
    """A service of placeholder pictures.

    Attributes:
        hosts: Its hosts, without "www."; one that starts with a dot stands for all hosts that end so.
        read: Reads the parts of the path and the parameters of an address; None if they state no size.
        unstated: Size of a picture whose address states none.
    """

    hosts: tuple[str, ...]
    read: Reader
    unstated: Size = UNKNOWN_SIZE


SERVICES = (
    Service(
        (
            "via.placeholder.com", "placeholder.com", "placehold.co", "placehold.it", "placehold.jp", "placehold.es", "placehold.net", "dummyimage.com",
            "fakeimg.pl", "fpoimg.com", "imgplaceholder.com", "placeholder.pics", "dummyjson.com",
        ),
        _labelled,
    ),
    Service(
        (
            "picsum.photos", "unsplash.it", "loremflickr.com", "lorempixel.com", "placeimg.com", "placekitten.com", "placecats.com", "placebear.com",
            "placebeard.it", "placebeer.com", "placedog.net", "place.dog", "placecage.com", "placekeanu.com", "placeskull.com", "fillmurray.com",
            "stevensegallery.com", "baconmockup.com",
        ),
        _photo,
    ),
    Service(("source.unsplash.com", "static.photos"), _last),
    Service(("images.unsplash.com", "plus.unsplash.com", "images.pexels.com", "api.lorem.space", "cataas.com"), _asked),
    Service(("ui-avatars.com",), _initials, (64, 64)),
    Service(("gravatar.com", ".gravatar.com"), _avatar, (80, 80)),
    Service(("avatars.dicebear.com", "api.dicebear.com"), _avatar, (128, 128)),
    Service(("robohash.org",), _avatar, (300, 300)),
    Service(("pravatar.cc", "i.pravatar.cc"), _photo, (150, 150)),
    Service(("randomuser.me",), _portrait),
)  # fmt: skip
_BY_HOST = {host: service for service in SERVICES for host in service.hosts}


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
    words = [word for word in path.split("/") if word]
    service = _BY_HOST.get(host) or _BY_HOST.get(host[host.find(".") :])
    found = service.read(words, query) if service else None
    if found is None and (is_picture or _EXTENSION.search(path) or (service and (words or query))):
        found = Picture(service.unstated if service else UNKNOWN_SIZE)
    width, height = found.size if found else UNKNOWN_SIZE
    return found and replace(found, size=(min(max(width, 1), MAX_SIDE), min(max(height, 1), MAX_SIDE)))


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
