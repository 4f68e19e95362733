"""Compute the visible boxes of a page from Chromium's snapshot of its layout (DOMSnapshot.captureSnapshot).

Styles and texts of a page are untrusted data: an unknown style is ignored (`styles`), and half of a surrogate pair becomes U+FFFD. At most
`MAX_NODES` laid-out nodes and `MAX_BOXES` boxes are processed, and `MAX_TEXT_CHARS` characters of a text are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sandboxes.pages.page import Box, Colour
from sandboxes.pages.seen import HARMLESS, MOST_HEIGHT, NEGATIVE, hides_nothing, may_hide
from sandboxes.pages.styles import number, solid_colour

#: Computed styles that the snapshot must hold, in this order.
STYLES = tuple(dict.fromkeys((
    "color", "background-color", "background-image", "font-size", "visibility", "opacity",
    "border-top-width", "border-bottom-width", "border-left-width", "border-right-width", "border-top-color",
    "border-bottom-color", "border-left-color", "border-right-color", "box-shadow", "-webkit-text-fill-color", "unicode-bidi", *NEGATIVE, *HARMLESS,
)))  # fmt: skip
_KINDS = {
    **dict.fromkeys(("img", "svg", "video", "iframe", "canvas", "object", "embed"), "image"),
    **dict.fromkeys(("input", "textarea", "select", "button"), "control"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_SIDES = ("top", "bottom", "left", "right")
#: Values of unicode-bidi that display letters in another order than in the source.
_REORDERED = ("bidi-override", "isolate-override")
_ELEMENT_NODE, _TEXT_NODE = 1, 3
#: Exceptions of `visible_boxes` for a broken snapshot.
SNAPSHOT_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
MAX_NODES = 50_000
MAX_BOXES = 2_000
MAX_TEXT_CHARS = 2_000
#: Minimal number of pixels of a visible picture or control.
LEAST_AREA = 16
#: Minimal height of a readable text in pixels. The height of its box is that of its font, about 1.2 times the font size.
LEAST_TEXT_HEIGHT = 6


class Found(NamedTuple):
    """The boxes of the page's own document that are displayed.

    Attributes:
        boxes: In the order of the page's source.
        owners: For each box, the index of its element among the document's elements (`document.querySelectorAll("*")`), for a text that
            of the element around it; -1 in a shadow tree.
        is_all_seen: True if all of them are certainly visible.
    """

    boxes: tuple[Box, ...]
    owners: tuple[int, ...]
    is_all_seen: bool


def visible_boxes(snapshot: Mapping[str, Any], width: int, height: int, is_plain: bool = True) -> Found:
    """The displayed boxes of a page, clipped to its picture.

    Args:
        snapshot: Chromium's snapshot with `STYLES`.
        width: Width of the picture in pixels. Boxes outside are dropped, boxes across its sides are clipped.
        height: Height of the picture in pixels, likewise.
        is_plain: True if the computed styles fully describe the page (`plain.is_plain`).

    Raises:
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError: If the snapshot does not have Chromium's format.
    """
    reader = _Reader(snapshot, width, height)
    boxes = reader.boxes()
    owners = tuple(reader.places.get(node, -1) for node in reader.owners)
    return Found(boxes, owners, is_plain and not reader.may_hide and hides_nothing(boxes))


class _Reader:
    def __init__(self, snapshot: Mapping[str, Any], width: int, height: int) -> None:
        self.strings = snapshot["strings"]
        document = snapshot["documents"][0]
        self.nodes, self.layout = document["nodes"], document["layout"]
        self.width, self.height = width, height
        self.opacity: dict[int, float] = {}
        self.box_of: dict[int, int] = {}
        self.may_hide = len(self.layout["nodeIndex"]) > MAX_NODES
        self.pseudo = self._pseudo_elements()
        self.may_hide |= self._leaves_its_lines(document.get("textBoxes", {"layoutIndex": [], "bounds": []}))
        self.owners: list[int] = []
        self.places = self._places()
        self.values = {
            name: dict(zip(column["index"], (self.strings[i] if i >= 0 else "" for i in column["value"]), strict=True))
            for name, column in (
                (name, self.nodes.get(name, {"index": [], "value": []})) for name in ("inputValue", "textValue")
            )
        }

    def boxes(self) -> tuple[Box, ...]:
        read: list[Box] = []
        for i, node in enumerate(self.layout["nodeIndex"][:MAX_NODES]):
            if len(read) >= MAX_BOXES:
                break
            style = dict(zip(STYLES, (self.strings[s] for s in self.layout["styles"][i]), strict=False))
            self.may_hide |= self.pseudo.get(node, "marker") != "marker"
            if not style or node in self.pseudo:  # the viewport has none
                continue
            parent = self.nodes["parentIndex"][node]
            self.may_hide |= self._may_hide(node, style)
            self.opacity[node] = self.opacity.get(parent, 1.0) * number(style["opacity"], 1.0)
            bounds = self._bounds(self.layout["bounds"][i])
            if style["visibility"] == "visible" and self.opacity[node] > 0.02 and bounds:
                box = self._box(i, node, style, bounds)
                if box is not None:
                    self.box_of[node] = len(read)
                    self.owners.append(parent if box.kind == "text" else node)
                    read.append(box)
        return tuple(read)

    def _pseudo_elements(self) -> dict[int, str]:
        column = self.nodes.get("pseudoType", {"index": [], "value": []})
        return {node: self.strings[name] for node, name in zip(column["index"], column["value"], strict=True)}

    def _leaves_its_lines(self, lines: Mapping[str, Any]) -> bool:
        """Whether letters may be drawn outside of the boxes of their lines, because the page has changed the metrics of their font."""
        place, styles = STYLES.index("font-size"), self.layout["styles"]
        return any(
            number(self.strings[styles[i][place]], 16.0) > MOST_HEIGHT * bounds[3]
            for i, bounds in zip(lines["layoutIndex"], lines["bounds"], strict=True)
            if styles[i]
        )

    def _places(self) -> dict[int, int]:
        """The index of each element of the document itself, without shadow trees and pseudo-elements."""
        outside = set(self.pseudo) | set(self.nodes.get("shadowRootType", {"index": []})["index"])
        places: dict[int, int] = {}
        for node, (kind, parent) in enumerate(zip(self.nodes["nodeType"], self.nodes["parentIndex"], strict=True)):
            if node in outside or parent in outside:
                outside.add(node)
            elif kind == _ELEMENT_NODE:
                places[node] = len(places)
        return places

    def _may_hide(self, node: int, style: Mapping[str, str]) -> bool:
        """Whether an element may hide itself, its content or its neighbours. A text node has the styles of the element around it."""
        if self.nodes["nodeType"][node] == _TEXT_NODE:
            return solid_colour(style["color"]) is None or style["-webkit-text-fill-color"] != style["color"]
        tag = self._tag(node)
        is_ours = tag != "img" or self._attributes(node).get("src", "").startswith("http")  # a photo of ours, or none at all
        return not is_ours or may_hide(tag, style)

    def _box(self, i: int, node: int, style: Mapping[str, str], bounds: tuple[int, int, int, int]) -> Box | None:
        is_text = self.nodes["nodeType"][node] == _TEXT_NODE
        tag = self._tag(self.nodes["parentIndex"][node] if is_text else node)
        background = solid_colour(style["background-color"])
        kind = "text" if is_text else _KINDS.get(tag, "block")
        text = self._text(i, node, tag) if kind in ("text", "control") else ""
        if kind == "text" and (not text or bounds[3] < LEAST_TEXT_HEIGHT or style["unicode-bidi"] in _REORDERED):
            return None
        if kind == "block" and not _is_drawn(style, background):
            return None
        if kind in ("image", "control") and bounds[2] * bounds[3] < LEAST_AREA:
            return None
        return Box(
            kind, tag, *bounds, text=text, colour=solid_colour(style["-webkit-text-fill-color"] if is_text else style["color"]) or (0, 0, 0), background=None if is_text else background,
            font_size=number(style["font-size"], 16.0),
            parent=self._around(self.nodes["parentIndex"][node]),
        )  # fmt: skip

    def _bounds(self, bounds: list[float]) -> tuple[int, int, int, int] | None:
        x, y, width, height = bounds
        left, top = max(x, 0.0), max(y, 0.0)
        right, bottom = min(x + width, self.width), min(y + height, self.height)
        if right - left < 1 or bottom - top < 1:
            return None
        return round(left), round(top), round(right - left), round(bottom - top)

    def _around(self, node: int) -> int:
        while node >= 0:
            if node in self.box_of:
                return self.box_of[node]
            node = self.nodes["parentIndex"][node]
        return -1

    def _tag(self, node: int) -> str:
        return str(self.strings[self.nodes["nodeName"][node]]).lower()

    def _text(self, i: int, node: int, tag: str) -> str:
        if tag in ("input", "textarea"):
            attributes = self._attributes(node)
            value = self.values["inputValue"].get(node) or self.values["textValue"].get(node) or attributes.get("value")
            return _collapsed("" if attributes.get("type") == "hidden" else value or attributes.get("placeholder", ""))
        place = self.layout["text"][i]
        return _collapsed(self.strings[place]) if place >= 0 else ""

    def _attributes(self, node: int) -> dict[str, str]:
        flat = [self.strings[i] for i in self.nodes["attributes"][node]]
        return dict(zip(flat[::2], flat[1::2], strict=True))


def _collapsed(text: str) -> str:
    return _SURROGATE.sub("\ufffd", " ".join(text[: 4 * MAX_TEXT_CHARS].split())[:MAX_TEXT_CHARS])


def _is_drawn(style: Mapping[str, str], background: Colour | None) -> bool:
    """True for an element that is visible independently of its content."""
    has_border = any(
        number(style[f"border-{side}-width"]) > 0 and solid_colour(style[f"border-{side}-color"]) is not None for side in _SIDES
    )
    has_image = any(image.strip() != "none" for image in style["background-image"].split(","))
    return bool(background) or has_image or has_border or style["box-shadow"] != "none"
