"""Recognize Python source that needs a newer interpreter than this one.

Source that does not compile here is rewritten without the syntax of newer versions, one version after the other. If it then compiles, it needs
that version; if it never does, it has another fault. So a typing error is not taken for a new syntax.
"""

from __future__ import annotations

import ast
import platform
import re
import sys

from colbench_gym.python_source import PARSE_ERRORS, parse_source

Version = tuple[int, int]
#: Versions with new syntax, oldest first.
NESTED_STRINGS, DEFAULTS, TEMPLATES = (3, 12), (3, 13), (3, 14)
_ALIAS = re.compile(r"^([ \t]*)type[ \t]+(\w+)[ \t]*=(?!=)", re.MULTILINE)
_PARAMETERS = re.compile(r"\b(def|class|type)([ \t]+\w+)\[")
_PARAMETER = re.compile(r"\s*\*{0,2}\w+\s*(?::(?P<bound>[^=]+))?(?:=(?P<default>.+))?", re.DOTALL)
#: `except A, B:`. Names in lower case are the variables of Python 2, where the second name was the error.
_EXCEPT = re.compile(r"^([ \t]*except\*?[ \t]+)((?:\w+\.)*[A-Z]\w*(?:[ \t]*,[ \t]*(?:\w+\.)*[A-Z]\w*)+)[ \t]*:", re.MULTILINE)
_QUOTE = re.compile(r"'''|\"\"\"|'|\"")
#: What follows the type parameters.
_AFTER: dict[str, tuple[str, ...]] = {"def": ("(",), "class": ("(", ":"), "type": ("=",)}
_OPEN, _CLOSE = "([{", ")]}"


def needed(source: str, mode: str = "exec", current: Version = sys.version_info[:2]) -> str:
    """Why source that does not compile needs a newer Python: "needs Python 3.12 or newer; this is 3.11.7"; "" if that is not the reason.

    Args:
        source: The source.
        mode: As in `ast.parse`: "exec" or "eval".
        current: Version of the interpreter.
    """
    for version in (NESTED_STRINGS, DEFAULTS, TEMPLATES):
        if version > current and _compiles(source, mode, version):
            this = platform.python_version() if current == sys.version_info[:2] else "{}.{}".format(*current)
            return f"needs Python {version[0]}.{version[1]} or newer; this is {this}"
    return ""


def _compiles(source: str, mode: str, version: Version) -> bool:
    """Whether source compiles without the new syntax up to a version."""
    try:
        text, expressions = _Strings(source, version).without_fields()
        text = _ALIAS.sub(r"\1\2 =", _without_parameters(text, version))
        if version >= TEMPLATES:
            text = _EXCEPT.sub(r"\1(\2):", text)
        parse_source(text, mode)
        for expression in expressions:
            parse_source(f"({expression}\n)", "eval")
    except PARSE_ERRORS:
        return False
    return True


def _without_parameters(text: str, version: Version) -> str:
    """Source without lists of type parameters.

    Raises:
        SyntaxError: If a list is not one of this version.
    """
    parts, at, read = [], 0, 0
    for match in _PARAMETERS.finditer(text):
        if match.start() < read:
            continue
        read = end = _closing(text, match.end())
        if _is_header(text, match, end):
            for parameter in _split(text[match.end() : end - 1]) or [""]:
                _check(parameter, version)
            parts.append(text[at : match.end() - 1])
            at = end
    return "".join([*parts, text[at:]])


def _is_header(text: str, match: re.Match[str], end: int) -> bool:
    """Whether what follows a bracket is the rest of a `def`, `class` or `type`."""
    rest = text[end:].lstrip(" \t")
    return rest.startswith(_AFTER[match[1]])


def _check(parameter: str, version: Version) -> None:
    match = _PARAMETER.fullmatch(parameter)
    if match is None or (match["default"] and version < DEFAULTS):
        raise SyntaxError(f"no type parameter: {parameter}")
    for value in (match["bound"], match["default"]):
        if value is not None:
            if not value.strip():
                raise SyntaxError(f"no type parameter: {parameter}")
            ast.parse(f"({value}\n)", mode="eval")


