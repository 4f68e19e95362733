"""Similarity of two pages, box by box, and their differences. It needs no model weights and is interpretable.

In the spirit of Design2Code (Si et al., arXiv:2403.03163, section 3.3), boxes of the two pages are matched. Five numbers in [0, 1]
measure which share of the content is matched, how similar matched boxes are in text, place and colour, and, in addition to Design2Code,
how similar the painted background is. An unmatched box counts as 0 in each number, so that a page with few correct boxes does not score
higher than a page with many nearly correct ones.

Only the first `MAX_PAIRED` boxes of each kind are matched; the others count as unmatched. This bounds the time of a comparison for any
pair of pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colbench_gym.scoring.texts import Floats, likeness_table, text_likeness
from sandboxes.pages import Box, Rendering

#: Maximal number of boxes of a kind that are matched. None of ColBench's first 300 test pages has more than 20.
MAX_PAIRED = 300
#: Side in pixels of the squares in which the painted background is compared.
CELL = 20
WHITE = (255, 255, 255)
#: Minimal similarity of matched texts.
LEAST_ALIKE = 0.4
#: Minimal overlap (intersection over union) of matched painted blocks.
LEAST_OVERLAP = 0.1
_KINDS = ("text", "image", "control", "block")


@dataclass(frozen=True)
class BlockScore:
    """Similarity of two pages in five parts, each in [0, 1] and 1 for identical pages.

    Attributes:
        matched: Share of the area of texts, images and controls (of both pages) that is matched.
        text: Similarity of matched texts: Dice's coefficient of their letter bigrams.
        place: 1 minus the distance of the centres of matched boxes, as a share of the page.
        colour: 1 minus the distance of the colours of matched texts (CIE 1976, black to white is 1).
        ground: The same for the painted background, over the area of the taller page.
    """

    matched: float
    text: float
    place: float
    colour: float
    ground: float

    @property
    def total(self) -> float:
        """The mean of the five parts."""
        return float(np.mean([getattr(self, part.name) for part in fields(self)]))


@dataclass(frozen=True)
class Comparison:
    """The comparison of two pages, box by box.

    Attributes:
        pairs: Matched boxes, as (box of the page, box of the reference).
        missing: Unmatched boxes of the reference.
        extra: Unmatched boxes of the page.
        score: Similarity of the pages.
    """

    pairs: tuple[tuple[Box, Box], ...]
    missing: tuple[Box, ...]
    extra: tuple[Box, ...]
    score: BlockScore


@lru_cache(maxsize=64)  # a step needs it twice: for the reply and for the score
def compare(page: Rendering, reference: Rendering) -> Comparison:
    """Match the boxes of a page with those of the reference, and score their similarity.

    Args:
        page: Rendered page. A page without a picture has no boxes and scores as an empty page.
        reference: The rendered reference page.
    """
    pairs: list[tuple[Box, Box]] = []
    missing: list[Box] = []
    extra: list[Box] = []
    for kind in _KINDS:
        shown = [box for box in page.boxes if box.kind == kind]
        wanted = [box for box in reference.boxes if box.kind == kind]
        partners = _partners(shown[:MAX_PAIRED], wanted[:MAX_PAIRED], _LIKENESS[kind], _LEAST[kind])
        pairs += [(shown[i], wanted[j]) for i, j in partners]
        with_partner = [{i for i, _ in partners}, {j for _, j in partners}]
        extra += [box for i, box in enumerate(shown) if i not in with_partner[0]]
        missing += [box for j, box in enumerate(wanted) if j not in with_partner[1]]
    return Comparison(tuple(pairs), tuple(missing), tuple(extra), _score(pairs, [*missing, *extra], page, reference))


def _score(pairs: Sequence[tuple[Box, Box]], alone: Sequence[Box], page: Rendering, reference: Rendering) -> BlockScore:
    things = [pair for pair in pairs if pair[0].kind != "block"]
    lone = [box for box in alone if box.kind != "block"]
    texts = [pair for pair in things if pair[1].text or pair[0].text]
    lone_texts = sum(bool(box.text) for box in lone)
    size = (max(page.width, reference.width, 1), max(page.height, reference.height, 1))
    area = sum(_area(a) + _area(b) for a, b in things)
    total = area + sum(map(_area, lone))
    return BlockScore(
        matched=area / total if total else 1.0,
        text=_mean([text_likeness(a.text, b.text) for a, b in texts], lone_texts),
        place=_mean([1 - distance(a, b, *size) for a, b in things], len(lone)),
        colour=_mean([1 - colour_distance(a.colour, b.colour) for a, b in texts], lone_texts),
        ground=_ground_likeness(page, reference),
    )


def _mean(values: Sequence[float], zeros: int) -> float:
    return sum(values) / (len(values) + zeros) if len(values) + zeros else 1.0


def _partners(
    shown: Sequence[Box], wanted: Sequence[Box], likeness: Callable[[Sequence[Box], Sequence[Box]], Floats], least: float
) -> list[tuple[int, int]]:
    """The matching with the largest total similarity. Pairs with a similarity below `least` are dropped."""
    if not shown or not wanted:
        return []
    from scipy.optimize import linear_sum_assignment

    table = likeness(shown, wanted)
    rows, columns = linear_sum_assignment(-table)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if table[i, j] >= least]


def _text_partners(shown: Sequence[Box], wanted: Sequence[Box]) -> Floats:
    """Similarity of texts by content. Ties are broken by distance and font size."""
    a, b = _Columns(shown), _Rows(wanted)
    alike = likeness_table([box.text for box in shown], [box.text for box in wanted])
    far = 1e-3 * (abs(a.x - b.x) + abs(a.y - b.y)) / 10_000
    return np.asarray(alike - far - 1e-4 * (a.font_size != b.font_size), np.float64)


def _thing_partners(shown: Sequence[Box], wanted: Sequence[Box]) -> Floats:
    a, b = _Columns(shown), _Rows(wanted)
    far = (abs(a.x - b.x) + abs(a.y - b.y) + abs(a.width - b.width) + abs(a.height - b.height)) / 10_000
    alike = likeness_table([box.text for box in shown], [box.text for box in wanted]) * (a.has_text & b.has_text)
    return np.where(a.tag == b.tag, 1 + 0.5 * alike - far, -1.0)


def _block_partners(shown: Sequence[Box], wanted: Sequence[Box]) -> Floats:
    a, b = _Columns(shown), _Rows(wanted)
    width = np.minimum(a.x + a.width, b.x + b.width) - np.maximum(a.x, b.x)
    height = np.minimum(a.y + a.height, b.y + b.height) - np.maximum(a.y, b.y)
    shared = np.maximum(width, 0) * np.maximum(height, 0)
    overlap: Floats = shared / np.maximum(a.width * a.height + b.width * b.height - shared, 1) + 0.3 * (a.tag == b.tag)
    return overlap


class _Rows:
    """Features of boxes for comparison, arrays of shape (1, boxes)."""

    shape: tuple[int, ...] = (1, -1)

    def __init__(self, boxes: Sequence[Box]) -> None:
        sides = np.array([(box.x, box.y, box.width, box.height) for box in boxes], dtype=float).T
        self.x, self.y, self.width, self.height = (side.reshape(self.shape) for side in sides)
        self.font_size = np.array([box.font_size for box in boxes]).reshape(self.shape)
        self.tag = np.array([box.tag for box in boxes]).reshape(self.shape)
        self.has_text = np.array([bool(box.text) for box in boxes]).reshape(self.shape)


class _Columns(_Rows):
    """The same features, arrays of shape (boxes, 1)."""

    shape = (-1, 1)


_LIKENESS = {"text": _text_partners, "image": _thing_partners, "control": _thing_partners, "block": _block_partners}
_LEAST = {"text": LEAST_ALIKE, "image": 0.0, "control": 0.0, "block": LEAST_OVERLAP}


def distance(a: Box, b: Box, width: int, height: int) -> float:
    """The larger of the horizontal and the vertical distance of two boxes' centres, each as a share of the page, in [0, 1]."""
    return min(
        1.0,
        max(
            abs(a.x + a.width / 2 - b.x - b.width / 2) / width,
            abs(a.y + a.height / 2 - b.y - b.height / 2) / height,
        ),
    )


