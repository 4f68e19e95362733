"""Blocks of code in the documentation, and how each wants to be tested."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODES = ("run", "dry_run", "skip")
ROWS = 16  # of a `.jsonl` file, of which a page shows one: an optimizer step of SFT takes as many
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*)(?P<rest>.*)$")
_MARKER = re.compile(r"^ *<!-- test: (\w+) ?(.*?) -->$")
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: Path of the page in the repository.
        line: Line of the fence.
        language: Its language; "" for none.
        title: Name of the file that it shows; "" for none.
        mode: One of `MODES`; "" without a marker.
        reason: Why it is skipped.
        code: Its lines.
    """

    page: str
    line: int
    language: str
    title: str
    mode: str
    reason: str
    code: str

    @property
    def is_code(self) -> bool:
        """Whether it must say how it is tested."""
        return self.language in ("sh", "bash", "shell", "python", "py")

    @property
    def is_python(self) -> bool:
        """Whether it is Python, not commands."""
        return self.language in ("python", "py")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks_of(page: Path) -> tuple[Block, ...]:
    """All fenced blocks of a page, in order."""
    lines, found, i = page.read_text(encoding="utf-8").splitlines(), [], 0
    while i < len(lines):
        fence = _FENCE.match(lines[i])
        if not fence:
            i += 1
            continue
        end = next(j for j in range(i + 1, len(lines)) if lines[j].strip() == fence["ticks"])
        indent = len(fence["indent"])
        title = _TITLE.search(fence["rest"])
        marker = _marker_above(lines, i)
        code = "\n".join(line[indent:] for line in lines[i + 1 : end]) + "\n"
        where = page.relative_to(ROOT).as_posix()
        found.append(Block(where, i + 1, fence["language"], title[1] if title else "", *marker, code))
        i = end + 1
    return tuple(found)


def _marker_above(lines: list[str], fence: int) -> tuple[str, str]:
    """Mode and reason of the nearest marker among the comments directly above a fence."""
    for line in reversed(lines[:fence]):
        if found := _MARKER.match(line):
            return found[1], found[2]
        if line.strip() and not line.lstrip().startswith("<!--"):
            break
    return "", ""


def all_blocks() -> list[Block]:
    """The blocks of all pages."""
    return [block for page in PAGES for block in blocks_of(page)]


def write_files(page: str, folder: Path) -> list[str]:
    """Write the files that a page shows, blocks with a title, into a folder; returns their names. The row of a `.jsonl` file stands for many."""
    shown = [block for block in blocks_of(ROOT / page) if block.title]
    for block in shown:
        path = folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code * (ROWS if path.suffix == ".jsonl" else 1), encoding="utf-8")
    return [block.title for block in shown]


def commands(code: str) -> list[list[str]]:
    """The commands of a block of shell, as words: lines are joined at backslashes and split at `&&` and `;`."""
    found: list[list[str]] = []
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split, words.commenters = True, "#"
        found.append([])
        for word in words:
            if word in ("&&", ";"):
                found.append([])
            else:
                found[-1].append(word)
    return [command for command in found if command]


def modules(code: str, package: str = "sweetrl_agent") -> list[tuple[str, list[str]]]:
    """The commands `... -m MODULE ARGUMENTS` of a block whose module is of a package."""
    found = []
    for command in commands(code):
        for i, (flag, module) in enumerate(zip(command, command[1:], strict=False)):
            if flag == "-m" and module.partition(".")[0] == package:
                found.append((module, command[i + 2 :]))
                break
    return found
