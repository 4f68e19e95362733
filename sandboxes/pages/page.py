"""A page and its rendering: the contract of `sandboxes.browser`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, astuple, dataclass
from enum import Enum

#: Characters of a page's source; ColBench's longest has 3,771.
MAX_CHARS = 1_000_000
#: Pixels of a picture's side at most.
MAX_SIDE = 8_192

Colour = tuple[int, int, int]


class PageOutcome(str, Enum):
    """What became of a page."""

    OK = "ok"
    TIMEOUT = "timeout"
    CRASH = "crash"
    TOO_LARGE = "too_large"


@dataclass(frozen=True)
class Page:
    """A page to render.

    Attributes:
        html: Untrusted source.
        width: Width of the window, in CSS pixels, of which each is a pixel of the picture.
        height: Height of the window. The picture is as high as the page, at least this and at most `max_height`.
        max_height: What is further down is not in the picture, nor in the boxes.
        scripts: Run the page's scripts. ColBench's pages need none.
        timeout_s: Wall time of loading, layout and picture together, in seconds.
    """

    html: str
    width: int = 1280
    height: int = 720
    max_height: int = 4000
    scripts: bool = False
    timeout_s: float = 6.0

    def __post_init__(self) -> None:
        if not 0 < self.width <= MAX_SIDE or not 0 < self.height <= self.max_height <= MAX_SIDE:
            raise ValueError(
                f"`width` must be in 1 to {MAX_SIDE} and `height` at most `max_height`, at most {MAX_SIDE}; got {self.width}, "
                f"{self.height} and {self.max_height}."
            )
        if self.timeout_s <= 0:
            raise ValueError(f"`timeout_s` must be above 0, got {self.timeout_s}.")

    def key(self) -> str:
        """SHA-256 of all that shapes the picture."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Box:
    """Something visible on a page.

    Attributes:
        kind: "text" (a run of text in one style), "image" (img, svg, video, iframe, canvas), "control" (input, textarea, select, button) or
            "block" (an element with a background, a border or a shadow of its own).
        tag: Name of the element in lower case; of a text, of the element that it stands in.
        x, y, width, height: In pixels from the top left corner of the page.
        text: What is written in it, white space collapsed; of a control, its value or placeholder.
        colour: Of the text, red, green and blue in [0, 255].
        background: Of the box itself; None where it has none.
        font_size: In pixels.
        bold: True from weight 600 on.
        parent: Index of the closest box around it in the element tree, -1 for none.
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
    """What a page looks like.

    Attributes:
        outcome: What became of it; without OK there is no picture.
        picture: PNG, RGB, `width` x `height` pixels.
        width, height: Size of the picture; 0 without one.
        page_height: Height of the whole page, which may exceed the picture's.
        boxes: What is visible, in the order of the page's source.
        refused: Addresses that the page asked for and did not get, in order, each once.
    """

    outcome: PageOutcome
    picture: bytes = b""
    width: int = 0
    height: int = 0
    page_height: int = 0
    boxes: tuple[Box, ...] = ()
    refused: tuple[str, ...] = ()

    def to_json(self) -> str:
        """All but the picture."""
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
