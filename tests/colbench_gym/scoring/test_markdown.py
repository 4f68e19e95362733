"""Code blocks of Markdown, and the bounds of reading them."""

from __future__ import annotations

import pytest

from colbench_gym.scoring import markdown
from colbench_gym.scoring.markdown import MAX_LINES, code_blocks, lengthened, unindented_code, unindented_fences, without_hidden


def _shown(text):
    return [(block.kind, block.language, block.text, block.start, block.end) for block in code_blocks(text)]


def test_blocks_have_their_kind_language_text_and_lines():
    text = "a\n```Python title=1\nx\n```\n\n    y\n\n<pre><code>a &lt; b</code></pre>\n<!-- ```\nz\n``` -->\n> ~~~{.py}\n> w"
    assert _shown(text) == [
        ("fence", "python", "x\n", 1, 4),
        ("indented", "", "y\n", 5, 6),
        ("pre", "", "a < b", 7, 8),
        ("hidden", "", "", 8, 11),
        ("fence", "py", "w", 11, 13),
    ]


def test_a_fence_ends_at_a_later_line():
    text = "> ```\n> a\n> ```\n> b\n> ```\nc"
    (first, *_) = code_blocks(text)
    assert [(one.text, one.end) for one in lengthened(text, first, 5)] == [("a\n```\nb\n", 5)]
    assert list(lengthened(text, first, 0)) == []


def test_deep_fences_move_to_the_margin_and_comments_go():
    assert unindented_fences("Here:\n\t```py\n\tx\n\t    y\n\t```\nz") == "Here:\n```py\nx\n    y\n```\nz"
    assert without_hidden("a\n<!--\nb\n-->\nc") == "a\n\n\n\nc"


@pytest.mark.parametrize(
    "hidden",
    [
        "<!--\n{}\n-->",
        "a <b>b</b> <!-- c\n{}\n-->",
        "<script type='x'>\n{}\n</script>",
        "<div><style>\n{}\n</style>",
        "<TEMPLATE>\n{}\n</template>",
    ],
)
def test_what_a_browser_does_not_show_is_no_block(hidden):
    for code in ("x = 1", "```\nx = 1\n```", "<pre>\nx = 1\n</pre>"):
        for text in (hidden.format(code), f"- a\n- b\n\n{hidden.format(code)}"):
            assert [block.kind for block in code_blocks(text)] == ["hidden"]
    assert [block.text for block in code_blocks("<pre>\na\n<!--\nb\n-->\n<script>c</script>d</pre>")] == ["\na\n\nd"]


@pytest.mark.parametrize("words", ["<style> goes first", "a <!-- b", "x = '<!--", "`<!--", "<!-- a --> b", "a <!-- b --> c"])
def test_words_about_tags_hide_no_block(words):
    assert [block.kind for block in code_blocks(f"{words}\n\n```\nx\n```\n")][-1] == "fence"


def test_indented_code_moves_to_the_margin_below_prose_alone():
    assert unindented_code("Here:\n  def f(x):\n    return x\n\n  a\nb", "f") == "Here:\ndef f(x):\n  return x\n\na\nb"
    for code in ("class A:\n    def f(self):\n        pass", "@a\n  def f(x): pass", "if x:\n  import y"):
        assert unindented_code(code, "f") == code
    assert unindented_code("So: def f(x):\n    return x", "f") == "def f(x):\n    return x"


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
        "a <!--\n",
        "<script>\n",
        "<style></style>\n",
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
