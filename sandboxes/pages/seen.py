"""Find the boxes of a page that are actually visible: not covered, faded, clipped, or painted in the colour of their background.

Most pages cannot hide anything: their elements are side by side, none is faded or clipped, and the styles of every text contrast with its
background (`hides_nothing`). Any other page is examined with several pictures (`Look`), each without some of its texts, images and
controls. Each of these parts has a code: the set of pictures that omit it. A pixel belongs to the box with the code that equals the set of
pictures in which the pixel changes, so a cover of a text is never mistaken for the text. A part that changes no pixel is not visible.
"""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandboxes.pages.marks import mark_of
from sandboxes.pages.page import Box, Colour
from sandboxes.pages.styles import number

Pixels = NDArray[np.uint8]
#: Computed styles that may hide something, and their harmless values. The positions of elements are checked by their boxes.
HARMLESS: Mapping[str, tuple[str, ...]] = {
    "opacity": ("1",),
    "transform": ("none",),
    "translate": ("none",),
    "rotate": ("none",),
    "scale": ("none",),
    "filter": ("none",),
    "backdrop-filter": ("none",),
    "clip-path": ("none",),
    "mask-image": ("none",),
    "mix-blend-mode": ("normal",),
    "overflow-x": ("visible",),
    "overflow-y": ("visible",),
    "contain": ("none",),
    "background-clip": ("border-box",),
    "background-image": ("none",),
    "border-image-source": ("none",),
    "outline-style": ("none",),
    "text-shadow": ("none",),
    "-webkit-text-stroke-width": ("0px",),
    "-webkit-text-security": ("none",),
    "object-fit": ("fill", "cover", "contain", "scale-down"),
    "object-position": ("50% 50%",),
    "object-view-box": ("none",),
    "column-rule-style": ("none",),
    "list-style-image": ("none",),
    "text-decoration-thickness": ("auto", "from-font"),
    "text-emphasis-style": ("none",),
}
#: Computed styles that move letters over each other or out of their box if negative; and z-index, which may move an element behind its parent.
NEGATIVE = ("z-index", "letter-spacing", "word-spacing", "text-indent")
#: Elements that clip their content by default, and that do not contain elements of the page.
REPLACED_TAGS = frozenset(("img", "input", "textarea", "select", "button"))
#: Harmless extent of a shadow beyond its box, in pixels: with blur, and with sharp edges.
FAR_SHADOW, FAR_EDGE = 60.0, 4.0
#: Sizes in pixels of letters and borders above which they may cover their neighbours.
LARGE_FONT, LARGE_BORDER = 200.0, 60.0
#: Elements that may show nothing, or cover their neighbours, independently of their styles.
RISKY_TAGS = frozenset(
    (
        "svg",
        "video",
        "audio",
        "iframe",
        "canvas",
        "object",
        "embed",
        "dialog",
        "math",
        "progress",
        "meter",
        "details",
        "marquee",
        "fieldset",
    )
)
#: Minimal visible difference of a colour channel, in [0, 255]; minimal difference for readable letters; minimal number of pixels.
LEAST_CONTRAST, LEAST_READABLE, LEAST_PIXELS = 16, 32, 8
#: Minimal difference of a colour channel at which the pixels' colour replaces the colour of the styles.
OTHER_COLOUR = 128
#: Minimal share of visible pixels of an image, and of pixels of a block that show its background.
LEAST_SHARE = 0.1
#: Maximal share of a text's box that letters cover.
MOST_WRITTEN = 0.95
#: Minimal shares of a text's pixel columns and rows that show a part of it, and of their product. The first letter of a clipped text is too little.
LEAST_COLUMNS, LEAST_ROWS, LEAST_WRITTEN = 0.4, 0.3, 0.2
#: Minimal number of letters and digits for these thresholds: a dash or a dot covers few rows.
LEAST_LETTERS = 3
#: Maximal number of examined pixels of a text, picture or control, and of a block. Of a larger box, every second or third row and column
#: is examined.
MOST_PIXELS, MOST_BLOCK_PIXELS = 250_000, 20_000
#: The font size is less than this multiple of the line height, unless the page has changed the font metrics.
MOST_HEIGHT = 1.5
#: Maximal height or width in pixels of a box that counts as a line.
THIN = 4
#: Maximal number of boxes that are compared pair by pair.
MANY = 400
WHITE: Colour = (255, 255, 255)
_LENGTH = re.compile(r"(-?[0-9]{1,9})[0-9.e+]*px")