def _closing(text: str, start: int) -> int:
    """The position behind the bracket that closes one before `start`; the end of the text if none does."""
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] in _OPEN) - (text[i] in _CLOSE)
        if not depth:
            return i + 1
    return len(text)


def _split(text: str) -> list[str]:
    """The parts between commas outside brackets; the last comma may end the list."""
    parts, start, depth = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if char == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]] if text[start:].strip() else parts


class _Strings:
    """Source without its comments, and with every f-string and t-string replaced by an empty text.

    The fields of these strings are read as since Python 3.12: any expression, with any quotes, comments and line breaks in it.
    """

    def __init__(self, source: str, version: Version) -> None:
        self.source, self.at = source, 0
        self.prefixes = "rbuft" if version >= TEMPLATES else "rbuf"
        self.expressions: list[str] = []

    def without_fields(self) -> tuple[str, list[str]]:
        """The rewritten source, and the expressions in its fields.

        Raises:
            SyntaxError: If a string or a field has no end.
        """
        return self._code(""), self.expressions

    def _code(self, ends: str) -> str:
        """Code up to a character of `ends` outside brackets, or to the end of the source for ""."""
        parts: list[str] = []
        depth = 0
        while self.at < len(self.source):
            char = self.source[self.at]
            if ends and not depth and char in ends and self.source[self.at : self.at + 2] != "!=":
                return "".join(parts)
            if match := _QUOTE.match(self.source, self.at):
                self._string(parts, match[0])
                continue
            if char == "#":
                end = self.source.find("\n", self.at)
                self.at = len(self.source) if end < 0 else end
                continue
            depth += (char in _OPEN) - (char in _CLOSE)
            parts.append(char)
            self.at += 1
        if ends:
            raise SyntaxError("a field without an end")
        return "".join(parts)

    def _string(self, parts: list[str], quote: str) -> None:
        """Read a string, and append it or an empty one."""
        start, prefix = self.at, self._prefix()
        self.at += len(quote)
        has_fields = "f" in prefix or "t" in prefix
        while not self.source.startswith(quote, self.at):
            char = self.source[self.at : self.at + 1]
            if not char or (char == "\n" and len(quote) == 1):
                raise SyntaxError("a string without an end")
            if char == "\\":
                self._escape(has_fields, "r" in prefix)
            elif has_fields and char in "{}":
                self._brace(char)
            else:
                self.at += 1
        self.at += len(quote)
        if has_fields:
            del parts[-len(prefix) :]
            parts.append('""')
        else:
            parts.append(self.source[start : self.at])

    def _prefix(self) -> str:
        """The prefix before the quote; "" if the letters there are none."""
        start = self.at
        while start and (self.source[start - 1].isalnum() or self.source[start - 1] == "_"):
            start -= 1
        letters = self.source[start : self.at].lower()
        return letters if len(letters) <= 2 and set(letters) <= set(self.prefixes) else ""

    def _escape(self, has_fields: bool, is_raw: bool) -> None:
        following = self.source[self.at + 1 : self.at + 2]
        if has_fields and following == "{":
            self.at += 1
        elif has_fields and not is_raw and self.source.startswith("N{", self.at + 1):
            self.at = self.source.find("}", self.at) + 1 or len(self.source)
        else:
            self.at += 2

    def _brace(self, brace: str) -> None:
        """Read a doubled brace or a field."""
        self.at += 1
        if self.source.startswith(brace, self.at):
            self.at += 1
        elif brace == "}":
            raise SyntaxError("a single brace")
        else:
            self._field()

    def _field(self) -> None:
        expression = self._code("}:!")
        if not expression.strip():
            raise SyntaxError("an empty field")
        self.expressions.append(re.sub(r"(?<![=!<>])=\s*$", "", expression))
        if self.source.startswith("!", self.at):
            match = re.compile(r"![rsa]\s*(?=[:}])").match(self.source, self.at)
            if match is None:
                raise SyntaxError("no conversion")
            self.at = match.end()
        if self.source.startswith(":", self.at):
            self.at += 1
            while (char := self.source[self.at : self.at + 1]) != "}":
                if not char:
                    raise SyntaxError("a format without an end")
                self.at += 1
                if char == "{":
                    self._field()
        self.at += 1
