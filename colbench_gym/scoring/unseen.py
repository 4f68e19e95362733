"""Characters that no editor shows, in answers: invisible ones, white space other than blanks, and line ends other than line feeds.

They come with copied text and mean nothing to a reader, but to Python and to Markdown they are errors. A string literal may hold them on
purpose, so an answer is read as it is first, then without them outside of what looks like a string literal, then without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Format characters (zero-width, joiners, soft hyphen, marks of direction, byte order mark, tags) and variation selectors, for a class of a pattern.
INVISIBLE = "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_BLANKS = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_ENDS = "\x0b\x0c\x1c-\x1e\u0085\u2028\u2029"
_UNSEEN = re.compile(f"[{INVISIBLE}{_BLANKS}{_ENDS}]")
_ASCII_ENDS = re.compile("[\x0b\x0c\x1c-\x1e]")
_INVISIBLE, _BLANK, _END = (re.compile(f"[{part}]") for part in (INVISIBLE, _BLANKS, _ENDS))
#: String literals of Python, to their end or else to that of the line or the text, so that no part is looked at twice.
_LITERAL = re.compile(
    r"(\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)|'''(?:[^\\]|\\.)*?(?:'''|\Z)|\"(?:[^\"\\\n]|\\[^\n])*\"?|'(?:[^'\\\n]|\\[^\n])*'?)",
    re.DOTALL,
)


def readings(text: str) -> Iterator[str]:
    r"""Different readings of an answer, the most literal first; all have ``\n`` alone as line end where the text has ``\r\n`` or ``\r``."""
    text = re.sub("\r\n?", "\n", text) if "\r" in text else text
    yield text
    if not (_ASCII_ENDS if text.isascii() else _UNSEEN).search(text):
        return
    seen = {text}
    pieces = _LITERAL.split(text)
    for reading in ("".join(piece if i % 2 else visible(piece) for i, piece in enumerate(pieces)), visible(text)):
        if reading not in seen:
            seen.add(reading)
            yield reading


def visible(text: str) -> str:
    """The text without invisible characters, with blanks for other white space and line feeds for other line ends."""
    if not _UNSEEN.search(text):
        return text
    return _END.sub("\n", _BLANK.sub(" ", _INVISIBLE.sub("", text)))