def may_hide(tag: str, style: Mapping[str, str]) -> bool:
    """Whether an element may hide itself, its content or its neighbours, by other means than covering them."""
    if tag in RISKY_TAGS or any(style[name].startswith("-") for name in NEGATIVE):
        return True
    background = style["background-color"]
    is_veil = background != "rgba(0, 0, 0, 0)" and (background.startswith("rgba(") or "/" in background)  # partly transparent
    if is_veil or _reaches_far(style["box-shadow"]) or number(style["font-size"]) > LARGE_FONT:
        return True
    if any(number(style[f"border-{side}-width"]) > LARGE_BORDER for side in ("top", "right", "bottom", "left")):
        return True
    return any(
        style[name] not in harmless
        for name, harmless in HARMLESS.items()
        if not (name.startswith("overflow") and tag in REPLACED_TAGS)
    )


def _reaches_far(shadows: str) -> bool:
    lengths = [abs(float(length)) for length in _LENGTH.findall(shadows)]
    if any(length > FAR_SHADOW for length in lengths):
        return True
    each = zip(*[iter(lengths)] * 4, strict=False)  # Chromium writes x, y, blur and spread of each
    return any(spread > FAR_EDGE and blur <= spread or max(x, y) > blur + FAR_EDGE for x, y, blur, spread in each)


def hides_nothing(boxes: Sequence[Box]) -> bool:
    """Whether the positions and colours of all boxes already imply that they are visible. Their styles are `HARMLESS`."""
    if len(boxes) > MANY:
        return False
    return not _overlap(boxes) and all(_stands_out(boxes, box) for box in boxes if box.kind == "text")


def _overlap(boxes: Sequence[Box]) -> bool:
    """Whether a box overlaps a text, picture or control that neither contains it nor is inside it."""
    if len(boxes) < 2:
        return False
    left, top, width, height = np.array([(box.x, box.y, box.width, box.height) for box in boxes]).T
    right, bottom = left + width, top + height
    across = np.minimum(right[:, None], right) - np.maximum(left[:, None], left)
    down = np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)
    is_thin = np.minimum(width, height) <= THIN  # many thin boxes together can cover a text
    lies_on = ((across > 1) & (down > 1)) | ((across > 0) & (down > 0) & is_thin[:, None])  # bounds are rounded
    lies_on &= np.array([box.kind != "block" for box in boxes])[None, :]
    for i, box in enumerate(boxes):
        lies_on[i, i] = False
        around = box.parent
        while around >= 0:
            lies_on[around, i] = lies_on[i, around] = False
            around = boxes[around].parent
    return bool(lies_on.any())


def _stands_out(boxes: Sequence[Box], box: Box) -> bool:
    around = box.parent
    while around >= 0 and boxes[around].background is None:
        around = boxes[around].parent
    ground = boxes[around].background if around >= 0 else WHITE
    return max(abs(a - b) for a, b in zip(box.colour, ground or WHITE, strict=True)) >= 2 * LEAST_CONTRAST


