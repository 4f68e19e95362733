"""Whether a page has no style sheet of its own, so that its computed styles fully describe it.

Computed styles are not always sufficient: rules for `::first-line` or `::marker`, font metrics, and rules that react to changes of the page
can hide or replace the visible content of elements. All of these need a style sheet. Most pages only have Tailwind's, and their `style`
attributes only set properties that are visible in the computed styles.
"""

from __future__ import annotations

import re

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
    """Whether the page has only external style sheets, and its style attributes only set properties that computed styles show.

    Args:
        html: The source before linked style sheets are inlined.
    """
    if _OWN_SHEET.search(html):
        return False
    for count, found in enumerate(_ATTRIBUTE.finditer(html)):
        value = found[1] or found[2] or ""
        if count == MAX_ATTRIBUTES or (found[1] is None and found[2] is None) or _SUSPECT.search(value):
            return False
        names = (declaration.partition(":")[0].strip().lower() for declaration in value.split(";") if declaration.strip())
        if not all(map(_PROPERTY.fullmatch, names)):
            return False
    return True
