"""Parse computed styles as numbers and sRGB colours. Every text has a value: an unknown style counts as unset.

Chromium writes a computed colour as `rgb()`, `rgba()`, `lab()`, `lch()`, `oklab()`, `oklch()` or `color(SPACE ...)`, a component as a number, as
`none` or as `calc(infinity)`. A colour outside of sRGB is clipped, as on the screen.

Source: CSS Color Module Level 4, sections 10 and 12 (conversions) and 15 (serialisation).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache

from sandboxes.pages.page import Colour

Triple = tuple[float, float, float]
Matrix = tuple[Triple, Triple, Triple]
#: Maximal number of characters of a style that are read, and magnitude of the largest number.
MAX_STYLE_CHARS, MAX_NUMBER = 200, 1e6
#: Minimal opacity of a colour; below it, the colour behind it counts.
LEAST_OPACITY = 0.5
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,9})?")
_COMPONENT = re.compile(rf"calc\([^()]*\)|\bnone\b|{_NUMBER.pattern}%?")
_FUNCTION = re.compile(
    r"\s*([a-z]+)\(\s*(?:(srgb-linear|[a-z][a-z0-9]*-rgb|display-p3|rec2020|xyz-d50|xyz-d65|xyz|srgb)\s)?([^)]*(?:\([^)]*\)[^)]*)*)"
)


@lru_cache(maxsize=4096)  # the elements of a page have few different styles
def number(text: str, otherwise: float = 0.0) -> float:
    """The first number of a style such as "13.3px", "1e-30", "calc(infinity * 1px)" or "none", at most `MAX_NUMBER` from 0.

    Args:
        text: The style.
        otherwise: The result for a text without a number.
    """
    text = text[:MAX_STYLE_CHARS].lower()
    if "nan" in text:
        return otherwise
    if "infinity" in text:
        return -MAX_NUMBER if "-infinity" in text else MAX_NUMBER
    match = _NUMBER.search(text)
    return max(-MAX_NUMBER, min(MAX_NUMBER, float(match[0]))) if match else otherwise


@lru_cache(maxsize=4096)
def solid_colour(text: str) -> Colour | None:
    """A colour in sRGB; None if it is mostly transparent or has an unknown notation."""
    function = _FUNCTION.match(text[:MAX_STYLE_CHARS].lower())
    if function is None:
        return None
    to_rgb = _SPACES.get(function[2] if function[1] == "color" else function[1])
    components = [number(part) / (100 if part.endswith("%") else 1) for part in _COMPONENT.findall(function[3])]
    if to_rgb is None or not 3 <= len(components) <= 4 or (len(components) == 4 and components[3] < LEAST_OPACITY):
        return None
    red, green, blue = (round(255 * min(max(part, 0.0), 1.0)) for part in to_rgb((components[0], components[1], components[2])))
    return red, green, blue


def _times(matrix: Matrix, vector: Triple) -> Triple:
    a, b, c = (sum(x * y for x, y in zip(row, vector, strict=True)) for row in matrix)
    return a, b, c


def _each(function: Callable[[float], float], vector: Triple) -> Triple:
    """Apply a function to each component, as an odd function: a negative component gives the negative value of its magnitude."""
    a, b, c = (math.copysign(function(abs(part)), part) for part in vector)
    return a, b, c


def _from_8_bits(rgb: Triple) -> Triple:
    return rgb[0] / 255, rgb[1] / 255, rgb[2] / 255


def _encoded(linear: Triple) -> Triple:
    return _each(lambda part: 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055, linear)


def _from_xyz(xyz: Triple) -> Triple:
    return _encoded(_times(_XYZ_TO_RGB, xyz))


def _from_xyz_50(xyz: Triple) -> Triple:
    return _from_xyz(_times(_D50_TO_D65, xyz))


def _from_lab(lab: Triple) -> Triple:
    y = (lab[0] + 16) / 116
    scaled = (_lab_root(y + lab[1] / 500), _lab_root(y), _lab_root(y - lab[2] / 200))
    return _from_xyz_50((scaled[0] * 0.3457 / 0.3585, scaled[1], scaled[2] * (1 - 0.3457 - 0.3585) / 0.3585))


def _lab_root(root: float) -> float:
    return root**3 if root > 6 / 29 else 3 * (6 / 29) ** 2 * (root - 4 / 29)


def _from_oklab(lab: Triple) -> Triple:
    return _from_xyz(_times(_LMS_TO_XYZ, _each(lambda part: part**3, _times(_OKLAB_TO_LMS, lab))))


def _of_polar(from_axes: Callable[[Triple], Triple]) -> Callable[[Triple], Triple]:
    """The same conversion for lightness, chroma and hue in degrees."""

    def from_polar(lch: Triple) -> Triple:
        hue = math.radians(lch[2])
        return from_axes((lch[0], lch[1] * math.cos(hue), lch[1] * math.sin(hue)))

    return from_polar


def _of_rgb(
    to_xyz: Matrix, linear: Callable[[float], float], from_xyz: Callable[[Triple], Triple] = _from_xyz
) -> Callable[[Triple], Triple]:
    """The same conversion for red, green and blue of another colour space."""
    return lambda rgb: from_xyz(_times(to_xyz, _each(linear, rgb)))


def _linear_rec2020(part: float) -> float:
    alpha, beta = 1.09929682680944, 0.018053968510807
    return float(part / 4.5 if part < beta * 4.5 else ((part + alpha - 1) / alpha) ** (1 / 0.45))


_XYZ_TO_RGB: Matrix = (
    (12831 / 3959, -329 / 214, -1974 / 3959),
    (-851781 / 878810, 1648619 / 878810, 36519 / 878810),
    (705 / 12673, -2585 / 12673, 705 / 667),
)
_D50_TO_D65: Matrix = (
    (0.955473421488075, -0.02309845494876471, 0.06325924320057072),
    (-0.0283697093338637, 1.0099953980813041, 0.021041441191917323),
    (0.012314014864481998, -0.020507649298898964, 1.330365926242124),
)
_P3_TO_XYZ: Matrix = (
    (608311 / 1250200, 189793 / 714400, 198249 / 1000160),
    (35783 / 156275, 247089 / 357200, 198249 / 2500400),
    (0.0, 32229 / 714400, 5220557 / 5000800),
)
_A98_TO_XYZ: Matrix = (
    (573536 / 994567, 263643 / 1420810, 187206 / 994567),
    (591459 / 1989134, 6239551 / 9945670, 374412 / 4972835),
    (53769 / 1989134, 351524 / 4972835, 4929758 / 4972835),
)
_PROPHOTO_TO_XYZ: Matrix = (
    (0.7977666449006423, 0.13518129740053308, 0.0313477341283922),
    (0.2880748288194013, 0.711835234241873, 0.00008993693872564),
    (0.0, 0.0, 0.8251046025104602),
)
_REC2020_TO_XYZ: Matrix = (
    (63426534 / 99577255, 20160776 / 139408157, 47086771 / 278816314),
    (26158966 / 99577255, 472592308 / 697040785, 8267143 / 139408157),
    (0.0, 19567812 / 697040785, 295819943 / 278816314),
)
_OKLAB_TO_LMS: Matrix = (
    (1.0, 0.3963377773761749, 0.2158037573099136),
    (1.0, -0.1055613458156586, -0.0638541728258133),
    (1.0, -0.0894841775298119, -1.2914855480194092),
)
_LMS_TO_XYZ: Matrix = (
    (1.2268798758459243, -0.5578149944602171, 0.2813910456659647),
    (-0.0405757452148008, 1.1122868032803170, -0.0717110580655164),
    (-0.0763729366746601, -0.4214933324022432, 1.5869240198367816),
)
_SPACES: dict[str | None, Callable[[Triple], Triple]] = {
    "rgb": _from_8_bits,
    "rgba": _from_8_bits,
    "lab": _from_lab,
    "lch": _of_polar(_from_lab),
    "oklab": _from_oklab,
    "oklch": _of_polar(_from_oklab),
    "srgb": lambda rgb: rgb,
    "srgb-linear": _encoded,
    "display-p3": _of_rgb(_P3_TO_XYZ, lambda part: float(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)),
    "a98-rgb": _of_rgb(_A98_TO_XYZ, lambda part: float(part ** (563 / 256))),
    "prophoto-rgb": _of_rgb(_PROPHOTO_TO_XYZ, lambda part: float(part / 16 if part <= 16 / 512 else part**1.8), _from_xyz_50),
    "rec2020": _of_rgb(_REC2020_TO_XYZ, _linear_rec2020),
    "xyz": _from_xyz,
    "xyz-d65": _from_xyz,
    "xyz-d50": _from_xyz_50,
}


# ---- pages without style sheets of their own ---------------------------------------------------------------------------------

_PROPERTY = re.compile(
    r"color|background(?:-color)?|(?:padding|margin)(?:-(?:top|right|bottom|left))?|(?:(?:min|max)-)?(?:width|height)|font-(?:size|weight|style)|"
    r"text-align|display|flex(?:-(?:wrap|grow|shrink|basis|direction))?|justify-content|align-(?:items|self)|order|(?:row-|column-)?gap|"
    r"grid-template-(?:columns|rows)|border(?:-(?:top|right|bottom|left|radius|color|width|style|collapse|spacing))?|object-fit|vertical-align|float|"
    r"clear|white-space|box-sizing|cursor|position|top|right|bottom|left|z-index|overflow(?:-[xy])?|opacity"
)
_OWN_SHEET = re.compile(r"<style|srcset|color-scheme|shadowrootmode|<link(?![^<>]*href=[\"']https?://[^<>&]*>)", re.I)
_ATTRIBUTE = re.compile(r"\bstyle\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|)", re.I)
#: Syntax that can hide a property or add content: escapes, comments, functions other than those of colours, quoted text.
_SUSPECT = re.compile(r"[&\\\"'{}@]|/\*|\b(?!rgba?\(|hsla?\()[a-z-]+\(", re.I)
MAX_ATTRIBUTES = 2_000


def is_plain(html: str) -> bool:
    """Whether the page has no style sheet of its own, and its style attributes only set properties that computed styles show.

    Computed styles are not always sufficient: rules for `::first-line` or `::marker`, font metrics, and rules that react to changes of the page can
    hide or replace the visible content of elements. All of these need a style sheet. Most pages only have Tailwind's.

    Args:
        html: The source before linked style sheets are inlined.
    """
    if _OWN_SHEET.search(html):
        return False
    for count, attribute in enumerate(_ATTRIBUTE.finditer(html)):
        value = attribute[1] or attribute[2] or ""
        if count == MAX_ATTRIBUTES or (attribute[1] is None and attribute[2] is None) or _SUSPECT.search(value):
            return False
        names = (declaration.partition(":")[0].strip().lower() for declaration in value.split(";") if declaration.strip())
        if not all(map(_PROPERTY.fullmatch, names)):
            return False
    return True
