"""A page and its rendering: the interface of `sandboxes.browser`."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, astuple, dataclass, field
from enum import Enum

#: Maximal number of characters of a page's source. ColBench's longest page has 3,771.
MAX_CHARS = 1_000_000
#: Number of the rules that pages are rendered by, part of every page's key: renderings of other rules are not read from a cache.
RULES = 2
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
    given = os.environ.get(TIMEOUT_VARIABLE)
    try:
        return float(given) if given else _TIMEOUT_S
    except ValueError:
        raise ValueError(f"${TIMEOUT_VARIABLE} must be a number of seconds, got {given!r}.") from None


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
        return hashlib.sha256(json.dumps([RULES, *astuple(self)]).encode()).hexdigest()


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
        bold: True for font weights of at least 600.
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
    bold: bool = False
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

    def to_json(self) -> str:
        """Everything except the picture."""
        row = asdict(self)
        del row["picture"]
        return json.dumps(row)

    @classmethod
    def from_json(cls, text: str, picture: bytes) -> Rendering:
        """The inverse of `to_json`."""
        row = json.loads(text)
        boxes = tuple(
            Box(**{**box, "colour": tuple(box["colour"]), "background": _colour(box["background"])}) for box in row["boxes"]
        )
        return cls(
            PageOutcome(row["outcome"]), picture, row["width"], row["height"], row["page_height"], boxes, tuple(row["refused"])
        )


def _colour(value: list[int] | None) -> Colour | None:
    return None if value is None else (value[0], value[1], value[2])