class Look:
    """The pictures of one page that determine which of its boxes are visible.

    Args:
        boxes: Boxes of the page.
        owners: For each box the index of its element among the document's elements, in the order of the source; -1 for an element
            in a shadow tree, which counts as invisible. A text belongs to the element around it.
        whole: The complete picture of the page, PNG.

    Attributes:
        pictures: For each picture to take, in order, the marks (`marks.mark_of`) to omit. The first omits none, the second all, the
            third all texts.
    """

    def __init__(self, boxes: Sequence[Box], owners: Sequence[int], whole: bytes) -> None:
        self._boxes = boxes
        marks = [
            -1 if box.kind == "block" or owner < 0 else mark_of(owner, box.kind == "text")
            for box, owner in zip(boxes, owners, strict=True)
        ]
        codes = _codes_of({mark for mark in marks if mark >= 0})
        self._codes = [codes.get(mark, 0) for mark in marks]
        self.pictures = [(), tuple(codes), tuple(mark for mark in codes if mark & 1)]
        for bit in range(max(codes.values(), default=0).bit_length()):
            self.pictures.append(tuple(mark for mark, code in codes.items() if code >> bit & 1))
        self._whole = self._marked = self._bare = self._unwritten = _pixels(whole)
        self._changed = np.zeros(self._whole.shape[:2], dtype=np.uint32)
        self._is_other = np.zeros(self._whole.shape[:2], dtype=np.bool_)
        self._taken = 0

    def add(self, picture: bytes) -> None:
        """Add the next of `pictures`, PNG.

        Raises:
            ValueError: If its size differs from that of the first.
        """
        pixels = _pixels(picture)
        if pixels.shape != self._whole.shape:
            raise ValueError(f"A picture of shape {pixels.shape} of a page of shape {self._whole.shape}.")
        if self._taken == 0:
            self._marked = pixels
        elif self._taken == 1:
            self._bare = pixels
        elif self._taken == 2:
            self._unwritten = pixels
        else:
            bit = np.uint32(1 << self._taken - 3)
            np.bitwise_or(self._changed, bit, out=self._changed, where=_differ(pixels, self._marked))
        self._taken += 1

    def seen(self) -> tuple[Box, ...]:
        """The visible boxes."""
        self._is_other = _differ(self._whole, self._marked)  # the page reacts to the marks
        self._bare = np.where(self._is_other[..., None], self._whole, self._bare)
        looked = [self._look_at(*each) for each in zip(self._boxes, self._codes, self._codes_with(), strict=True)]
        kept = [box is not None for box in looked]
        places = np.cumsum(kept) - 1
        return tuple(
            replace(seen, parent=_parent(self._boxes, box, kept, places))
            for box, seen in zip(self._boxes, looked, strict=True)
            if seen is not None
        )

    def _look_at(self, box: Box, code: int, with_it: int) -> Box | None:
        """The box with its visible colours; None if it is not visible."""
        most = MOST_BLOCK_PIXELS if box.kind == "block" else MOST_PIXELS
        step = 1 + int(math.sqrt(box.width * box.height / most))
        part = np.s_[box.y : box.y + box.height : step, box.x : box.x + box.width : step]
        if box.kind == "block":
            return _painted(box, self._bare, part, step) if self._bare[part].size else None
        others = np.uint32(~(code | with_it) & 0xFFFFFFFF)
        changed = self._changed[part]
        pixels = (changed & np.uint32(code) == code) & (changed & others == 0)
        least = LEAST_PIXELS / step**2
        if not code or pixels.sum() < min(least, pixels.size) or (pixels & self._is_other[part]).sum() >= least:
            return None
        if box.kind == "text":
            return self._read(box, part, pixels)
        if box.kind == "control":
            return box if self._is_control_seen(box, part, pixels) else None
        return box if pixels.mean() >= LEAST_SHARE else None

    def _is_control_seen(self, box: Box, part: Any, pixels: NDArray[np.bool_]) -> bool:
        """Whether most of a control is visible, and a text in it is readable."""
        contrast = np.abs(self._whole[part].astype(np.int16) - self._bare[part]).max(axis=-1) * pixels
        is_read = not box.text or bool((contrast >= LEAST_READABLE).any())
        return is_read and bool(pixels.any(axis=1).mean() >= LEAST_ROWS)

    def _read(self, box: Box, part: Any, pixels: NDArray[np.bool_]) -> Box | None:
        """The text with these pixels as its letters; None if it is not readable."""
        letters, ground = self._whole[part].astype(np.int16), self._unwritten[part].astype(np.int16)
        contrast = np.abs(letters - ground).max(axis=-1) * pixels
        is_read = contrast >= LEAST_READABLE
        columns, rows = is_read.any(axis=0).mean(), is_read.any(axis=1).mean()
        has_words = sum(c.isalnum() for c in box.text) >= LEAST_LETTERS
        if pixels.mean() > MOST_WRITTEN or not is_read.any():
            return None
        if has_words and (columns < LEAST_COLUMNS or rows < LEAST_ROWS or columns * rows < LEAST_WRITTEN):
            return None
        darkest = letters[contrast >= 0.9 * contrast.max()]
        return replace(box, colour=_colour_seen(box.colour, darkest))

    def _codes_with(self) -> list[int]:
        """For each box the codes of the images and controls around it and, if it is one itself, of its content: they are hidden together."""
        hidden_together = [0] * len(self._boxes)
        for i, box in enumerate(self._boxes):
            around = box.parent
            while around >= 0:
                if self._boxes[around].kind in ("control", "image"):
                    hidden_together[i] |= self._codes[around]
                    hidden_together[around] |= self._codes[i]
                around = self._boxes[around].parent
        return hidden_together


