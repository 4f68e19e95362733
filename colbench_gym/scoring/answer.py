"""Parse an agent's message into private thought, utterance and answer, and find the program in an answer, as a reader of Markdown would.

The markers of a message are in `colbench_gym.scoring.message`. The program of an answer:

    * **Pieces.** The answer's pieces of code are its fences (of backticks or tildes, of any length, with any info string, in lists and
      quotes, closed or not), its code blocks by indentation, ``<pre>``, and runs of lines of prose that are Python. A fence that does not
      parse also ends at a later line that could end it, if its code then parses: code may hold fences, in a docstring for instance.
      What a browser does not show is no piece.
      A piece that is indented as a whole is moved to the margin.
    * **The function.** The program is the *last* piece that defines the task's function at module level: by ``def``, by ``async def``, or
      by an assignment of a function. If there is none, it is the last piece that assigns something else to the name that may be called
      (a class, an import, a call), and then the last that defines the function without a body or with ``...`` in place of a part. A call of
      the function, an example or a test, defines nothing, nor does a method, nor a function within another one.
    * **What it uses.** The statements of earlier pieces that the program, or a hidden call, uses come before it, and what those use: imports, helpers,
      constants, loops that fill a table. A helper may also follow, and a later version of a helper comes after the piece. Pieces do
      not import from each other: they are one program. Statements that call the task's function (examples, tests), main guards, input of
      a shell and output are left out. A piece stays as it is, with all that it does besides.
    * **Prose.** If there is no program so far, code below a line of prose may be indented as a whole, follow words on its line, or be escaped.
    * **Characters.** Line ends of any kind are the same. Invisible characters and unusual white space, which no editor shows, are left out or
      become blanks if the answer holds no such program as it is; in string literals only if it holds none otherwise.
    * **Thoughts.** What a model thinks between its marks (`colbench_gym.reasoning`) is no part of the answer, unless the whole text is a program.
    * An answer without such a piece is the whole answer if it parses, else its last piece that defines something, else its first one, else
      the text itself. Exactly one program is graded.
    * **Limits.** Answers are read here, outside the sandbox, and never executed: at most `MAX_PARTS` parts of up to `MAX_PART_CHARS`
      characters each, `MAX_PARSED_CHARS` in total, are parsed. What is beyond is no piece; an answer without a piece is used as it is.

`extract_program_released` has the rules of ColBench's released grader instead.
"""

from __future__ import annotations

import ast
import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter

from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.scoring.markdown import (
    OPENS_BLOCK,
    CodeBlock,
    code_blocks,
    lengthened,
    unindented_code,
    unindented_fences,
    without_hidden,
)
from colbench_gym.scoring.message import ANSWER_MARKER, THOUGHT_MARKER, AgentMessage, parse_message, without_marker
from colbench_gym.scoring.program_parts import Piece, program_of, without_failing_head, without_prose
from colbench_gym.scoring.python_names import Definition, definition, module_statements, names_of
from colbench_gym.scoring.unseen import readings

__all__ = [
    "ANSWER_MARKER",
    "THOUGHT_MARKER",
    "AgentMessage",
    "defines_function",
    "extract_program",
    "extract_program_released",
    "parse_message",
    "without_thoughts",
]