def _area(box: Box) -> int:
    return box.width * box.height


def colour_distance(a: Sequence[int], b: Sequence[int]) -> float:
    """Perceptual distance of two colours, in [0, 1]: the CIE 1976 distance divided by 100."""
    return min(1.0, math.dist(_lab_of(tuple(a)), _lab_of(tuple(b))) / 100)


@lru_cache(maxsize=2**12)
def _lab_of(rgb: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(to_lab(np.array(rgb)).tolist())


def to_lab(rgb: NDArray[np.generic]) -> Floats:
    """CIE 1976 L*a*b* (D65) of sRGB colours.

    Args:
        rgb: Shape (..., 3), in [0, 255].

    Source: IEC 61966-2-1 and CIE 15.
    """
    scaled = np.asarray(rgb, dtype=float) / 255
    linear = np.where(scaled <= 0.04045, scaled / 12.92, ((scaled + 0.055) / 1.055) ** 2.4)
    xyz = linear @ _TO_XYZ.T / _WHITE_POINT
    root = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(root, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


_TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
_WHITE_POINT = _TO_XYZ.sum(axis=1)


def _ground_likeness(page: Rendering, reference: Rendering) -> float:
    if not page.boxes and not reference.boxes:
        return 1.0
    grounds = [_ground(rendering) for rendering in (page, reference)]
    rows = max(len(ground) for ground in grounds)
    columns = min(ground.shape[1] for ground in grounds)
    shared = min(len(ground) for ground in grounds)
    a, b = (ground[:shared, :columns] for ground in grounds)
    apart = np.minimum(np.linalg.norm(a - b, axis=-1) / 100, 1.0)
    return float((1 - apart).sum() / (rows * columns))


@lru_cache(maxsize=64)
def _ground(rendering: Rendering) -> Floats:
    return to_lab(paint(rendering))


def paint(rendering: Rendering) -> NDArray[np.uint8]:
    """The painted background of a page: the colours of its painted boxes, later ones over earlier ones, on white.

    Returns:
        Shape (rows, columns, 3) of squares of `CELL` pixels; at least one row and column.
    """
    ground = np.full((max(rendering.height // CELL, 1), max(rendering.width // CELL, 1), 3), WHITE, dtype=np.uint8)
    for box in rendering.boxes:
        if box.background is not None:
            top, left = round(box.y / CELL), round(box.x / CELL)
            ground[top : round((box.y + box.height) / CELL), left : round((box.x + box.width) / CELL)] = box.background
    return ground
