"""The pages of the documentation: links, navigation, README's length, generated tables, and no text that waits to be written."""

from __future__ import annotations

import re

import pytest
import yaml

from docs.tools import entries, generate, hooks
from tests.docs.blocks import PAGES, ROOT

MOST_WORDS = 700
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCED = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def prose(page):
    """A page without code and comments, with the files that it includes."""
    text = page.read_text(encoding="utf-8")
    if page.is_relative_to(ROOT / "docs"):
        name = page.relative_to(ROOT / "docs").as_posix()
        text = re.sub(r"^<!-- include: (\S+) -->$", lambda found: hooks.included(found[1], name), text, flags=re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("[", "").replace("]", ""), _COMMENT.sub("", _FENCED.sub("", text)))


def anchors(page):
    """Anchors of a page's headings, as Markdown makes them."""
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in _HEADING.findall(prose(page))]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def test_readme_can_be_read_in_three_minutes():
    text = _COMMENT.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    words = [word for word in text.split() if re.search(r"\w", word)]
    assert len(words) <= MOST_WORDS, f"README has {len(words)} words; move what exceeds {MOST_WORDS} to docs."


def test_readme_says_what_ci_reads():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    after = text[text.index("<!-- test-command -->") :]
    assert "tox" in after[after.index("```sh") :].split("```")[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page):
    for target in _LINK.findall(prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{page.relative_to(ROOT)}: the link {target!r} leads nowhere."
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.relative_to(ROOT)}: the link {target!r} names no heading of {file.name}."


def test_navigation_has_every_page_once():
    def listed(entry):
        if isinstance(entry, str):
            return [entry]
        return [page for one in (entry if isinstance(entry, list) else entry.values()) for page in listed(one)]

    named = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(named) == sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in PAGES if (ROOT / "docs") in page.parents
    )


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if (ROOT / "docs") in page.parents],
    ids=lambda page: page.relative_to(ROOT / "docs").as_posix(),
)
def test_a_page_starts_with_what_it_is_for(page):
    text = _COMMENT.sub("", page.read_text(encoding="utf-8")).strip()
    assert re.match(r"# \S.*\n+(?!#|\||```)\S", text) or "include:" in page.read_text(encoding="utf-8")


def test_generated_tables_are_those_of_the_code():
    stale = [str(page.relative_to(ROOT)) for page in generate.stale()]
    assert not stale, f"Tables are out of date: run `python -m docs.tools.generate`. {stale}"


def test_nothing_waits_to_be_written():
    waiting = [
        str(page.relative_to(ROOT))
        for page in PAGES
        if re.search(r"@@[A-Z_]+@@|^Placeholder:", page.read_text(encoding="utf-8"), re.M)
    ]
    assert not waiting


def test_rows_of_a_table_have_as_many_cells_as_its_head():
    uneven = []
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text(encoding="utf-8")))
        for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
            counts = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
            uneven += [f"{page.relative_to(ROOT)}: {table.splitlines()[i]}" for i, n in enumerate(counts) if n != counts[0]]
    assert not uneven


def test_a_result_is_a_table_with_n_seeds_and_intervals():
    table = generate.results("compare_standard", "initial", "sweet")
    assert "| SWEET-RL | 31.5% (27.6% to 35.4%) | 16.3% (11.1% to 21.4%) |" in table
    assert "300 tasks a split, 5 seeds; 95% intervals over seeds and tasks." in table
    turned = generate.differences("compare_standard", "test", "sweet-no_hidden", "no_hidden-sweet")
    assert "| +13.5 (7.1 to 19.8) | 5 of 5 |" in turned and "| -13.5 (-19.8 to -7.1) | 0 of 5 |" in turned


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("compare --algorithms initial grpo --env LMRL-Maze-v0 --tasks embedded:train[:9] --test_tasks seeds:0-9", "dry_run"),
        ("compare --algorithms initial mine.parts:Centered", "skip needs the package of mine.parts:Centered"),
        ("compare --algorithms initial --env trips:Trip-v0", "skip needs the package of trips:Trip-v0"),
    ],
)
def test_an_entry_of_somebodys_own_package_is_not_run_here(command, how):
    assert entries.how_tested(command) == how


def test_links_of_an_included_file_hold_on_the_site(tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "ROOT", tmp_path)
    (tmp_path / "FILE.md").write_text(
        "# Title\n\n[a](docs/own/tasks.md#rows) [b](sandboxes/README.md) [c](tests/test_x.py) [d](https://example.org) [`e.py`](e.py)\n"
        "```\n[f](docs/own/tasks.md)\n```\n"
    )
    text = hooks.included("FILE.md", "reference/structure.md")
    assert "# Title" not in text and "[d](https://example.org)" in text and "[f](docs/own/tasks.md)" in text
    assert "[a](../own/tasks.md#rows) [b](../sandboxes.md) c (`tests/test_x.py`)" in text and " `e.py`\n" in text


def test_troubleshooting_quotes_what_we_say():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = [found for part in page.split("| message |")[1:] for found in re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE)]
    sources = [
        path.read_text(encoding="utf-8")
        for package in ("sandboxes", "colbench_gym", "sweetrl_agent")
        for path in (ROOT / package).rglob("*.py")
    ]
    assert len(quoted) > 15
    assert not [message for message in quoted if not any(message in source for source in sources)]


@pytest.mark.parametrize(
    ("html", "is_refused"),
    [
        ('<script src="https://cdn.example/a.js">', True),
        ("<link rel=stylesheet href=//fonts.example/a.css>", True),
        ('<img alt="x" src="http://example.org/a.png">', True),
        ('<a href="https://arxiv.org/abs/2503.15478">', False),
        ('<script src="assets/a.js"></script> https://example.org', False),
    ],
)
def test_a_page_that_loads_from_the_network_is_refused(html, is_refused):
    assert bool(hooks.LOADED.search(html)) == is_refused


def test_what_the_map_of_the_code_names_is_there():
    section = (ROOT / "docs/reference/structure.md").read_text().partition("## Where is ...")[2]
    rows = [line for line in section.splitlines() if ".py`" in line]
    for row in rows:
        for path, names in re.findall(
            r"`((?:sweetrl_agent|colbench_gym|sandboxes)/[\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?", row
        ):
            source = (ROOT / path).read_text()
            missing = [
                name
                for name in re.findall(r"`(\w+)`", names)
                if not re.search(rf"(def|class) {name}\b|^ *{name}\b.*=", source, re.M)
            ]
            assert not missing, (path, missing)
    assert len(rows) == 13