def _codes_of(marks: set[int]) -> dict[int, int]:
    """A code for every mark. Texts have separate bits, so that a text can be recognized even on or inside an image or control."""
    texts, things = (sorted(mark for mark in marks if mark & 1 == is_text) for is_text in (1, 0))
    text_codes = dict(zip(texts, _codes(len(texts)), strict=True))
    shift = max(text_codes.values(), default=0).bit_length()
    return text_codes | {mark: code << shift for mark, code in zip(things, _codes(len(things)), strict=True)}


def _codes(count: int) -> list[int]:
    """Distinct numbers with the same number of set bits, so that none includes another, with as few bits as possible."""
    bits = next(bits for bits in range(1, 17) if math.comb(bits, bits // 2) >= count or bits == 16)
    chosen = itertools.islice(itertools.combinations(range(bits), max(bits // 2, 1)), count)
    return [sum(1 << place for place in places) for places in chosen]


def _differ(some: Pixels, others: Pixels) -> NDArray[np.bool_]:
    apart = (np.maximum(some, others) - np.minimum(some, others)) >= LEAST_CONTRAST
    changed: NDArray[np.bool_] = (
        apart[..., 0] | apart[..., 1] | apart[..., 2]
    )  # several times faster than `any` over the last axis
    return changed


def _painted(box: Box, after: Pixels, part: Any, step: int) -> Box | None:
    """An element with its prevailing visible colour, if its background, border, shadow or picture is visible; else None.

    It is visible if a tenth of it has its colour, or if its colour differs from its surroundings.
    """
    if box.background is None:
        around = after[max(box.y - 2, 0) : box.y + box.height + 2 : step, max(box.x - 2, 0) : box.x + box.width + 2 : step]
        around = around.reshape(-1, 3)
        return box if np.ptp(around, axis=0).max() >= LEAST_CONTRAST // 2 else None
    pixels = after[part].reshape(-1, 3)
    if 1 - _differ(pixels, np.array(box.background, dtype=np.uint8)).mean() >= LEAST_SHARE:
        return box
    median = np.median(pixels, axis=0)
    edge = np.concatenate(
        [
            after[max(box.y - 2, 0), box.x : box.x + box.width],
            after[min(box.y + box.height + 1, len(after) - 1), box.x : box.x + box.width],
        ]
    )
    beside = edge.mean(axis=0) if len(edge) else WHITE
    if np.abs(median - beside).max() < LEAST_CONTRAST:
        return None
    return replace(box, background=_colour_seen(box.background, pixels))


def _colour_seen(styled: Colour, pixels: NDArray[Any]) -> Colour:
    """The colour of the styles, or that of the pixels if it is very different."""
    red, green, blue = (round(float(part)) for part in np.median(pixels, axis=0))
    return (
        styled
        if max(abs(a - b) for a, b in zip(styled, (red, green, blue), strict=True)) < OTHER_COLOUR
        else (red, green, blue)
    )


def _parent(boxes: Sequence[Box], box: Box, kept: Sequence[bool], places: NDArray[np.integer[Any]]) -> int:
    around = box.parent
    while around >= 0 and not kept[around]:
        around = boxes[around].parent
    return int(places[around]) if around >= 0 else -1


def _pixels(picture: bytes) -> Pixels:
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB"), dtype=np.uint8)
