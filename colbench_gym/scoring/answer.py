"""Parse an agent's message into private thought, utterance and answer. Only this module knows the markers of the benchmark.

Our rules, with the differences to the released environment:
    * ``OUTPUT:`` ends the agent's private thought: everything up to its first occurrence is dropped and never reaches the
      simulated human. The released code does the same.
    * ``I WANT TO ANSWER:`` starts the final answer: everything after its first occurrence is the answer. The released code
      drops the text after a second marker; we keep it, because it is part of the program.
    * The program is the fenced block that defines the function (any language tag, any case; the first block if none does),
      together with other blocks that contain only definitions, such as a helper. An answer without a fence is a program after
      prose before and after the code is removed. The released code takes the first block, supports only the lower-case tag
      ``python`` and bare fences, and keeps prose, so that the program does not compile.
    * To separate code from prose, parts of an answer are parsed here, outside the sandbox: at most `MAX_PARTS` parts of up to
      `MAX_PART_CHARS` characters each and `MAX_PARSED_CHARS` in total. Beyond these limits, an additional block counts as prose, and
      an answer without a fence is used as a whole.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass

from colbench_gym.python_source import PARSE_ERRORS, parse_source

ANSWER_MARKER = "I WANT TO ANSWER:"
THOUGHT_MARKER = "OUTPUT:"
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_CODE_START = re.compile(r"(?:async\s+)?(?:def|class)\s|import\s|from\s|@")
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
MAX_PART_CHARS, MAX_PARTS, MAX_PARSED_CHARS = 20_000, 50, 40_000


@dataclass(frozen=True)
class AgentMessage:
    """The parts of an agent's message.

    Attributes:
        thought: Text before ``OUTPUT:``; never shown to the simulated human.
        utterance: The rest, as the simulated human sees it.
        answer: Text after ``I WANT TO ANSWER:``; None if the agent did not answer.
    """

    thought: str
    utterance: str
    answer: str | None


def parse_message(text: str) -> AgentMessage:
    """Split an agent's message into its parts by the rules of the module."""
    thought, marker, rest = text.partition(THOUGHT_MARKER)
    utterance = (rest if marker else text).strip()
    _, marker, answer = utterance.partition(ANSWER_MARKER)
    return AgentMessage(thought.strip() if utterance != text.strip() else "", utterance, answer.strip() if marker else None)


def extract_program(answer: str, function_name: str = "") -> str:
    """The program in an answer, by the rules of the module.

    Args:
        answer: The agent's answer.
        function_name: Name of the requested function; selects the block if there are several.
    """
    blocks = [match.group(1).strip("\r\n") for match in _FENCE.finditer(answer)]
    if not blocks:
        return _bare_program(answer.replace("```", "")).strip("\r\n")
    if len(blocks) == 1 or not function_name:
        return blocks[0]
    definition = re.compile(
        rf"^(?:(?:async\s+)?def\s+{re.escape(function_name)}\s*\(|{re.escape(function_name)}\s*=)", re.MULTILINE
    )
    chosen = next((i for i, block in enumerate(blocks) if definition.search(block)), 0)
    parser = _Parser()
    return "\n\n".join(
        block
        for i, block in enumerate(blocks)
        if i == chosen or (not definition.search(block) and _only_defines(parser.parse(block)))
    )


def extract_program_released(answer: str) -> str:
    """The program as ColBench's released grader extracts it (arXiv:2503.15478, the code of 5 May 2025)."""
    for fence in ("```python", "```"):
        if fence in answer:
            return answer.split(fence)[1].split("```")[0].strip()
    return answer


def _bare_program(text: str) -> str:
    """The code in a text without fences; the text itself if no part of it is code.

    Code is a run of lines that parses. It starts with a line that looks like code and ends at the end of the text or before an unindented
    line. If a run does not parse, the next one tried ends before the line of the error, because all longer runs have the same error.
    """
    parser = _Parser()
    if parser.parse(text) is not None:
        return text
    _, marker, rest = text.partition(ANSWER_MARKER)
    lines = (rest if marker else text).lstrip().splitlines()
    margins = [i for i, line in enumerate(lines) if line.strip() and not line[0].isspace()]
    for start in (i for i in margins if _CODE_START.match(lines[i])):
        end = len(lines)
        while end > start and not parser.has_finished:
            part = "\n".join(lines[start:end])
            if parser.parse(part) is not None:
                return part
            before = bisect_right(margins, min(end - 1, start + parser.good_lines)) - 1
            end = margins[before]
        if parser.has_finished:
            break
    return text


def _only_defines(tree: ast.Module | None) -> bool:
    return tree is not None and all(isinstance(node, _DEFINITIONS) for node in tree.body)


class _Parser:
    """Parses parts of one answer, within the limits of the module.

    Attributes:
        good_lines: Number of lines before the first error of the last part that was parsed.
    """

    def __init__(self) -> None:
        self._parts, self._chars = MAX_PARTS, MAX_PARSED_CHARS
        self.good_lines = 0

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
