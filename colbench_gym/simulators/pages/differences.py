"""The visible differences between two rendered pages, as a person would describe them, the most salient first.

A difference is described by its appearance, never in terms of HTML. Its salience grows with the affected area and with the size
of the difference.

A person does not look at everything: only the largest `MAX_SINGLE` unmatched boxes of each page are considered. Together with the limit
on matched boxes (`scoring.blocks.MAX_PAIRED`), this bounds the time for any pair of pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colbench_gym.scoring.blocks import Comparison, colour_distance, compare, distance
from colbench_gym.scoring.texts import text_likeness
from colbench_gym.simulators.pages.colours import colour_name
from sandboxes.pages import Box, Rendering

#: Thresholds below which a difference is not mentioned: of colours, of places (share of the page), of sizes (ratio).
LEAST_COLOUR, LEAST_MOVE, LEAST_RATIO = 0.08, 0.07, 1.3
#: Maximal number of unmatched boxes of a page that are considered.
MAX_SINGLE = 300
#: Maximal number of quoted characters: to refer to a text, and to tell the agent what to write.
MAX_QUOTE_CHARS, MAX_DICTATED_CHARS = 60, 200
_BARS = {
    "header": "the bar at the top",
    "nav": "the menu",
    "footer": "the bar at the bottom",
    "aside": "the column at the side",
}
_WHITE = (255, 255, 255)
_SMALL_ICON = 24
_SAME_PLACE = 0.15


@dataclass(frozen=True)
class Difference:
    """One visible difference between two pages.

    Attributes:
        weight: Salience, above 0.
        sentence: The simulated human's sentence about it.
    """

    weight: float
    sentence: str


def differences(page: Rendering, reference: Rendering) -> list[Difference]:
    """The differences between a page and the reference, the most salient first; empty if the pages look alike.

    Args:
        page: The agent's rendered page.
        reference: The rendered reference page.
    """
    return sorted(_Viewer(compare(page, reference), page, reference).all(), key=lambda d: (-d.weight, d.sentence))


class _Layout:
    """The nesting of the boxes of a page, and its matched texts. Boxes are compared by identity."""

    def __init__(self, rendering: Rendering, paired: Sequence[Box]) -> None:
        boxes, with_partner = rendering.boxes, {id(box) for box in paired}
        self.height = rendering.height
        self.ground = next((box.background for box in rendering.boxes if box.tag == "body" and box.background), _WHITE)
        self.shared_texts = [box for box in boxes if box.kind == "text" and id(box) in with_partner]
        self._place = {id(box): i for i, box in reversed(list(enumerate(boxes)))}
        self._is_in_control = [False] * len(boxes)
        self._first_text: dict[int, Box] = {}
        for i, box in enumerate(boxes):
            if 0 <= box.parent < i:
                self._is_in_control[i] = self._is_in_control[box.parent] or boxes[box.parent].kind == "control"
            if box.kind == "text":
                self._note_text(box, i, boxes)

    def _note_text(self, text: Box, place: int, boxes: Sequence[Box]) -> None:
        """Set a text as the first text of all enclosing boxes without one. If a box has one, all boxes around it have one too."""
        around = text.parent
        while 0 <= around < place and around not in self._first_text:
            self._first_text[around] = text
            place, around = around, boxes[around].parent

    def first_text(self, box: Box) -> Box | None:
        """The first text in a box of this page."""
        return self._first_text.get(self._place.get(id(box), -1))

    def is_in_control(self, box: Box) -> bool:
        """True for a text on a button or in an input field."""
        place = self._place.get(id(box))
        return place is not None and self._is_in_control[place]


class _Viewer:
    def __init__(self, comparison: Comparison, page: Rendering, reference: Rendering) -> None:
        self.comparison = comparison
        self.page = _Layout(page, [shown for shown, _ in comparison.pairs])
        self.reference = _Layout(reference, [wanted for _, wanted in comparison.pairs])
        self.width = max(reference.width, 1)
        self.height = max(reference.height, page.height, 1)
        missing, extra = _largest(comparison.missing), _largest(comparison.extra)
        self.replaced = _replaced(missing, extra, self.width, self.height)
        replaced = {id(box) for pair in self.replaced for box in pair}
        self.missing = [box for box in missing if id(box) not in replaced]
        self.extra = [box for box in extra if id(box) not in replaced]

    def all(self) -> Iterator[Difference]:
        yield from self._ground()
        for shown, wanted in self.comparison.pairs:
            yield from {"text": self._text, "image": self._thing, "control": self._thing, "block": self._block}[shown.kind](
                shown, wanted
            )
        for shown, wanted in self.replaced:
            yield from self._text(shown, wanted)
        yield from self._missing()
        yield from self._extra()

    # ---- what both have -----------------------------------------------------------------------------------------------

    def _ground(self) -> Iterator[Difference]:
        shown, wanted = self.page.ground, self.reference.ground
        if (far := colour_distance(shown, wanted)) > LEAST_COLOUR:
            yield Difference(0.5 + far, f"The background of the page should be {_shade(wanted, shown)}.")

    def _text(self, shown: Box, wanted: Box) -> Iterator[Difference]:
        if text_likeness(shown.text, wanted.text) < 1 and shown.text != _cut(wanted.text, MAX_DICTATED_CHARS):
            yield Difference(
                0.3 + self._share(wanted), f"It should say {_quote(wanted, MAX_DICTATED_CHARS)} where it says {_quote(shown)}."
            )
        name = _quote(wanted)
        ratio = max(wanted.font_size, 1) / max(shown.font_size, 1)
        if max(ratio, 1 / ratio) > LEAST_RATIO:
            size = ("much " if max(ratio, 1 / ratio) > 1.8 else "") + ("larger" if ratio > 1 else "smaller")
            yield Difference(0.25 * abs(math.log2(ratio)), f"The words {name} should be {size}.")
        if colour_distance(shown.colour, wanted.colour) > 2 * LEAST_COLOUR and colour_name(shown.colour) != colour_name(
            wanted.colour
        ):
            yield Difference(0.2, f"The words {name} should be {colour_name(wanted.colour)}.")
        yield from self._moved(shown, wanted, f"The words {name}")

    def _thing(self, shown: Box, wanted: Box) -> Iterator[Difference]:
        name = self._name(wanted, self.reference)
        if wanted.background and shown.background:
            yield from self._repainted(shown, wanted, name)
        ratio = wanted.width * wanted.height / max(shown.width * shown.height, 1)
        if wanted.kind == "image" and max(ratio, 1 / ratio) > LEAST_RATIO**2:
            form = "wider" if wanted.width > shown.width * LEAST_RATIO else "higher" if ratio > 1 else ""
            form = form or ("narrower" if shown.width > wanted.width * LEAST_RATIO else "less high")
            yield Difference(0.15 * abs(math.log2(ratio)) + self._share(wanted), f"{_capital(name)} should be {form}.")
        yield from self._moved(shown, wanted, _capital(name))

    def _block(self, shown: Box, wanted: Box) -> Iterator[Difference]:
        if wanted.tag != "body" and shown.tag != "body":
            yield from self._repainted(shown, wanted, self._name(wanted, self.reference))

    def _repainted(self, shown: Box, wanted: Box, name: str) -> Iterator[Difference]:
        before, after = shown.background or _WHITE, wanted.background or _WHITE
        if (far := colour_distance(before, after)) > LEAST_COLOUR:
            yield Difference(far + self._share(wanted), f"{_capital(name)} should be {_shade(after, before)}.")

    def _moved(self, shown: Box, wanted: Box, name: str) -> Iterator[Difference]:
        far = distance(shown, wanted, self.width, self.height)
        across = (wanted.x + wanted.width / 2 - shown.x - shown.width / 2) / self.width
        if far < LEAST_MOVE:
            return
        if abs(across) >= LEAST_MOVE:
            where = ("on the left", "in the middle", "on the right")[
                min(2, int(3 * (wanted.x + wanted.width / 2) / self.width))
            ]
            yield Difference(0.5 * abs(across), f"{name} should be {where}.")
        else:
            yield Difference(0.3 * far, f"{name} should be further {'down' if wanted.y > shown.y else 'up'}.")

    # ---- what only one has --------------------------------------------------------------------------------------------

    def _missing(self) -> Iterator[Difference]:
        for box in self.missing:
            place = self._place(box, self.reference)
            if box.kind == "image" and box.width > _SMALL_ICON:
                size = f"{_tens(box.width)} wide and {_tens(box.height)} high"
                yield Difference(0.6 + self._share(box), f"A photo is missing {place}, {size}.")
            elif box.kind == "control":
                yield Difference(
                    0.5 + self._share(box), f"{_capital(self._name(box, self.reference, 'a'))} is missing {place}."
                )
            elif box.kind == "text" and not self.reference.is_in_control(box):
                yield Difference(0.3 + self._share(box), f"The words {_quote(box, MAX_DICTATED_CHARS)} are missing {place}.")
            elif box.kind == "block" and box.tag != "body" and box.background is not None:
                far = colour_distance(box.background, self.reference.ground)
                if far > LEAST_COLOUR:
                    name = "a " + _BARS[box.tag].removeprefix("the ") if box.tag in _BARS else "a box"
                    inside = self._inside(box, self.reference)
                    yield Difference(
                        0.4 * far + self._share(box),
                        f"{_capital(name)} is missing {'with the words ' + inside if inside else place}, in {colour_name(box.background)}.",
                    )

    def _extra(self) -> Iterator[Difference]:
        for box in self.extra:
            if box.kind == "image" and box.width > _SMALL_ICON:
                yield Difference(0.5 + self._share(box), f"There should be no photo {self._place(box, self.page)}.")
            elif box.kind == "control":
                yield Difference(
                    0.4 + self._share(box), f"There should be no {self._name(box, self.page).removeprefix('the ')}."
                )
            elif box.kind == "text" and not self.page.is_in_control(box):
                yield Difference(0.25 + self._share(box), f"The words {_quote(box)} should not be there.")
            elif box.kind == "block" and box.tag in _BARS:
                yield Difference(0.3 + self._share(box), f"There should be no {_BARS[box.tag].removeprefix('the ')}.")

    # ---- words --------------------------------------------------------------------------------------------------------

    def _share(self, box: Box) -> float:
        """Square root of the share of the page that a box covers, which is comparable to a side length."""
        return math.sqrt(box.width * box.height / (self.width * self.height))

    def _name(self, box: Box, layout: _Layout, article: str = "the") -> str:
        inside = self._inside(box, layout)
        if box.kind == "image":
            return f"{article} photo"
        if box.kind == "control":
            kind = "button" if box.tag == "button" else "field"
            words = inside or (_quote(box) if box.text else "")
            return f"{article} {kind} {words}".strip()
        if box.tag in _BARS:
            return _BARS[box.tag]
        return f"{article} box with the words {inside}" if inside else f"{article} box {self._place(box, layout)}"

    def _inside(self, box: Box, layout: _Layout) -> str:
        """The first words in a box, quoted."""
        text = layout.first_text(box)
        return _quote(text) if text is not None else ""

    def _place(self, box: Box, layout: _Layout) -> str:
        """The place of a box, described by the nearest matched text above it, else by the part of the page."""
        column = ("on the left", "in the middle", "on the right")[min(2, int(3 * (box.x + box.width / 2) / self.width))]
        above = [
            other for other in layout.shared_texts
            if other.y + other.height <= box.y + 4 and _overlap(other, box)
        ]  # fmt: skip
        if above:
            return f"{column}, under {_quote(max(above, key=lambda other: other.y))}"
        return f"{column} at the top" if box.y < layout.height / 4 else column


def _replaced(missing: Sequence[Box], extra: Sequence[Box], width: int, height: int) -> list[tuple[Box, Box]]:
    """Unmatched texts at the same place of both pages, as (text of the page, text of the reference)."""
    pairs = []
    left = [box for box in extra if box.kind == "text"]
    for wanted in (box for box in missing if box.kind == "text"):
        near = [shown for shown in left if shown.tag == wanted.tag and distance(shown, wanted, width, height) < _SAME_PLACE]
        if near:
            shown = min(near, key=lambda box: distance(box, wanted, width, height))
            left.remove(shown)
            pairs.append((shown, wanted))
    return pairs


def _largest(boxes: Sequence[Box]) -> list[Box]:
    """The `MAX_SINGLE` largest boxes, in their order."""
    if len(boxes) <= MAX_SINGLE:
        return list(boxes)
    by_size = sorted(range(len(boxes)), key=lambda i: -boxes[i].width * boxes[i].height)
    return [boxes[i] for i in sorted(by_size[:MAX_SINGLE])]


def _overlap(a: Box, b: Box) -> bool:
    """True if the boxes overlap horizontally, so that one is above the other."""
    return min(a.x + a.width, b.x + b.width) > max(a.x, b.x)


def _shade(wanted: Sequence[int], shown: Sequence[int]) -> str:
    """The wanted colour in words. If both colours have the same name, whether it is lighter or darker."""
    name = colour_name(wanted)
    return name if name != colour_name(shown) else f"a {'lighter' if sum(wanted) > sum(shown) else 'darker'} {name}"


def _quote(box: Box, most: int = MAX_QUOTE_CHARS) -> str:
    return f'"{_cut(box.text, most)}"'


def _cut(text: str, most: int) -> str:
    """A text; only its first words if it is long."""
    return text if len(text) <= most else text[: most - 3].rsplit(" ", 1)[0] + "..."


def _tens(pixels: int) -> int:
    return max(10, round(pixels, -1))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
