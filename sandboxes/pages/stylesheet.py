"""Reduce a large style sheet to the rules that a page can use.

The style sheet of Tailwind 2 has 2.9 MB, and a browser takes longer to parse it than to lay out and paint a page. A rule cannot apply if
each of its selectors names a class that does not occur in the page's source (and no script adds classes). Without such rules the picture
is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sandboxes.extras import pip_install
from sandboxes.sandbox import SandboxError

if TYPE_CHECKING:
    import tinycss2

_STRING_OR_NOT = re.compile(r"""\"[^"]*\"|'[^']*'|:not\([^)]*\)""")
_CLASS = re.compile(r"\.((?:\\[0-9a-fA-F]{1,6}\s?|\\.|[-\w]|[^\x00-\x7f])+)")
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))")
_COMMA = re.compile(r",(?![^(]*\))")
_WORD = re.compile(r"""[^\s"'<>=]+""")

Words = frozenset[str]


@dataclass(frozen=True)
class _Rule:
    """A rule. `needs` has, for each of its selectors, the classes that must occur."""

    text: str
    needs: tuple[Words, ...] = ()


class StyleSheet:
    """A style sheet, parsed once (Tailwind 2: about 3 seconds)."""

    def __init__(self, css: str) -> None:
        """Parse a sheet.

        Raises:
            SandboxError: If the package that parses it is missing.
        """
        try:
            import tinycss2
        except ImportError:
            raise SandboxError(f"Pages need tinycss2: `{pip_install('[frontend]')}`.") from None
        self.css = css
        self._top = _Block("", tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True))

    def for_page(self, html: str) -> str:
        """The rules that can apply to this page, in order."""
        return self._top.used(_words(html))


class _Block:
    """Rules and nested blocks (such as media queries) in order, with an index by the classes that they need."""

    def __init__(self, head: str, nodes: list[tinycss2.ast.Node]) -> None:
        self.head = head
        self.parts: list[_Rule | _Block] = []
        self.always: list[int] = []
        self.by_class: dict[str, list[int]] = {}
        for node in nodes:
            self._add(node)

    def _add(self, node: tinycss2.ast.Node) -> None:
        import tinycss2

        place = len(self.parts)
        if node.type == "qualified-rule":
            rule = _Rule(node.serialize(), needed_classes(tinycss2.serialize(node.prelude)))
            self.parts.append(rule)
            if not all(rule.needs):
                self.always.append(place)
            for classes in rule.needs:
                for name in sorted(classes)[:1]:  # without this class the selector cannot match; the others are checked later
                    self.by_class.setdefault(name, []).append(place)
        elif node.type == "at-rule":
            self.always.append(place)
            self.parts.append(_nested(node) if node.lower_at_keyword in ("media", "supports") else _Rule(node.serialize()))

    def used(self, words: Words) -> str:
        places = {*self.always, *(place for word in words & self.by_class.keys() for place in self.by_class[word])}
        return "".join(_used(self.parts[place], words) for place in sorted(places))


@lru_cache(maxsize=4)  # a page may request its style sheet many times
def _words(html: str) -> Words:
    """All words in a page's source that may be classes."""
    return frozenset(_WORD.findall(html))


def _nested(node: tinycss2.ast.Node) -> _Block:
    import tinycss2

    inner = tinycss2.parse_rule_list(node.content or [], skip_comments=True, skip_whitespace=True)
    return _Block(f"@{node.at_keyword}{tinycss2.serialize(node.prelude)}", inner)


def _used(part: _Rule | _Block, words: Words) -> str:
    if isinstance(part, _Block):
        inner = part.used(words)
        return f"{part.head}{{{inner}}}" if inner else ""
    return part.text if not part.needs or any(classes <= words for classes in part.needs) else ""


def needed_classes(selectors: str) -> tuple[Words, ...]:
    """The unescaped classes that each selector of a list names outside of `:not()`."""
    plain = _STRING_OR_NOT.sub("", selectors)
    return tuple(
        frozenset(_ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], name) for name in _CLASS.findall(selector))
        for selector in _COMMA.split(plain)
    )
