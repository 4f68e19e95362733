"""CPU time of every function that reads an agent's text, a page or a row of a file, for hostile texts of one, two and four times a length.

    PYTHONPATH=. python benchmarks/hostile_text.py [--chars 16384] [--output benchmarks/results/hostile_text.json]

Every function reads every pattern, repeated to the length. The report has its slowest pattern and the one with the largest growth, as the minimum
of three runs. A linear function takes at most four times as long for a text that is four times as long; a function with a limit takes less.
"grows" is the third time divided by the first. Times below a millisecond count as one millisecond, because they are not reliable.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from colbench_gym.scoring import answer, blocks, pages, texts
from colbench_gym.simulators.facts import relevance
from colbench_gym.simulators.pages import colours, differences
from colbench_gym.simulators.pages.scripted_designer import sentences
from colbench_gym.simulators.understanding import asked_topics, questions, word_vectors
from colbench_gym.simulators.understanding.stems import stems
from colbench_gym.tasks import load_tasks, rows
from sandboxes.pages import Box, PageOutcome, Rendering, styles, stylesheet
from sandboxes.pages.boxes import STYLES, visible_boxes
from sandboxes.pages.placeholders import picture_at
from sandboxes.pages.web_files import TAILWIND, WebFiles

OUTPUT = Path(__file__).parent / "results" / "hostile_text.json"
TAILWIND_LINK = '<link rel="stylesheet" href="https://x.org/tailwindcss@2/tailwind.css">'
PATTERNS = (
    "<<<<<<< SEARCH\n", "<<<<<<< SEARCH\n\n=======\n", "<<<<<<< SEARCH\na\n=======\na\n>>>>>>> REPLACE\n", "\n=======\n", "<link stylesheet ",
    "<link ", TAILWIND_LINK, '<link stylesheet href="', "<p>", "```", "```\n", "```\n<p>\n", "```py\nx=1\n```\n", "OUTPUT:", "I WANT TO ANSWER:",
    "@a\n", "def f():\n", "def f(a): return a\nso\n", "async\n", "import a\nb c\n", "*a,", "a<", "-", "(", "[", "{", " ", "\n", "\t ", "?", "? ", "?! ",
    "' ", "'a ", '"', "return ? ", "if : ", "is that a ", "and ", "and and, ", "1. ", "1) a? ", "e.g. ", "please tell me: ", "part A ",
    "a-", "abcdefg ", "qwrtzp xyvbnm ", "-1 ", "1,000.0001 ", "[ ", "('a ", "1/", "1x", "11111", ".5", "calc(", "none ", "rgb(", "class=a ", "\ud800",
    "The signature of the function is: def ", "\x00", "٣", "ß", "𐍈",
)  # fmt: skip
_TASK = load_tasks("embedded:train[:1]")[0]
_INDEX = relevance.FactIndex(_TASK.hidden.facts)
_ROW = {"problem_description": "A page", "ground_truth": "def f(a):\n    return a", "test_cases": {"test1": "f(1)"}}


def text_readers(files: WebFiles, sheet: stylesheet.StyleSheet) -> dict[str, Callable[[str], object]]:
    """Functions that read a text, by name."""
    return {
        "scoring.answer.parse_message": answer.parse_message,
        "scoring.answer.extract_program": lambda text: answer.extract_program(text, "f"),
        "scoring.answer.extract_program_released": answer.extract_program_released,
        "scoring.pages.extract_page": pages.extract_page,
        "scoring.pages.apply_edits": lambda text: pages.apply_edits(text, text),
        "scoring.pages.current_page": lambda text: pages.current_page([text, text], has_edits=True),
        "scoring.texts.text_likeness": lambda text: texts.text_likeness.__wrapped__(text, text[1:]),
        "simulators.understanding.questions.questions": questions.questions,
        "simulators.understanding.questions.prose": questions.prose,
        "simulators.understanding.asked_topics.points": lambda text: asked_topics.points(
            text, tuple(fact.phrases for fact in _TASK.hidden.facts), ("a", "b")
        ),
        "simulators.understanding.word_vectors.text_vectors": lambda text: word_vectors.text_vectors([text]),
        "simulators.facts.relevance.FactIndex.ranking": lambda text: _INDEX.ranking(stems(text)),
        "simulators.facts.relevance.FactIndex.definitions": _INDEX.definitions,
        "simulators.facts.relevance.FactIndex": lambda text: relevance.FactIndex([_fact(text)]),
        "simulators.pages.scripted_designer.sentences": lambda text: sentences(
            [differences.Difference(1.0, text[:200])], [text], "chatty"
        ),
        "tasks.rows.task_from_row, reference": lambda text: _row("ground_truth", f"def f(a):\n    return a\n{text}"),
        "tasks.rows.task_from_row, description": lambda text: _row("problem_description", f"A page {text}"),
        "tasks.rows.task_from_row, call": lambda text: _row("test_cases", {"test1": text}),
        "tasks.rows.page_from_row": lambda text: rows.page_from_row({**_ROW, "ground_truth": f"<p>{text}"}, Path("f"), 1),
        "tasks.rows.read_rows": _read_line,
        "sandboxes.pages.web_files.WebFiles.inlined": files.inlined,
        "sandboxes.pages.web_files.WebFiles.answer": lambda text: files.answer(f"http://picsum.photos/{text}"),
        "sandboxes.pages.placeholders.picture_at": lambda text: picture_at(f"http://placehold.co/{text}"),
        "sandboxes.pages.stylesheet.StyleSheet.for_page": sheet.for_page,
        "sandboxes.pages.styles.solid_colour": lambda text: styles.solid_colour(f"rgb({text}"),
        "sandboxes.pages.styles.number": styles.number,
    }


def page_readers() -> dict[str, Callable[[int], object]]:
    """Functions that read a laid-out page, by name. Their argument is a number of characters, split into boxes of 16 characters."""
    return {
        "scoring.blocks.compare, texts": lambda n: _compare("text", n),
        "scoring.blocks.compare, controls": lambda n: _compare("control", n),
        "scoring.blocks.compare, blocks": lambda n: _compare("block", n),
        "scoring.blocks.compare, texts of 500": lambda n: _compare("text", n, 500),
        "simulators.pages.differences.differences, texts": lambda n: _differ("text", n),
        "simulators.pages.differences.differences, controls": lambda n: _differ("control", n),
        "simulators.pages.differences.differences, blocks": lambda n: _differ("block", n),
        "simulators.pages.colours.colour_name": lambda n: [
            colours.colour_name((i % 256, i // 256 % 256, 7)) for i in range(n // 16)
        ],
        "sandboxes.pages.boxes.visible_boxes": lambda n: visible_boxes(_snapshot(n // 4), 1280, 4000),
    }


def _fact(text: str) -> Any:
    from colbench_gym.tasks import Fact

    return Fact(text[:100], text, (text,))


def _row(field: str, value: object) -> object:
    return rows.task_from_row({**_ROW, field: value}, Path("f"), 1)


def _read_line(text: str) -> object:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        return list(rows.read_rows(file.name, "skip"))


def _page(kind: str, chars: int, each: int, seed: int) -> Rendering:
    """Nested boxes that differ as much as possible but are still compared."""
    tail = "abcdefghij" * (each // 10)
    boxes = [
        Box(kind, "div", i % 50, i, 100 + i % 7, 20, f"{seed * i} {tail}"[:each], background=(i % 256, seed, 0), parent=i - 1)
        for i in range(min(chars // 16, 2_000))
    ]
    return Rendering(PageOutcome.OK, b"", 1280, 4000, 4000, tuple(boxes))


def _compare(kind: str, chars: int, each: int = 16) -> object:
    return blocks.compare.__wrapped__(_page(kind, chars, each, 7), _page(kind, chars, each, 13))


def _differ(kind: str, chars: int) -> object:
    blocks.compare.cache_clear()
    return differences.differences(_page(kind, chars, 16, 7), _page(kind, chars, 16, 13))


def _snapshot(count: int) -> dict[str, Any]:
    """Nested elements in chains of 500 that are not drawn."""
    strings = ["", "DIV", *("rgba(0, 0, 0, 0)", "none", "16px", "400", "visible", "1", "0px")]
    styles_of = [strings.index(value) for value in map(_plain_style, STYLES)]
    return {
        "strings": strings,
        "documents": [
            {
                "nodes": {
                    "parentIndex": [i - 1 if i % 500 else -1 for i in range(count)],
                    "nodeType": [1] * count,
                    "nodeName": [1] * count,
                    "attributes": [[]] * count,
                },
                "layout": {
                    "nodeIndex": list(range(count)),
                    "styles": [styles_of] * count,
                    "bounds": [[0, 0, 9, 9]] * count,
                    "text": [-1] * count,
                },
            }
        ],
    }


def _plain_style(name: str) -> str:
    known = {
        "background-image": "none",
        "box-shadow": "none",
        "font-size": "16px",
        "font-weight": "400",
        "visibility": "visible",
    }
    return known.get(name, "1" if name == "opacity" else "0px" if name.endswith("width") else "rgba(0, 0, 0, 0)")


def milliseconds(read: Callable[[], object], repeats: int = 3) -> float:
    """Minimal CPU time of a few runs. Errors of row readers are ignored."""
    taken = []
    for _ in range(repeats):
        for cached in (word_vectors._row, stylesheet._words, styles.number, styles.solid_colour):
            cached.cache_clear()
        start = time.process_time()
        with suppress(rows.RowError):
            read()
        taken.append(1000 * (time.process_time() - start))
    return min(taken)


def slowest(read: Callable[[Any], object], inputs: Iterable[tuple[str, tuple[Any, Any, Any]]]) -> dict[str, Any]:
    """The pattern with the slowest longest text, its times, and the pattern with the largest growth."""
    by_pattern = {name: [milliseconds(lambda text=text: read(text)) for text in sizes] for name, sizes in inputs}
    name = max(by_pattern, key=lambda name: by_pattern[name][2])
    growth = {pattern: max(ms[2], 1.0) / max(ms[0], 1.0) for pattern, ms in by_pattern.items()}
    steepest = max(growth, key=lambda pattern: growth[pattern])
    return {
        "pattern": name,
        "ms": [round(ms, 2) for ms in by_pattern[name]],
        "grows": round(growth[name], 2),
        "steepest": {
            "pattern": steepest,
            "ms": [round(ms, 2) for ms in by_pattern[steepest]],
            "grows": round(growth[steepest], 2),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chars", type=int, default=16_384, help="characters of the shortest text")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    lengths = [arguments.chars, 2 * arguments.chars, 4 * arguments.chars]
    files = WebFiles()
    sheet = stylesheet.StyleSheet(files.path(TAILWIND).read_text(encoding="utf-8"))
    files.__dict__["_tailwind"] = sheet
    repeated = [
        (pattern, tuple((pattern * (length // len(pattern) + 1))[:length] for length in lengths)) for pattern in PATTERNS
    ]
    results = {name: slowest(read, repeated) for name, read in text_readers(files, sheet).items()}
    results |= {name: slowest(read, [("boxes", tuple(lengths))]) for name, read in page_readers().items()}
    for name, row in results.items():
        print(
            f"{name:<58}{row['ms'][0]:>9.1f}{row['ms'][1]:>9.1f}{row['ms'][2]:>9.1f}{row['grows']:>7.1f}  {row['pattern'][:20]!r:<24}{row['steepest']['grows']:>6.1f}  {row['steepest']['pattern'][:20]!r}"
        )
    head = {"command": "python benchmarks/hostile_text.py", "chars": lengths, "python": platform.python_version()}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({**head, "functions": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
