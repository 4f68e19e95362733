"""Whether a page's source has no style sheet of its own, so that what its computed styles say is all that there is.

Computed styles do not tell everything: rules for `::first-line` or `::marker`, measures of fonts and rules that react to what is done to the
page can hide or replace what their elements seem to show. All of these take a style sheet. Most pages have none but Tailwind's, and in
`style` attributes only properties whose effect is seen in the computed styles.
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
#: What hides a property, or brings in something else: escapes, comments, functions other than of colours, quoted text.
_SUSPECT = re.compile(r"[&\\\"'{}@]|/\*|\b(?!rgba?\(|hsla?\()[a-z-]+\(", re.I)
MAX_ATTRIBUTES = 2_000


def is_plain(html: str) -> bool:
    """Whether no style sheet but those of others is at work, and no style attribute sets a property that its computed styles do not tell.

    Args:
        html: The source, as it was before the sheets that it links to were put in.
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
