"""The part of a large style sheet that a page can use.

Tailwind 2's sheet is 2.9 MB; a browser takes longer to parse it than to lay out and paint a page. A rule whose selectors all name a
class that occurs nowhere in the page's source cannot apply (where no script adds classes), so it need not be sent: the picture is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import tinycss2

_STRING_OR_NOT = re.compile(r"""\"[^"]*\"|'[^']*'|:not\([^)]*\)""")
_CLASS = re.compile(r"\.((?:\\[0-9a-fA-F]{1,6}\s?|\\.|[-\w]|[^\x00-\x7f])+)")
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))")
_COMMA = re.compile(r",(?![^(]*\))")
_WORD = re.compile(r"""[^\s"'<>=]+""")

Words = frozenset[str]


@dataclass(frozen=True)
class _Rule:
    """A rule, or a block of rules such as a media query's; `needs`: for each selector the classes that must occur."""

    text: str
    needs: tuple[Words, ...] = ()
    inner: tuple[_Rule, ...] = ()

    def used(self, words: Words) -> str:
        if self.inner:
            inner = "".join(rule.used(words) for rule in self.inner)
            return f"{self.text}{{{inner}}}" if inner else ""
        return self.text if not self.needs or any(classes <= words for classes in self.needs) else ""


class StyleSheet:
    """A style sheet, parsed once (Tailwind 2: about 3 seconds)."""

    def __init__(self, css: str) -> None:
        """Parse a sheet."""
        self.css = css
        self._rules = _parse(tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True))

    def for_page(self, html: str) -> str:
        """The rules that can apply in this page, in their order."""
        words = frozenset(_WORD.findall(html))
        return "".join(rule.used(words) for rule in self._rules)


def _parse(nodes: list[tinycss2.ast.Node]) -> tuple[_Rule, ...]:
    rules = []
    for node in nodes:
        if node.type == "qualified-rule":
            rules.append(_Rule(node.serialize(), needed_classes(tinycss2.serialize(node.prelude))))
        elif node.type == "at-rule" and node.lower_at_keyword in ("media", "supports"):
            inner = tinycss2.parse_rule_list(node.content or [], skip_comments=True, skip_whitespace=True)
            rules.append(_Rule(f"@{node.at_keyword}{tinycss2.serialize(node.prelude)}", inner=_parse(inner)))
        elif node.type == "at-rule":
            rules.append(_Rule(node.serialize()))
    return tuple(rules)


def needed_classes(selectors: str) -> tuple[Words, ...]:
    """For each selector of a list the classes that it names outside `:not()`, escapes undone."""
    plain = _STRING_OR_NOT.sub("", selectors)
    return tuple(
        frozenset(_ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], name) for name in _CLASS.findall(selector))
        for selector in _COMMA.split(plain)
    )