MAX_PART_CHARS, MAX_PARTS, MAX_PARSED_CHARS = 20_000, 50, 40_000
#: Maximal number of later ends that are tried for the fences of an answer that do not parse.
_MOST_ENDS = 12
#: Maximal depth of Markdown within code blocks of Markdown.
_MOST_NESTED = 2
#: Maximal number of lines above an indented block in which the statement is looked for that it may be the body of.
_MOST_LINES_ABOVE = 200
_MARKUP = re.compile(r"`{3}|~{3}|<pre\b|<!--|^[ >]*(?: {4}|\t)", re.MULTILINE | re.IGNORECASE)
_NESTED = re.compile(r"`{3}|~{3}|<pre\b", re.IGNORECASE)
_FENCE = re.compile(r"(?:`{3,}|~{3,})[ \t]*(?:\{?\.?python3?\b\}?|\{?\.?py\b\}?)?[ \t]*", re.IGNORECASE)
_TARGET = r"[(\[*]{0,4}[^\W\d][\w.]*(?:\[[^\]\n]*\])*[)\]]{0,4}"
_STATEMENT = r"(?:async\s+)?(?:def|class)\s|import\s+[\w.]+\s*(?:[,;#]|as\b|$)|from\s+[\w.]+\s+import\b|@|\"\"\"|'''|(?:async\s+)?(?:if|for|while|with|try)\b.*:\s*(?:#.*)?$"
#: A line that surely is code where it stands beside a program.
_CODE_LINE = re.compile(rf"{_STATEMENT}|[^\W\d]\w*\s*(?::[^=\n]+)?=(?!=)")
#: A line with which a program may begin.
_CODE_START = re.compile(
    rf"{_STATEMENT}|match\b.*:\s*(?:#.*)?$|{_TARGET}(?:\s*,\s*{_TARGET})*(?:\s*,)?\s*(?::[^=\n]+)?(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=)"
)
_INDENTED_START = re.compile(r"\s*[ \t](?:async\s+)?(?:def|class)\s|\s*[ \t](?:import|from|@)")
_PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_QUOTE = re.compile(r"^(?: {0,3}>)+ ?", re.MULTILINE)
_ESCAPED = re.compile(r"\\([_*\[\]()<>#-])")
_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]+)\1(?!`)")
_LANGUAGE_LINE = re.compile(r"\A\s*(?:python3?|py)[ \t]*\n", re.IGNORECASE)
_NO_PROGRAM = frozenset(
    [
        "bash",
        "sh",
        "shell",
        "zsh",
        "fish",
        "console",
        "terminal",
        "cmd",
        "powershell",
        "ps1",
        "output",
        "text",
        "txt",
        "plaintext",
        "stdout",
        "result",
        "json",
        "yaml",
        "toml",
        "html",
        "css",
        "diff",
    ]
)


def extract_program(answer: str, function_name: str = "", reasoning: str = AUTO, calls: Sequence[str] = ()) -> str:
    """The program in an answer, by the rules of the module.

    Args:
        answer: The agent's answer.
        function_name: Name of the requested function; "" for the first piece.
        reasoning: How the model marks its thoughts, see `colbench_gym.reasoning.Reasoning`; "none" if it does not.
        calls: Expressions that the program is to answer; the names in them are taken from the pieces too, as those that the function uses.
    """
    answer = without_thoughts(answer, reasoning)
    reader = _Reader(function_name, _called(calls))
    read = (reader.program(without_marker(text)) for text in readings(answer))
    return max(read, key=itemgetter(0))[1]  # of equals the first, the most literal


def _called(calls: Sequence[str]) -> frozenset[str]:
    """The names that calls use."""
    names: set[str] = set()
    for call in dict.fromkeys(calls):
        with suppress(*PARSE_ERRORS):
            names |= names_of(parse_source(call)).uses
    return frozenset(names)


def without_thoughts(answer: str, reasoning: str = AUTO) -> str:
    """An answer without what its model thought; a text that is a program as a whole holds no thought."""
    speech = Reasoning(reasoning).speech(answer)
    return speech if speech != answer and _Parser().parse(answer) is None else answer


def defines_function(answer: str, function_name: str, reasoning: str = AUTO) -> bool:
    """Whether the program in an answer defines the function, by the rules of the module."""
    tree = _Parser().parse(extract_program(answer, function_name, reasoning))
    return tree is not None and definition(tree, function_name) is not Definition.NONE


def extract_program_released(answer: str) -> str:
    """The program as ColBench's released grader extracts it (arXiv:2503.15478, the code of 5 May 2025)."""
    for fence in ("```python", "```"):
        if fence in answer:
            return answer.split(fence)[1].split("```")[0].strip()
    return answer


@dataclass(frozen=True)
class _Lines:
    """Code at some lines of a text, from `start` to before `end`, of a block or of prose; `piece` is None if it does not parse."""

    start: int
    end: int
    text: str
    piece: Piece | None
    is_block: bool = True


class _Reader:
    """Reads one answer, within the limits of the module."""

    def __init__(self, name: str, called: frozenset[str] = frozenset()) -> None:
        self.name, self.called = name, called
        self.parser = _Parser()
        self.ends = _MOST_ENDS

    def program(self, text: str) -> tuple[Definition, str]:
        """How firmly an answer defines the function, and its program; without a definition, the code that comes closest."""
        if _INDENTED_START.match(text) and textwrap.dedent(text) == text:  # the first line lost the indentation of the others
            text = text.lstrip()
        whole = self._whole(text)
        if whole and (level := self._level(whole)) >= (Definition.VALUE if _MARKUP.search(text) else Definition.NONE):
            return level, without_failing_head(whole, frozenset()).text
        best, closest = (Definition.NONE, ""), ""
        for code in self._ways(text):
            if code and not self.name:
                return Definition.NONE, code[0].text
            level, program = program_of([lines.piece for lines in code if lines.piece], self.name, self.called)
            if level > best[0]:
                best = level, program
            if level is Definition.FUNCTION:
                break
            closest = closest or _closest(code, text, self.name)
        return best if best[1] else (Definition.NONE, whole.text if whole else closest or text.strip("\n"))

    def _level(self, piece: Piece) -> Definition:
        return definition(piece.tree, self.name) if self.name else Definition.FUNCTION

    def _whole(self, text: str) -> Piece | None:
        """The whole answer as a piece, if it parses. An answer with markup is tried only if its first line looks like code."""
        body = text.strip("\n")
        if _MARKUP.search(body) and not (_CODE_START.match(body.lstrip().partition("\n")[0]) or body.startswith("#")):
            return None
        return self._piece(body, is_prose=True)

    def _ways(self, text: str) -> Iterator[list[_Lines]]:
        """The code of an answer in different readings, the usual one first."""
        yield self._code(text)
        if (moved := unindented_fences(text)) != text:
            yield self._code(moved)
        plain = _FENCE.sub("", without_hidden(text))
        answer = parse_message(plain).answer
        others = [plain, _QUOTE.sub("", plain), unindented_code(plain, self.name), _ESCAPED.sub(r"\1", plain)]
        for other in dict.fromkeys([*([] if answer is None else [answer]), *others]):
            lines = other.split("\n")
            runs = self._runs(lines) if other != text else []
            yield [] if plain != text and _leaves_code(lines, runs) else runs
        yield self._session(text)
        yield [_Lines(0, 0, span, self._piece(span)) for _, span in _SPAN.findall(text) if self.name in span]

    def _code(self, text: str, depth: int = 0) -> list[_Lines]:
        """The pieces of a text as a reader of Markdown sees them, in order; fences are read first, since the limits may end the rest."""
        blocks = code_blocks(text) if _MARKUP.search(text) else []
        blocks_read: list[_Lines] = []
        for block in blocks:
            if block.kind != "indented" and (not blocks_read or block.start >= blocks_read[-1].end):
                blocks_read += self._block(text, block, depth)
        hidden = frozenset(line for block in blocks if block.kind == "hidden" for line in range(block.start, block.end))
        lines, runs, line = text.split("\n"), [], 0
        for part in blocks_read:
            if part.start not in hidden:  # a string of a program may hold what hides text elsewhere
                runs += self._runs(lines, line, part.start, hidden)
                line = max(line, part.end)
        runs += self._runs(lines, line, hidden=hidden)
        covered = {line for part in [*blocks_read, *runs] for line in range(part.start, part.end)}
        for block in blocks:
            if (
                block.kind == "indented"
                and covered.isdisjoint(range(block.start, block.end))
                and not _continues_code(lines, block.start)
            ):
                runs += self._block(text, block, depth)
        return sorted(blocks_read + runs, key=lambda part: part.start)

    def _block(self, text: str, block: CodeBlock, depth: int) -> list[_Lines]:
        """The pieces in a code block."""
        if block.kind == "hidden":
            return [_Lines(block.start, block.end, "", None)]
        code = _LANGUAGE_LINE.sub("", block.text).strip("\n")
        is_program = block.language not in _NO_PROGRAM
        has_markup = depth < _MOST_NESTED and _NESTED.search(code) is not None
        is_outer = (has_markup and block.language in ("markdown", "md")) or (not is_program and "<<" in code)  # "cat <<EOF"
        whole = None if is_outer else self._piece(code, is_program)
        if whole is None and block.kind == "fence" and (longer := self._longer(text, block, is_program)):
            return [longer]
        if whole is None and not self.parser.has_finished:
            lines = code.split("\n")
            inner = self._code(code, depth + 1) if has_markup else self._runs(lines)
            pieces = [part.piece for part in inner if part.piece]
            if pieces and (has_markup or not _leaves_code(lines, inner)):
                return [
                    _Lines(block.start, block.end, inner_piece.text if _defines(inner_piece) else code, inner_piece)
                    for inner_piece in pieces
                ]
        return [_Lines(block.start, block.end, code, whole, block.kind != "indented")]

    def _longer(self, text: str, block: CodeBlock, is_program: bool) -> _Lines | None:
        """A fence with a later end, of those that make it define the function."""
        if len(text) > MAX_PARSED_CHARS or self.parser.has_finished or self.ends <= 0:
            return None
        for longer in lengthened(text, block, self.ends):
            self.ends -= 1
            piece = self._piece(longer.text.strip("\n"), is_program)
            if piece and self._level(piece):
                return _Lines(longer.start, longer.end, piece.text, piece)
        return None

    def _runs(
        self, lines: list[str], start: int = 0, stop: int | None = None, hidden: frozenset[int] = frozenset()
    ) -> list[_Lines]:
        """The runs of lines that are Python, among those from `start` to before `stop`. A run starts with a line that looks like code and is not hidden, and ends at the end or before an unindented line.

        If it does not parse, the next one tried ends before the line of the error, because all longer runs have the same error.
        """
        stop = len(lines) if stop is None else stop
        margins = [i for i in range(start, stop) if lines[i].strip() and not lines[i][0].isspace()]
        runs: list[_Lines] = []
        for first in margins:
            if self.parser.has_finished:
                break
            if first < start or first in hidden or not _CODE_START.match(lines[first]):
                continue
            end = stop
            while end > first and not self.parser.has_finished:
                if piece := self._piece("\n".join(lines[first:end]).strip("\n"), is_prose=True):
                    runs.append(_Lines(first, end, piece.text, piece, False))
                    start = end
                    break
                end = margins[bisect_right(margins, min(end - 1, first + self.parser.good_lines)) - 1]
        return runs

    def _session(self, text: str) -> list[_Lines]:
        """What was typed in an interactive session that the answer shows."""
        typed = [line.lstrip()[4:] for line in text.split("\n") if _PROMPT.match(line)]
        return [_Lines(0, 0, "", self._piece("\n".join(typed)))] if typed else []

    def _piece(self, code: str, is_program: bool = True, is_prose: bool = False) -> Piece | None:
        """Code as a piece; moved to the margin if it does not parse where it is; None if it is no Python."""
        tree = self.parser.parse(code)
        if tree is None and code[:1].isspace():
            code = textwrap.dedent(code).strip("\n")
            tree = self.parser.parse(code)
        if tree is None:
            return None
        piece = Piece(code, tree, is_program, is_prose)
        return without_prose(piece) if is_prose and self.name else piece


def _leaves_code(lines: list[str], runs: list[_Lines]) -> bool:
    """Whether lines outside of the runs look like code: then the whole is a broken program, and not a program with prose."""
    covered = {i for run in runs for i in range(run.start, run.end)}
    return any(
        i not in covered and line.strip() and (line[0].isspace() or _CODE_LINE.match(line) is not None)
        for i, line in enumerate(lines)
    )


def _closest(code: list[_Lines], text: str, name: str) -> str:
    """Code of an answer that does not define the function: what tries to, else the last piece that defines something, else the first block."""
    tried = re.compile(rf"^(?:async\s+)?def\s+{re.escape(name)}\b", re.MULTILINE)
    blocks = [part.text for part in code if part.is_block and part.text]
    if name and tried.search(text):
        return next((block for block in blocks if tried.search(block)), text.strip("\n"))
    defining = [part.text for part in code if part.piece and _defines(part.piece)]
    return (defining[-1:] or blocks or [""])[0]


def _defines(piece: Piece) -> bool:
    """Whether a piece defines some function or class."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in module_statements(piece.tree)
    )


def _continues_code(lines: list[str], start: int) -> bool:
    """Whether indented lines are the body of a statement: the last unindented line before them opens a block."""
    before = lines[max(0, start - _MOST_LINES_ABOVE) : start]
    above = next((line for line in reversed(before) if line.strip() and not line.startswith(("    ", "\t"))), "")
    return OPENS_BLOCK.match(above) is not None


class _Parser:
    """Parses parts of one answer, within the limits of the module.

    Attributes:
        good_lines: Number of lines before the first error of the last part that was parsed.
    """

    good_lines: int

    def __init__(self) -> None:
        self._parts, self._chars = MAX_PARTS, MAX_PARSED_CHARS

    @property
    def has_finished(self) -> bool:
        """True if a limit is reached and nothing more is parsed."""
        return self._parts <= 0 or self._chars <= 0

    def parse(self, text: str) -> ast.Module | None:
        """The parsed module; None if the text is not a program, is too long, or exceeds the limits."""
        self.good_lines = text.count("\n")
        if self.has_finished:
            return None
        self._parts -= 1
        if len(text) > MAX_PART_CHARS:
            return None
        self._chars -= len(text)
        try:
            tree: ast.Module = parse_source(text)
        except PARSE_ERRORS as error:
            if isinstance(error, SyntaxError) and error.lineno:
                self.good_lines = error.lineno - 1
            return None
        return tree
