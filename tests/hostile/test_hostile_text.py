"""Texts that took cubic or quadratic time: each is read to its end, within stated limits.

None of these tests looks at a clock. Where a test has nothing to count, its text is so long that a quadratic reader would run for hours.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colbench_gym.scoring import answer
from colbench_gym.scoring.answer import MAX_PARSED_CHARS, MAX_PART_CHARS, MAX_PARTS, extract_program
from colbench_gym.scoring.blocks import compare
from colbench_gym.scoring.pages import apply_edits, current_page, extract_page
from colbench_gym.simulators.pages.differences import differences
from colbench_gym.tasks.rows import RowError, page_from_row, read_rows, task_from_row
from sandboxes.pages import Box, PageOutcome, Rendering
from sandboxes.pages.boxes import STYLES, visible_boxes
from sandboxes.pages.page import MAX_CHARS
from sandboxes.pages.web_files import TAILWIND, WebFiles

LINK = '<link rel="stylesheet" href="https://x.org/tailwindcss@2/tailwind.css">'
EDIT = "<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE\n"
ROW = {"problem_description": "Add.", "ground_truth": "def f(a):\n    return a", "test_cases": {"test1": "f(1)"}}


@pytest.fixture
def files(tmp_path):
    (tmp_path / TAILWIND.name).write_text(".a{top:0}" + ".b{top:0}" * 1000)
    return WebFiles(tmp_path)


@pytest.mark.parametrize(
    "part", ["<<<<<<< SEARCH\n", "<<<<<<< SEARCH\n\n=======\n", "\n=======\n", "<<<<<<< SEARCH\n\n=======\n\n"]
)
def test_edits_without_an_end_are_no_edits(part):
    assert apply_edits("<p>", part * 100_000) is None
    assert current_page(["<p>x</p>", part * 100_000], has_edits=True) == "<p>x</p>"


def test_fences_without_a_page_hold_no_page():
    assert extract_page("```\n" * 300_000) == "" and extract_page("```" * 300_000) == ""


def test_the_first_hundred_edits_of_an_utterance_count():
    assert apply_edits("<p></p>", EDIT.format("</p>", "x</p>") * 101) == f"<p>{'x' * 100}</p>"


def test_a_page_that_edits_have_made_too_large_is_edited_no_further():
    half = "x" * (MAX_CHARS // 2)
    page = apply_edits("<p>", EDIT.format("<p>", f"<p>{half}") * 10)
    assert MAX_CHARS < len(page) < 2 * MAX_CHARS
    assert apply_edits(page, EDIT.format("<p>", "<i>")) == page
    assert current_page([page, EDIT.format("<p>", "<i>"), "<p>new</p>"], has_edits=True) == "<p>new</p>"


@pytest.mark.parametrize(
    "part", ["@a\n", "def f(a): return a\nso it is\n", "import a\nb c\n", "def f(:\n", "class A:\n x\ny z\n"]
)
@pytest.mark.parametrize(("fence", "times"), [("{}", 1), ("```\n{}\n```\n", 30)])
def test_code_is_told_from_prose_within_a_budget(monkeypatch, part, fence, times):
    parsed = []
    parse = answer.parse_source
    monkeypatch.setattr(answer, "parse_source", lambda text: parsed.append(len(text)) or parse(text))
    for chars in (MAX_PART_CHARS - 1, 4 * MAX_PART_CHARS):
        parsed.clear()
        extract_program(fence.format(part * (chars // len(part))) * times, "f")
        assert len(parsed) <= MAX_PARTS and sum(parsed) <= MAX_PARSED_CHARS + MAX_PART_CHARS


def test_prose_is_cut_off_at_the_line_that_is_no_code(monkeypatch):
    parsed = []
    parse = answer.parse_source
    monkeypatch.setattr(answer, "parse_source", lambda text: parsed.append(text) or parse(text))
    code = "def f(a):\n    return a"
    assert extract_program(f"{code}\n" + "and so on it goes\n" * 200) == code and len(parsed) == 3


def _page(kind, count, text, seed):
    boxes = [
        Box(kind, "div", 0, i, 100, 20, f"{seed * i} {text}", background=(i % 256, seed, 0), parent=i - 1) for i in range(count)
    ]
    return Rendering(PageOutcome.OK, b"", 1280, 4000, 4000, tuple(boxes))


@pytest.mark.parametrize("kind", ["text", "control", "block", "image"])
def test_two_thousand_boxes_of_five_hundred_characters_are_compared(kind):
    text = "".join(chr(32 + i * i % 90) for i in range(500))
    page, reference = _page(kind, 2_000, text, 7), _page(kind, 2_000, text, 13)
    comparison = compare(page, reference)
    assert len(comparison.pairs) <= 300 and len(comparison.extra) == 2_000 - len(comparison.pairs)


@pytest.mark.parametrize("kind", ["text", "control", "block", "image"])
def test_what_differs_between_two_thousand_nested_boxes_is_said(kind):
    page, reference = _page(kind, 2_000, "abc", 7), _page(kind, 2_000, "xyz", 13)
    assert len(differences(page, reference)) < 5_000


def test_boxes_that_lie_in_each_other_in_a_circle_end_no_dialogue():
    boxes = (Box("block", "div", 0, 0, 9, 9, background=(1, 2, 3), parent=1), Box("text", "p", 0, 0, 9, 9, "x", parent=0))
    page = Rendering(PageOutcome.OK, b"", 1280, 720, 720, boxes)
    assert differences(page, Rendering(PageOutcome.OK, b"", 1280, 720, 720))


@pytest.mark.parametrize(
    "part", ["<link stylesheet ", "<link ", "<link stylesheet stylesheet ", '<link stylesheet href="', "href = "]
)
def test_links_without_an_end_are_left_as_they_are(files, part):
    html = part * 50_000
    assert files.inlined(html) == html


def test_a_sheet_is_written_into_a_page_a_few_times_at_most(files):
    html = LINK * 10_000 + '<p class="b">'
    sheet = len(files.answer("https://x.org/tailwindcss@2/tailwind.css", html).body)
    assert sheet > 5_000 and len(files.inlined(html)) < len(html) + 5 * sheet
    assert files.inlined(html).endswith(LINK + '<p class="b">')


@pytest.mark.parametrize("path", ["1" * 300_000, "/1" * 300_000, "1x" * 300_000])
def test_a_long_address_asks_for_no_photo(files, path):
    assert files.answer(f"https://picsum.photos/{path}") is None


class _CountedParents(list):
    reads = 0

    def __getitem__(self, place):
        _CountedParents.reads += 1
        return super().__getitem__(place)


def test_parents_are_looked_up_for_boxes_alone():
    """A chain of 500 elements, none of which is drawn, 80 times: it was walked to its root for every element."""
    count = 40_000
    style = {"background-image": 1, "box-shadow": 1, "visibility": 3, "opacity": 4}
    snapshot = {
        "strings": ["DIV", "none", "0px", "visible", "1"],
        "documents": [
            {
                "nodes": {
                    "parentIndex": _CountedParents(i - 1 if i % 500 else -1 for i in range(count)),
                    "nodeType": [1] * count,
                    "nodeName": [0] * count,
                },
                "layout": {
                    "nodeIndex": list(range(count)),
                    "styles": [[style.get(name, 2) for name in STYLES]] * count,
                    "bounds": [[0, 0, 9, 9]] * count,
                },
            }
        ],
    }
    _CountedParents.reads = 0
    assert visible_boxes(snapshot, 1280, 720)[0] == ()
    assert _CountedParents.reads <= 2 * count


LONG = "x" * 50_001


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("problem_description", LONG, "at most 50000 characters"),
        ("problem_description", "a \ud800", "text without half surrogate pairs"),
        ("ground_truth", f"def f(a):\n    return {LONG}", "at most 50000 characters"),
        ("ground_truth", "def f(a=" + "-" * 250 + "1): return a", "Python source nested at most 200 deep"),
        ("ground_truth", "def f(a=" + "-" * 2500 + "1): return a", "Python source nested at most 200 deep"),
        ("hidden_information", LONG, "at most 50000 characters"),
        ("test_cases", {"test1": f"f({LONG})"}, "at most 50000 characters"),
        ("test_cases", {"test1": "f(" + "-" * 250 + "1)"}, "Python source nested at most 200 deep"),
        ("test_cases", {str(i): "f(1)" for i in range(1001)}, "at most 1000 calls, got '1001 calls'"),
    ],
)  # fmt: skip
def test_a_row_past_a_limit_is_malformed(field, value, expected):
    with pytest.raises(RowError, match=expected):
        task_from_row({**ROW, field: value}, Path("f"), 1)


def test_a_page_row_past_a_limit_is_malformed():
    row = {"problem_description": "A page.", "ground_truth": "<p>" + "x" * MAX_CHARS}
    with pytest.raises(RowError, match="at most 1000000 characters"):
        page_from_row(row, Path("f"), 1)


def test_a_long_line_and_a_deep_one_are_skipped(tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [b"{}", b'{"a": "' + b"x" * 2**24 + b'"}', b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", b"[" * 100_000, b'{"b": 1}']
    path.write_bytes(b"\n".join(lines))
    skipped = []
    assert list(read_rows(path, "skip", skipped)) == [(1, {}), (5, {"b": 1})]
    assert [error.line for error in skipped] == [2, 3, 4] and "at most 16777216 bytes" in str(skipped[0])
    assert "JSON nested at most 200 deep" in str(skipped[1])


def test_the_signature_in_a_description_of_blanks_is_found():
    description = "The signature of the function is: def f(a)" + " " * 49_000 + "x:\n"
    assert task_from_row({**ROW, "problem_description": description}, Path("f"), 1).signature.endswith(" x")


def test_the_name_of_a_test_prints_no_lines_of_its_own():
    with pytest.raises(RowError) as caught:
        task_from_row(json.loads(json.dumps({**ROW, "test_cases": {"a\n\x1b[2Jall passed": 1}})), Path("f"), 1)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)
