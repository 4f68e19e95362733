"""Which of a page's boxes are seen: not covered, faded, clipped away, or painted in the colour of their ground.

Most pages cannot hide anything: their elements stand side by side, none is faded or clipped, and every text stands out from its ground
by its styles (`hides_nothing`). Of any other page two pictures are compared: the page, and the page without its writing and its
pictures (`TAKE_AWAY`). A text is seen where the first picture has what the second lacks. A thing that changes nothing is not seen.

A page whose scripts run can act otherwise while it is looked at; ColBench's pages run none.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandboxes.pages.page import Box, Colour

Pixels = NDArray[np.int16]
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
}
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
#: More boxes than this are not compared one by one.
MANY = 400
WHITE: Colour = (255, 255, 255)
_LENGTH = re.compile(r"(-?[0-9]{1,9})[0-9.e+]*px")

TAKE_AWAY = """
const things = new Set(['IMG', 'SVG', 'VIDEO', 'IFRAME', 'CANVAS', 'OBJECT', 'EMBED', 'INPUT', 'TEXTAREA', 'SELECT', 'BUTTON']);
const all = [...document.querySelectorAll('*')].filter(e => e.style);
const clipped = all.filter(e => getComputedStyle(e).backgroundClip.includes('text'));
const set = (e, name, value) => e.style.setProperty(name, value, 'important');
for (const e of all) { set(e, 'transition', 'none'); set(e, 'animation', 'none'); }
for (const e of all) {
  for (const name of ['color', '-webkit-text-fill-color', '-webkit-text-stroke-color', 'text-decoration-color', 'text-emphasis-color'])
    set(e, name, 'transparent');
  set(e, 'text-shadow', 'none');
  if (things.has(e.tagName.toUpperCase())) set(e, 'opacity', '0');
}
for (const e of clipped) { set(e, 'background-image', 'none'); set(e, 'background-color', 'transparent'); }
"""


def may_hide(tag: str, style: Mapping[str, str]) -> bool:
    """Whether an element may hide itself, what is in it, or what is beside it, by other means than by lying on it."""
    if tag in RISKY_TAGS or style["z-index"].startswith("-"):  # behind what it stands in
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


def seen(boxes: Sequence[Box], whole: bytes, bare: bytes) -> tuple[Box, ...]:
    """The boxes that are seen.

    Args:
        boxes: Of the page.
        whole: Its picture, PNG.
        bare: The picture without writing and pictures.
    """
    before, after = _pixels(whole), _pixels(bare)
    if before.shape != after.shape:
        return ()
    changed = np.abs(before - after).max(axis=-1) >= LEAST_CONTRAST
    kept = [_is_seen(box, _is_in_thing(boxes, box), before, after, changed) for box in boxes]
    places = np.cumsum(kept) - 1
    return tuple(
        replace(box, parent=_parent(boxes, box, kept, places)) for box, stays in zip(boxes, kept, strict=True) if stays
    )


def _is_in_thing(boxes: Sequence[Box], box: Box) -> bool:
    """Whether a box stands in a control or picture, which is taken away with all that is in it."""
    around = box.parent
    while around >= 0 and boxes[around].kind not in ("control", "image"):
        around = boxes[around].parent
    return around >= 0


def _is_seen(box: Box, is_in_thing: bool, before: Pixels, after: Pixels, changed: NDArray[np.bool_]) -> bool:
    part = np.s_[box.y : box.y + box.height, box.x : box.x + box.width]
    own = changed[part]
    if not own.size:
        return False
    if box.kind == "block":
        return _is_painted(box, after, part)
    if own.sum() < min(LEAST_PIXELS, own.size):
        return False
    if box.kind == "text":
        return bool(
            (is_in_thing or own.mean() <= MOST_WRITTEN) and np.ptp(before[part].reshape(-1, 3), axis=0).max() >= LEAST_CONTRAST
        )
    return box.kind == "control" or bool(own.mean() >= LEAST_SHARE)


def _is_painted(box: Box, after: Pixels, part: Any) -> bool:
    """Whether an element's ground, border, shadow or picture is seen: a tenth of it has its colour, or it is another than what is around it."""
    around = after[max(box.y - 2, 0) : box.y + box.height + 2, max(box.x - 2, 0) : box.x + box.width + 2].reshape(-1, 3)
    if box.background is None:
        return bool(np.ptp(around, axis=0).max() >= LEAST_CONTRAST // 2)
    pixels = after[part].reshape(-1, 3)
    like = np.abs(pixels - np.array(box.background)).max(axis=-1) < LEAST_CONTRAST
    beside = (around.sum(axis=0) - pixels.sum(axis=0)) / (len(around) - len(pixels)) if len(around) > len(pixels) else WHITE
    return bool(like.mean() >= LEAST_SHARE or np.abs(np.median(pixels, axis=0) - beside).max() >= LEAST_CONTRAST)


def _parent(boxes: Sequence[Box], box: Box, kept: Sequence[bool], places: NDArray[np.integer[Any]]) -> int:
    around = box.parent
    while around >= 0 and not kept[around]:
        around = boxes[around].parent
    return int(places[around]) if around >= 0 else -1


def _pixels(picture: bytes) -> Pixels:
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB"), dtype=np.int16)
