"""Which of a page's boxes are seen: not covered, faded, clipped away, or painted in the colour of their ground.

Most pages cannot hide anything: their elements stand side by side, none is faded or clipped, and every text stands out from its ground
by its styles (`hides_nothing`). Any other page is looked at (`Look`). Several pictures are taken, each without some of its texts, images
and controls. Every one of them has a code: the pictures that lack it. A pixel belongs to the box whose code is the set of pictures
in which that pixel changes, so what covers a text is never taken for the text. A thing that changes nothing is not seen.
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
#: Computed styles by which something may be hidden, and the values that hide nothing. What lies where is seen by the boxes.
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
#: Computed styles that bring letters onto each other, or out of their box, where they are below zero; and z-index: behind what it stands in.
NEGATIVE = ("z-index", "letter-spacing", "word-spacing", "text-indent")
#: Elements whose content is cut at their sides by default, and is none of the page's.
REPLACED_TAGS = frozenset(("img", "input", "textarea", "select", "button"))
#: Pixels by which a shadow may reach over what is beside its box: blurred, and with sharp edges.
FAR_SHADOW, FAR_EDGE = 60.0, 4.0
#: Sizes in pixels, of letters and of borders, beyond which they may cover what is beside them.
LARGE_FONT, LARGE_BORDER = 200.0, 60.0
#: Elements that may show nothing, or something over their neighbours, whatever their styles are.
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
#: Least difference of a channel that a person sees, in [0, 255], that letters can be read by, and least number of pixels.
LEAST_CONTRAST, LEAST_READABLE, LEAST_PIXELS = 16, 32, 8
#: Difference of a channel from which a thing has another colour than its styles say.
OTHER_COLOUR = 128
#: Share of a picture's pixels that must be its own, and of a block's its ground.
LEAST_SHARE = 0.1
#: Letters cover less of the box around them.
MOST_WRITTEN = 0.95
#: Share of a text's columns and rows of pixels that must show some of it, and the product: the first letter of a text that is clipped is not that text.
LEAST_COLUMNS, LEAST_ROWS, LEAST_WRITTEN = 0.4, 0.3, 0.2
#: Letters and digits from which that holds: a dash or a dot covers few rows.
LEAST_LETTERS = 3
#: Pixels of a text, picture or control and of a block that are looked at, at most: of a large one every second or third row and column tells
#: as much.
MOST_PIXELS, MOST_BLOCK_PIXELS = 250_000, 20_000
#: A font's size is less than this multiple of a line's height, unless the page has changed the font's measures.
MOST_HEIGHT = 1.5
#: Pixels of height or width up to which a box is a line.
THIN = 4
#: More boxes than this are not compared one by one.
MANY = 400
WHITE: Colour = (255, 255, 255)
_LENGTH = re.compile(r"(-?[0-9]{1,9})[0-9.e+]*px")


def may_hide(tag: str, style: Mapping[str, str]) -> bool:
    """Whether an element may hide itself, what is in it, or what is beside it, by other means than by lying on it."""
    if tag in RISKY_TAGS or any(style[name].startswith("-") for name in NEGATIVE):
        return True
    if _reaches_far(style["box-shadow"]) or _is_veil(style["background-color"]) or number(style["font-size"]) > LARGE_FONT:
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


def _is_veil(background: str) -> bool:
    """Whether a ground can be seen through in part."""
    return background != "rgba(0, 0, 0, 0)" and (background.startswith("rgba(") or "/" in background)


def hides_nothing(boxes: Sequence[Box]) -> bool:
    """Whether all boxes are seen already by where they are and what colour they have; their styles are `HARMLESS`."""
    if len(boxes) > MANY:
        return False
    return not _overlap(boxes) and all(_stands_out(boxes, box) for box in boxes if box.kind == "text")


def _overlap(boxes: Sequence[Box]) -> bool:
    """Whether a box lies on a text, picture or control that is not in it, nor around it."""
    if len(boxes) < 2:
        return False
    left, top, width, height = np.array([(box.x, box.y, box.width, box.height) for box in boxes]).T
    right, bottom = left + width, top + height
    across = np.minimum(right[:, None], right) - np.maximum(left[:, None], left)
    down = np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)
    is_thin = np.minimum(width, height) <= THIN  # many of them together cover
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
    """The pictures of one page that tell which of its boxes are seen.

    Args:
        boxes: Of the page.
        owners: For each box the place of its element among the document's elements, in the order of the source; -1 for an element
            in a shadow tree, which counts as not seen. A text's element is the one around it.
        whole: The page's picture, PNG.

    Attributes:
        pictures: For each picture to take, in order, the marks (`marks.mark_of`) that it lacks. The first lacks none, the second all, the
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
        """Take note of the next of `pictures`, PNG.

        Raises:
            ValueError: If it has another size than the first.
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
        """The boxes that are seen."""
        self._is_other = _differ(self._whole, self._marked)  # a page that notices that it is looked at
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
        """The box in the colours that it is seen in; None where it is not."""
        most = MOST_BLOCK_PIXELS if box.kind == "block" else MOST_PIXELS
        step = 1 + int(math.sqrt(box.width * box.height / most))
        part = np.s_[box.y : box.y + box.height : step, box.x : box.x + box.width : step]
        if box.kind == "block":
            return _painted(box, self._bare, part, step) if self._bare[part].size else None
        others = np.uint32(~(code | with_it) & 0xFFFFFFFF)
        changed = self._changed[part]
        own = (changed & np.uint32(code) == code) & (changed & others == 0)
        least = LEAST_PIXELS / step**2
        if not code or own.sum() < min(least, own.size) or (own & self._is_other[part]).sum() >= least:
            return None
        if box.kind == "text":
            return self._read(box, part, own)
        if box.kind == "control":
            return box if self._is_control_seen(box, part, own) else None
        return box if own.mean() >= LEAST_SHARE else None

    def _is_control_seen(self, box: Box, part: Any, own: NDArray[np.bool_]) -> bool:
        """Whether most of a control is seen, and a text in it can be read."""
        contrast = np.abs(self._whole[part].astype(np.int16) - self._bare[part]).max(axis=-1) * own
        is_read = not box.text or bool((contrast >= LEAST_READABLE).any())
        return is_read and bool(own.any(axis=1).mean() >= LEAST_ROWS)

    def _read(self, box: Box, part: Any, own: NDArray[np.bool_]) -> Box | None:
        """A text whose letters are these pixels, where they can be read."""
        letters, ground = self._whole[part].astype(np.int16), self._unwritten[part].astype(np.int16)
        contrast = np.abs(letters - ground).max(axis=-1) * own
        is_read = contrast >= LEAST_READABLE
        columns, rows = is_read.any(axis=0).mean(), is_read.any(axis=1).mean()
        has_words = sum(c.isalnum() for c in box.text) >= LEAST_LETTERS
        if own.mean() > MOST_WRITTEN or not is_read.any():
            return None
        if has_words and (columns < LEAST_COLUMNS or rows < LEAST_ROWS or columns * rows < LEAST_WRITTEN):
            return None
        darkest = letters[contrast >= 0.9 * contrast.max()]
        return replace(box, colour=_colour_seen(box.colour, darkest))

    def _codes_with(self) -> list[int]:
        """For each box the codes of the images and controls that it stands in, and of what stands in it if it is one: they go together."""
        found = [0] * len(self._boxes)
        for i, box in enumerate(self._boxes):
            around = box.parent
            while around >= 0:
                if self._boxes[around].kind in ("control", "image"):
                    found[i] |= self._codes[around]
                    found[around] |= self._codes[i]
                around = self._boxes[around].parent
        return found


def _codes_of(marks: set[int]) -> dict[int, int]:
    """A code for every mark. Texts and things have bits apart, so that a text is known by its own also where it stands on or in a thing."""
    texts, things = (sorted(mark for mark in marks if mark & 1 == is_text) for is_text in (1, 0))
    own = dict(zip(texts, _codes(len(texts)), strict=True))
    shift = max(own.values(), default=0).bit_length()
    return own | {mark: code << shift for mark, code in zip(things, _codes(len(things)), strict=True)}


def _codes(count: int) -> list[int]:
    """Different numbers with the same number of bits set, so that none holds another; of as few bits as possible."""
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
    """An element whose ground, border, shadow or picture is seen, in the colour that it has for the most part; None where it is not.

    It is seen where a tenth of it has its colour, or it is another than what is around it.
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


def _colour_seen(said: Colour, pixels: NDArray[Any]) -> Colour:
    """The colour that styles say, or where pixels have quite another one, theirs."""
    red, green, blue = (round(float(part)) for part in np.median(pixels, axis=0))
    return said if max(abs(a - b) for a, b in zip(said, (red, green, blue), strict=True)) < OTHER_COLOUR else (red, green, blue)


def _parent(boxes: Sequence[Box], box: Box, kept: Sequence[bool], places: NDArray[np.integer[Any]]) -> int:
    around = box.parent
    while around >= 0 and not kept[around]:
        around = boxes[around].parent
    return int(places[around]) if around >= 0 else -1


def _pixels(picture: bytes) -> Pixels:
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB"), dtype=np.uint8)
