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
#: Pixels by which a shadow may reach over what is beside its box.
FAR_SHADOW = 60.0
#: Elements that may show nothing, or something over their neighbours, whatever their styles are.
RISKY_TAGS = frozenset(("svg", "video", "iframe", "canvas", "object", "embed", "dialog", "math"))
#: Least difference of a channel that a person sees, in [0, 255], and least number of pixels.
LEAST_CONTRAST, LEAST_PIXELS = 16, 8
#: Share of a picture's pixels that must be its own, and of a block's its ground.
LEAST_SHARE = 0.1
#: Letters cover less of the box around them.
MOST_WRITTEN = 0.95
#: Share of a text's columns of pixels that must show some of it: the first letter of a text that is clipped is not that text.
LEAST_COLUMNS = 0.3
#: A font's size is less than this multiple of a line's height, unless the page has changed the font's measures.
MOST_HEIGHT = 1.5
#: More boxes than this are not compared one by one.
MANY = 400
WHITE: Colour = (255, 255, 255)
_LENGTH = re.compile(r"(-?[0-9]{1,9})[0-9.e+]*px")


def may_hide(tag: str, style: Mapping[str, str]) -> bool:
    """Whether an element may hide itself, what is in it, or what is beside it, by other means than by lying on it."""
    if tag in RISKY_TAGS or any(style[name].startswith("-") for name in NEGATIVE):
        return True
    if any(abs(float(length)) > FAR_SHADOW for length in _LENGTH.findall(style["box-shadow"])):
        return True
    return any(
        style[name] not in harmless
        for name, harmless in HARMLESS.items()
        if not (name.startswith("overflow") and tag in REPLACED_TAGS)
    )


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
    lies_on = (across > 1) & (down > 1)  # bounds are rounded
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
        pictures: For each picture to take, in order, the marks (`marks.mark_of`) that it lacks. The first lacks none, the second all.
    """

    def __init__(self, boxes: Sequence[Box], owners: Sequence[int], whole: bytes) -> None:
        self._boxes = boxes
        marks = [
            -1 if box.kind == "block" or owner < 0 else mark_of(owner, box.kind == "text")
            for box, owner in zip(boxes, owners, strict=True)
        ]
        known = sorted({mark for mark in marks if mark >= 0})
        codes = {-1: 0} | dict(zip(known, _codes(len(known)), strict=True))
        self._codes = [codes[mark] for mark in marks]
        bits = max(self._codes, default=0).bit_length()
        self.pictures = [(), tuple(known), *(tuple(mark for mark in known if codes[mark] >> bit & 1) for bit in range(bits))]
        self._whole = self._marked = self._bare = _pixels(whole)
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
        else:
            bit = np.uint32(1 << self._taken - 2)
            np.bitwise_or(self._changed, bit, out=self._changed, where=_differ(pixels, self._marked))
        self._taken += 1

    def seen(self) -> tuple[Box, ...]:
        """The boxes that are seen."""
        self._is_other = _differ(self._whole, self._marked)  # a page that notices that it is looked at
        self._bare = np.where(self._is_other[..., None], self._whole, self._bare)
        kept = [self._is_seen(*each) for each in zip(self._boxes, self._codes, self._codes_with(), strict=True)]
        places = np.cumsum(kept) - 1
        return tuple(
            replace(box, parent=_parent(self._boxes, box, kept, places))
            for box, stays in zip(self._boxes, kept, strict=True)
            if stays
        )

    def _is_seen(self, box: Box, code: int, with_it: int) -> bool:
        part = np.s_[box.y : box.y + box.height, box.x : box.x + box.width]
        if box.kind == "block":
            return bool(self._bare[part].size) and _is_painted(box, self._bare, part)
        others = np.uint32(~(code | with_it) & 0xFFFFFFFF)
        changed = self._changed[part]
        own = (changed & np.uint32(code) == code) & (changed & others == 0)
        if not code or own.sum() < min(LEAST_PIXELS, own.size) or (own & self._is_other[part]).sum() >= LEAST_PIXELS:
            return False
        if box.kind == "text":
            return bool(
                own.mean() <= MOST_WRITTEN
                and own.any(axis=0).mean() >= LEAST_COLUMNS
                and np.ptp(self._whole[part].reshape(-1, 3), axis=0).max() >= LEAST_CONTRAST
            )
        return box.kind == "control" or bool(own.mean() >= LEAST_SHARE)

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


def _codes(count: int) -> list[int]:
    """Different numbers with the same number of bits set, so that none holds another; of as few bits as possible."""
    bits = next(bits for bits in range(1, 33) if math.comb(bits, bits // 2) >= count or bits == 32)
    chosen = itertools.islice(itertools.combinations(range(bits), max(bits // 2, 1)), count)
    return [sum(1 << place for place in places) for places in chosen]


def _differ(some: Pixels, others: Pixels) -> NDArray[np.bool_]:
    apart = (np.maximum(some, others) - np.minimum(some, others)) >= LEAST_CONTRAST
    changed: NDArray[np.bool_] = (
        apart[..., 0] | apart[..., 1] | apart[..., 2]
    )  # several times faster than `any` over the last axis
    return changed


def _is_painted(box: Box, after: Pixels, part: Any) -> bool:
    """Whether an element's ground, border, shadow or picture is seen: a tenth of it has its colour, or it is another than what is around it."""
    around = after[max(box.y - 2, 0) : box.y + box.height + 2, max(box.x - 2, 0) : box.x + box.width + 2].reshape(-1, 3)
    if box.background is None:
        return bool(np.ptp(around, axis=0).max() >= LEAST_CONTRAST // 2)
    pixels = after[part].reshape(-1, 3)
    if 1 - _differ(pixels, np.array(box.background, dtype=np.uint8)).mean() >= LEAST_SHARE:
        return True
    beside = (around.sum(axis=0) - pixels.sum(axis=0)) / (len(around) - len(pixels)) if len(around) > len(pixels) else WHITE
    return bool(np.abs(np.median(pixels, axis=0) - beside).max() >= LEAST_CONTRAST)


def _parent(boxes: Sequence[Box], box: Box, kept: Sequence[bool], places: NDArray[np.integer[Any]]) -> int:
    around = box.parent
    while around >= 0 and not kept[around]:
        around = boxes[around].parent
    return int(places[around]) if around >= 0 else -1


def _pixels(picture: bytes) -> Pixels:
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB"), dtype=np.uint8)
