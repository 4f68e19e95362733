"""Make untrusted text (from agents, servers, rows) safe for files, terminals and prompts.

Every function takes time linear in the text.
"""

from __future__ import annotations

import json
import re
import unicodedata

from sandboxes.logs import visible as printable

__all__ = ["encodable", "printable", "quoted"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
#: Possible start of a control token of a chat template: <|im_end|>, <s>, <start_of_turn>, [INST].
_CONTROL_TOKEN = re.compile(r"<(?=[|｜/]?\w)|\[(?=/?[A-Z_]+\])")


def encodable(text: str) -> str:
    """The text with every lone surrogate replaced by U+FFFD, so that it can be encoded as UTF-8."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def quoted(text: str) -> str:
    r"""The text as a quoted JSON string on one line, made safe for a prompt.

    Quotes, line breaks and invisible characters are escaped, so that the text can neither close its quotes nor start a new
    line. A space is inserted into anything that a tokenizer may read as a control token (``< |im_end|>``, ``[ INST]``).
    """
    text = json.dumps(_CONTROL_TOKEN.sub(r"\g<0> ", text), ensure_ascii=False)
    return text if text.isprintable() else "".join(json.dumps(c)[1:-1] if _is_unseen(c) else c for c in text)


def _is_unseen(character: str) -> bool:
    """True for control, format and unassigned characters, lone surrogates, and separators of lines and paragraphs."""
    return not character.isprintable() and unicodedata.category(character) != "Zs"
