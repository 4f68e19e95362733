"""Generated inputs for what reads an agent's text, its page, rows of a file and a run's own files: no exception but the documented one."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colbench_gym.errors import ColBenchError, TaskError
from colbench_gym.files import iter_rows, read_object
from colbench_gym.scoring.answer import extract_program, extract_program_released, parse_message
from colbench_gym.scoring.pages import apply_edits, current_page, extract_page
from colbench_gym.scoring.texts import likeness_table, text_likeness
from colbench_gym.simulators.pages.colours import colour_name
from colbench_gym.simulators.understanding.questions import questions
from colbench_gym.tasks.rows import (
    RowError,
    answer_from_row,
    page_from_row,
    read_rows,
    read_tasks,
    row_from_task,
    task_from_row,
)
from sandboxes.pages import Box
from sandboxes.pages.boxes import STYLES, visible_boxes
from sandboxes.pages.placeholders import MAX_SIDE, draw, picture_at
from sandboxes.pages.styles import number, solid_colour
from sandboxes.pages.web_files import TAILWIND, WebFiles
from sweetrl_agent.core.episode import Episode, Turn

fuzz = settings(derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CHARS = st.characters(categories=None)  # lone surrogates too


def written_with(*parts: str) -> st.SearchStrategy[str]:
    """Texts of these parts, in any order, and of any characters between them."""
    return st.lists(st.one_of(st.sampled_from(parts), st.text(CHARS, max_size=8)), max_size=20).map("".join)


ANSWERS = written_with(
    "I WANT TO ANSWER:", "OUTPUT:", "```", "```python\n", "```\n", "def f(a):\n", "    return a\n", "import os\n", "class A:\n", "f = 1\n", "async ",
    "(", "'''", "@", "\\", "\n", "\t", "\0", "f'{", "-" * 300, "9" * 5000, "elif", ":", "#", "# -*- coding: x -*-\n", "\x0c", "\ufeff",
)  # fmt: skip
EDITS = written_with(
    "<<<<<<< SEARCH\n", "\n=======\n", "=======\n", "\n", ">>>>>>> REPLACE", "<p>", "</p>", "<", "```\n", "```", "a"
)
PAGES = written_with(
    "<link ", 'rel="stylesheet" ', "stylesheet", "href=", "href = '", '"', "'", ">", "<", "https://x.org/tailwindcss@2/tailwind.css", "//[", "http://[::1",
    "https://picsum.photos/", "3", "/", "٣", "²", "x", "9" * 500, "℀", "\0", "\ud800", "<p>", "class=a", "file:///etc/passwd", "://", "@", ":9", "?", "#",
)  # fmt: skip
VALUES = written_with(
    "rgb(", "rgba(", "lab(", "lch(", "oklab(", "oklch(", "color(", "srgb ", "display-p3 ", "xyz-d50 ", "rec2020 ", "prophoto-rgb ", "a98-rgb ", "1", "0.5", " ",
    ", ", " / ", "none", "calc(infinity)", "calc(-infinity * 1px)", "calc(NaN)", "%", "px", ")", "(", "-", "e", "1e999", ".", "1e-400", "3.35544e+07px", "٣",
)  # fmt: skip
COLOURS = st.tuples(
    st.sampled_from(["rgb({} {} {})", "color(display-p3 {} {} {} / 0.7)", "oklch({} {} {})", "lab({} {} {})", "color(prophoto-rgb {} {} {})", "lch({} {} {})"]),
    *[st.one_of(st.floats(), st.sampled_from(["none", "calc(infinity)", "-calc(infinity)", "1e30"]))] * 3,
).map(lambda parts: parts[0].format(*parts[1:]))  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(CHARS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARS, max_size=5), inner, max_size=3),
    max_leaves=8,
)
SOURCES = st.one_of(
    JSON, written_with("def f(a):\n", "    return a\n", "=", "-" * 250, "lambda: ", "(", ")", "\n", "<p>", "\0")
)
ROWS = st.dictionaries(
    st.sampled_from(["problem_description", "ground_truth", "hidden_information", "test_cases", "answer", "task", "x"]), SOURCES, max_size=6
)  # fmt: skip
NEARLY_ROWS = st.fixed_dictionaries(
    {"problem_description": st.one_of(st.just("A page. The signature of the function is: def f(a)"), SOURCES)},
    optional={
        "ground_truth": st.one_of(st.just("def f(a=1):\n    return a"), SOURCES),
        "hidden_information": SOURCES,
        "test_cases": st.one_of(JSON, st.dictionaries(st.text(CHARS, max_size=5), st.one_of(st.just("f(1)"), SOURCES), max_size=3)),
        "answer": SOURCES,
    },
)  # fmt: skip


#: The form of an edit as one pattern, which takes cubic time.
SLOW_EDITS = re.compile(r"<{7} SEARCH\n(.*?)\n={7}\n(.*?)\n?>{7} REPLACE", re.DOTALL)


@pytest.fixture
def files(tmp_path):
    (tmp_path / TAILWIND.name).write_text(".a{top:0}.b{top:1px}")
    return WebFiles(tmp_path)


@fuzz
@given(ANSWERS)
def test_answers(text):
    message = parse_message(text)
    assert message.utterance in text and (message.answer is None or message.answer in message.utterance)
    assert isinstance(extract_program(text), str) and isinstance(extract_program(text, "f"), str)
    assert extract_program_released(text) in text
    assert all(questions(text))


@fuzz
@given(EDITS, EDITS)
def test_edits(page, text):
    edits = SLOW_EDITS.findall(text)
    expected = page
    for old, new in edits:
        expected = expected.replace(old, new, 1) if old else expected
    assert apply_edits(page, text) == (expected if edits else None)
    assert re.sub("\r\n?", "\n", extract_page(text)) in re.sub("\r\n?", "\n", text)
    assert current_page([page, text]) in (extract_page(page), extract_page(text))


@fuzz
@given(PAGES)
def test_pages_and_the_addresses_in_them(files, text):
    inlined = files.inlined(text)
    assert len(inlined.encode()) >= len(inlined)
    assert "<style>" in inlined or "<style>" in text or len(inlined) == len(text)
    file = files.answer(text)
    assert file is None or file.content_type in ("text/css; charset=utf-8", "image/svg+xml")
    for address in (
        text,
        *(f"https://{host}/{text}" for host in ("picsum.photos", "placehold.co", "ui-avatars.com/api", "x.org")),
    ):
        picture = picture_at(address, is_picture=True)
        assert picture is None or all(1 <= side <= MAX_SIDE for side in picture.size)
        if picture is not None:
            ElementTree.fromstring(draw(picture, address).encode("utf-8", "replace"))


@fuzz
@given(st.one_of(VALUES, COLOURS, st.text(CHARS)))
def test_styles_and_colours(text):
    assert math.isfinite(number(text)) and math.isfinite(number(text, 16.0))
    colour = solid_colour(text)
    assert colour is None or (all(0 <= part <= 255 for part in colour) and colour_name(colour))


@fuzz
@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_every_colour_has_a_name(colour):
    assert colour_name(colour).isascii()


@fuzz
@given(
    st.lists(st.one_of(VALUES, st.sampled_from(["visible", "1", "16px", "none", "rgb(1, 2, 3)"])), min_size=len(STYLES), max_size=len(STYLES)),
    st.text(CHARS), st.lists(st.floats(-1e7, 1e7), min_size=4, max_size=4),
)  # fmt: skip
def test_laid_out_nodes(values, text, bounds):
    values[STYLES.index("visibility")], values[STYLES.index("opacity")] = "visible", values[STYLES.index("opacity")] or "1"
    places = range(3, 3 + len(STYLES))
    snapshot = {
        "strings": ["DIV", "#text", text, *values],
        "documents": [
            {
                "nodes": {"parentIndex": [-1, 0], "nodeType": [1, 3], "nodeName": [0, 1], "attributes": [[], []]},
                "layout": {"nodeIndex": [0, 1], "styles": [[*places]] * 2, "bounds": [bounds] * 2, "text": [-1, 2]},
            }
        ],
    }
    for box in visible_boxes(snapshot, 1280, 720)[0]:
        assert isinstance(box, Box) and math.isfinite(box.font_size) and len(box.text.encode()) >= len(box.text)
        assert 0 <= box.x <= 1280 and 0 <= box.y <= 720 and box.width > 0 and box.height > 0


@fuzz
@given(st.lists(st.text(CHARS, max_size=12), max_size=6), st.lists(st.text("ab AB", max_size=6), max_size=6))
def test_the_table_of_likenesses_is_that_of_the_pairs(texts, wanted):
    texts = [*texts, *wanted[:2]]
    table = likeness_table(texts, wanted)
    assert table.tolist() == [[text_likeness(a, b) for b in wanted] for a in texts]


@fuzz
@given(st.one_of(ROWS, NEARLY_ROWS))
def test_rows(row):
    for read in (task_from_row, page_from_row):
        try:
            task = read(row, Path("f"), 1)
        except RowError as error:
            assert "\n" not in str(error) and error.line == 1
        else:
            assert task.description.encode() and json.dumps(row_from_task(task))
    try:
        assert isinstance(answer_from_row(row, Path("f"), 1), str | None)
    except RowError as error:
        assert error.field in ("answer", "ground_truth", "task")


@fuzz
@given(st.lists(st.one_of(st.binary(max_size=30), JSON.map(lambda value: json.dumps(value).encode()), NEARLY_ROWS.map(lambda row: json.dumps(row).encode())), max_size=4))  # fmt: skip
def test_files_of_rows(tmp_path, lines):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines))
    try:
        assert all(isinstance(row, dict) for _, row in read_rows(path, "skip", []))
    except TaskError as error:  # a file of another format
        assert not isinstance(error, RowError) and "\n" not in str(error)
    try:
        assert read_tasks(path)
    except TaskError as error:
        assert str(error)


def spoilt(value: object) -> st.SearchStrategy[object]:
    """A JSON value with any part of it, or none, replaced by another value or left out."""
    if isinstance(value, dict):
        parts = st.fixed_dictionaries({}, optional={name: spoilt(part) for name, part in value.items()})
    elif isinstance(value, list):
        parts = st.tuples(*map(spoilt, value)).map(list)
    else:
        parts = st.just(value)
    return st.one_of(st.just(value), parts, JSON)


TRAJECTORY = Episode(
    "t", 0, [{"role": "user", "content": "A sum."}, {"role": "assistant", "content": "Of what?"}], [Turn("Of what?", [1, 2], [-0.5, -1.0])],
    {"outcome": "passed", "success": True, "tests_passed": 1.0}, 1.0, {"ground_truth": "def f(a):\n    return a"},
)  # fmt: skip


@fuzz
@given(st.one_of(spoilt(TRAJECTORY.to_row()), JSON.map(lambda value: {"schema": 1, "turns": value})))
def test_trajectories(row):
    if not isinstance(row, dict):
        return
    try:
        episode = Episode.from_row(row)
    except ColBenchError as error:
        assert "collect it again" in str(error)
    else:
        again = episode.to_row()
        assert Episode.from_row(again).to_row() == again or "NaN" in json.dumps(again)
        assert not episode.is_void or again["metrics"]["outcome"] == "void"


@fuzz
@given(
    st.lists(
        st.one_of(st.binary(max_size=30), spoilt(TRAJECTORY.to_row()).map(lambda row: json.dumps(row).encode())), max_size=4
    )
)
def test_files_of_a_run(tmp_path, lines):
    path = tmp_path / "trajectories.jsonl"
    path.write_bytes(b"\n".join(lines))
    try:
        assert all("task_id" in row for row in iter_rows(path, ("task_id",)))
    except ColBenchError as error:
        assert ", line " in str(error) and "restore or remove the file" in str(error)
    try:
        read_object(path)
    except ColBenchError as error:
        assert "expected a JSON object" in str(error)
