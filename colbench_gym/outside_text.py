"""Text that comes from outside (agents, servers, rows), made fit for files, terminals and prompts.

Every function takes time linear in the text.
"""

from __future__ import annotations

import json
import re
import unicodedata

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
#: Where a control token of a chat template may begin: <|im_end|>, <s>, <start_of_turn>, [INST].
_CONTROL_TOKEN = re.compile(r"<(?=[|｜/]?\w)|\[(?=/?[A-Z_]+\])")


def encodable(text: str) -> str:
    """The text as UTF-8 can hold it: every lone surrogate is replaced by U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def printable(text: str) -> str:
    r"""The text as a terminal may show it: line breaks and tabs stay, all else that is no visible character is escaped, as in ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or not _is_unseen(c) else c.encode("unicode_escape").decode() for c in text)


def quoted(text: str) -> str:
    r"""The text as one line of JSON in quotes, as a prompt may hold it.

    Quotes, line breaks and all that is no visible character are escaped, so that the text can neither end its quotes nor begin a
    line. A space is put into what a tokenizer may take for a control token (``< |im_end|>``, ``[ INST]``).
    """
    text = json.dumps(_CONTROL_TOKEN.sub(r"\g<0> ", text), ensure_ascii=False)
    return text if text.isprintable() else "".join(json.dumps(c)[1:-1] if _is_unseen(c) else c for c in text)


def _is_unseen(character: str) -> bool:
    """True for control, format and unassigned characters, lone surrogates, and separators of lines and paragraphs."""
    return not character.isprintable() and unicodedata.category(character) != "Zs"
