"""A page and its rendering: the interface of `sandboxes.browser`."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import threading
from collections import OrderedDict
from dataclasses import astuple, dataclass, field
from enum import Enum

#: Maximal number of characters of a page's source. ColBench's longest page has 3,771.
MAX_CHARS = 1_000_000
#: Maximal side of a picture, in pixels.
MAX_SIDE = 8_192
#: Environment variable with the wall time limit of pages that name none, in seconds. Raise it on a busy machine.
TIMEOUT_VARIABLE = "COLBENCH_PAGE_TIMEOUT_S"
_TIMEOUT_S = 6.0

Colour = tuple[int, int, int]


class PageOutcome(str, Enum):
    """Outcome of rendering a page."""

    OK = "ok"
    TIMEOUT = "timeout"
    CRASH = "crash"
    TOO_LARGE = "too_large"


def _timeout_s() -> float:
    limit = os.environ.get(TIMEOUT_VARIABLE)
    try:
        return float(limit) if limit else _TIMEOUT_S
    except ValueError:
        raise ValueError(f"${TIMEOUT_VARIABLE} must be a number of seconds, got {limit!r}.") from None


@dataclass(frozen=True)
class Page:
    """A page to render.

    Attributes:
        html: Untrusted source.
        width: Width of the window, in CSS pixels. A CSS pixel is one pixel of the picture.
        height: Height of the window. The picture has the height of the page, but at least this and at most `max_height`.
        max_height: Maximal height of the picture. Content below it is neither in the picture nor in the boxes.
        scripts: Whether to run the page's scripts. ColBench's pages need none.
        timeout_s: Wall time limit of loading, layout and picture together, in seconds: 6, or $COLBENCH_PAGE_TIMEOUT_S.
    """

    html: str
    width: int = 1280
    height: int = 720
    max_height: int = 4000
    scripts: bool = False
    timeout_s: float = field(default_factory=_timeout_s)

    def __post_init__(self) -> None:
        if not 0 < self.width <= MAX_SIDE or not 0 < self.height <= self.max_height <= MAX_SIDE:
            raise ValueError(
                f"`width` must be in 1 to {MAX_SIDE} and `height` at most `max_height`, at most {MAX_SIDE}; got {self.width}, "
                f"{self.height} and {self.max_height}."
            )
        if self.timeout_s <= 0:
            raise ValueError(f"`timeout_s` must be above 0, got {self.timeout_s}.")

    def key(self) -> str:
        """SHA-256 of everything that determines the picture."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Box:
    """A visible part of a page.

    Attributes:
        kind: "text" (a run of text in one style), "image" (img, svg, video, iframe, canvas), "control" (input, textarea, select, button) or
            "block" (an element with a background, a border or a shadow of its own).
        tag: Name of the element in lower case; for a text, of the element around it.
        x, y, width, height: Position and size in pixels, from the top left corner of the page.
        text: The text with collapsed white space; for a control, its value or placeholder.
        colour: Colour of the text: red, green and blue in [0, 255].
        background: Background colour of the box itself; None if it has none.
        font_size: Font size in pixels.
        parent: Index of the closest box around it in the element tree; -1 for none.
    """

    kind: str
    tag: str
    x: int
    y: int
    width: int
    height: int
    text: str = ""
    colour: Colour = (0, 0, 0)
    background: Colour | None = None
    font_size: float = 16.0
    parent: int = -1


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendered page.

    Attributes:
        outcome: Outcome of the rendering. There is only a picture if it is OK.
        picture: PNG, RGB, `width` x `height` pixels.
        width, height: Size of the picture; 0 without a picture.
        page_height: Height of the whole page, which may exceed that of the picture.
        boxes: Visible boxes, in the order of the page's source.
        refused: Distinct addresses of refused requests, in order.
    """

    outcome: PageOutcome
    picture: bytes = b""
    width: int = 0
    height: int = 0
    page_height: int = 0
    boxes: tuple[Box, ...] = ()
    refused: tuple[str, ...] = ()


def small_jpeg(rendering: Rendering, width: int, max_height: int, quality: int) -> str:
    """A rendering's picture, scaled to a width and cropped from the top, as JPEG in base64; black if it has none. Needs Pillow."""
    from PIL import Image

    content = io.BytesIO(rendering.picture)
    with Image.open(content) if rendering.picture else Image.new("RGB", (width, 180), "black") as image:
        height = max(1, round(image.height * width / image.width))
        small = image.convert("RGB").resize((width, height)).crop((0, 0, width, min(height, max_height)))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=quality)
    return base64.b64encode(file.getvalue()).decode()


class RenderingCache:
    """Renderings of the pages that were rendered last, by their keys. Thread-safe.

    Args:
        most: Maximal number of renderings. The least recently used one is dropped.
    """

    def __init__(self, most: int = 2_000) -> None:
        self.most = most
        self._held: OrderedDict[str, Rendering] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Rendering | None:
        """The rendering for a page's key; None if it is not cached."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: str, rendering: Rendering) -> None:
        """Store a rendering."""
        with self._lock:
            self._held[key] = rendering
            while len(self._held) > self.most:
                self._held.popitem(last=False)

    def __reduce__(self) -> tuple[type[RenderingCache], tuple[int]]:
        """A copy starts empty."""
        return type(self), (self.most,)
