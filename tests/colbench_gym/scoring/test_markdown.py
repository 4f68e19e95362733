"""Code blocks of Markdown, and the bounds of reading them."""

from __future__ import annotations

import pytest

from colbench_gym.scoring import markdown
from colbench_gym.scoring.markdown import MAX_LINES, code_blocks, lengthened, unindented_fences, without_comments


def _shown(text):
    return [(block.kind, block.language, block.text, block.start, block.end) for block in code_blocks(text)]


def test_blocks_have_their_kind_language_text_and_lines():
    text = "a\n```Python title=1\nx\n```\n\n    y\n\n<pre><code>a &lt; b</code></pre>\n<!-- ```\nz\n``` -->\n> ~~~{.py}\n> w"
    assert _shown(text) == [
        ("fence", "python", "x\n", 1, 4),
        ("indented", "", "y\n", 5, 6),
        ("pre", "", "a < b", 7, 8),
        ("comment", "", "", 8, 11),
        ("fence", "py", "w", 11, 13),
    ]


def test_a_fence_ends_at_a_later_line():
    text = "> ```\n> a\n> ```\n> b\n> ```\nc"
    (first, *_) = code_blocks(text)
    assert [(one.text, one.end) for one in lengthened(text, first, 5)] == [("a\n```\nb\n", 5)]
    assert list(lengthened(text, first, 0)) == []


def test_deep_fences_move_to_the_margin_and_comments_go():
    assert unindented_fences("Here:\n\t```py\n\tx\n\t    y\n\t```\nz") == "Here:\n```py\nx\n    y\n```\nz"
    assert without_comments("a\n<!--\nb\n-->\nc") == "a\n\n\n\nc"


def test_a_quote_ends_with_its_marks():
    assert [block.text for block in code_blocks("> ```\n> a\nb\n> ```\n> c\n> ```")] == ["a\n", "c\n"]


def test_what_is_behind_the_limits_is_no_block():
    assert len(code_blocks("a\n" * (MAX_LINES - 3) + "```\nx\n```")) == 1
    assert code_blocks("a\n" * MAX_LINES + "```\nx\n```") == []
    assert len(code_blocks("> " * 9 + "```")) == 1 and code_blocks("> " * 30 + "```") == []


@pytest.mark.parametrize(
    "pattern",
    [
        "> ",
        "> ```\na\n",
        "> # h\na\n",
        "- ",
        "- a\n",
        "1. ```\n",
        "```\n",
        "a\n===\n",
        "<pre>",
        "<!--\n",
        "`",
        "    a\n\n",
        ">>> ```\n[a]: ```py\n",
    ],
)
def test_no_line_is_looked_at_more_than_a_few_times(monkeypatch, pattern):
    counts, build = [], markdown._parser.__wrapped__
    for lines in (500, 2_000):
        looks = [0]
        parser = build()
        for name, rule in [(rule.name, rule.fn) for rule in parser.block.ruler.__rules__]:

            def counted(*arguments, rule=rule, looks=looks):
                looks[0] += 1
                return rule(*arguments)

            parser.block.ruler.at(
                name, counted, {"alt": [one for one in ("paragraph", "blockquote", "list") if name in _ALT[one]]}
            )
        monkeypatch.setattr(markdown, "_parser", lambda parser=parser: parser)
        code_blocks(pattern * lines)
        counts.append(looks[0])
    assert counts[1] <= 5 * counts[0] + 1_000


_ALT = {
    "paragraph": {"fence", "blockquote", "hr", "list", "heading", "html"},
    "blockquote": {"fence", "blockquote", "hr", "list", "heading", "html", "end of quote"},
    "list": {"fence", "blockquote", "hr"},
}
