"""The dialogue viewer in a real browser, the one that pages are rendered with: filters, explanations, keys, narrow and dark windows."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sweetrl_agent.reporting.run_report import write_report

pytestmark = pytest.mark.browser
ATTACK = "</script><img src=x onerror=alert(1)>"
ADDRESS = ("agent", "split", "task_id", "episode")
KINDS = {"passed": "success", "never_asked": "never asked about a wish", "answered_early": "answered early", "void": "void"}


def _episode(i: int, kind: str, **others: Any) -> dict[str, Any]:
    history = [
        {"role": "user", "content": f"Please help. {ATTACK}"},
        {"role": "assistant", "content": "Is there a tax?"},
        {"role": "user", "content": "Add a tax of 10%."},
        {"role": "assistant", "content": "I WANT TO ANSWER:\ndef f(x): ..."},
    ]
    success = {"passed": 1, "void": None}.get(kind, 0)
    given = {"agent": "trained", "split": "test", "task_id": f"task-{i}", "episode": 0, "outcome": "wrong", "success": success}
    return {**given, "tests_passed": 0.5, "turns": 2, "dialogue_history": history, "kind": kind, **others}


def _explanation(row: dict[str, Any]) -> dict[str, Any]:
    test = {
        "call": "f(" + "1, " * 400 + ")",
        "expected": "1",
        "got": ATTACK,
        "outcome": "wrong",
        "meaning": "m",
        "seconds": 0.001,
        "wishes": ["tax"],
    }
    return {
        **{name: row[name] for name in ADDRESS},
        "wishes": [
            {"topic": "tax", "sentence": "Add a tax of 10%.", "is_special": True, "asked": 1, "heard": 1},
            {"topic": "cap", "sentence": f"At most 9. {ATTACK}", "is_special": True, "asked": None, "heard": None},
            {"topic": "order", "sentence": "Keep the order.", "is_special": False, "asked": 1, "heard": None},
        ],
        "tests": [test, {**test, "call": "f(2)", "got": "2", "outcome": "passed"}],
        "notes": ["It ignores the wish on cap."],
        "reference": "def f(x):\n    return min(x * 1.1, 9)",
        "answer": f"def f(x):\n    return x * 1.1  # {ATTACK}",
        "advantages": {"exact": [0.5, -0.5]},
    }  # fmt: skip


def _jpeg() -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (400, 300), "white").save(file, "JPEG")
    return base64.b64encode(file.getvalue()).decode()


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """The report of a run in which episodes failed in several ways."""
    thinking = [{"role": "user", "content": "Please help."}, {"role": "assistant", "content": ""}]
    team = [
        {"role": role, "content": "Hm.", "agent": agent} for agent in ("interviewer", "coder") for role in ("user", "assistant")
    ]
    rows = [
        _episode(0, "never_asked", about=["cap"]),
        _episode(1, "never_asked", about=["cap", "unit"]),
        _episode(2, "answered_early", about=["cap"]),
        _episode(3, "passed"),
        _episode(
            4,
            "void",
            void_reason=f"a thought that does not end {ATTACK}",
            agent_turns=[{"thought": f"Hm. {ATTACK}"}],
            dialogue_history=thinking,
        ),
        _episode(5, "passed", agent_turns=[{}, {"finish_reason": "length"}], dialogue_history=team),
    ]
    pages = {
        "wanted": _jpeg(), "got": _jpeg(), "width": 400, "height": 500, "score": {"text": 0.5},
        "blocks": [{"side": side, "what": "missing", "text": f"text: {ATTACK}", "box": [40, 30, 200, 60]} for side in ("wanted", "got")],
        "differences": [{"sentence": "It should say Hello.", "turns": [1]}, {"sentence": "It should be red.", "turns": []}],
    }  # fmt: skip
    explained = [*map(_explanation, rows[:4])]
    explained[1]["pages"] = pages
    for name, lines in (("evaluation", rows), ("failures", [{**row} for row in rows]), ("explanations", explained)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    advantages = {**{name: rows[0][name] for name in ADDRESS}, "advantages": [0.25, -20.0]}
    (tmp_path / "turn_advantages.jsonl").write_text(json.dumps(advantages) + "\n")
    kinds = [{"name": name, "title": title, "means": f"{title}."} for name, title in KINDS.items()]
    (tmp_path / "results.json").write_text(json.dumps({"failures": {"kinds": kinds, "rows": [], "wishes": []}}))
    return write_report(tmp_path)


@pytest.fixture
def look(report: Path, needs_browser: None) -> Iterator[Callable[..., Any]]:
    """Function: width and colours of a window -> the report in it; fails if a script of the page fails or something is loaded."""
    from playwright.sync_api import sync_playwright

    from sandboxes.pages.chromium import find_chromium

    troubles: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])

        def open_page(width: int = 1200, colours: Any = "light") -> Any:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
            page.on("dialog", lambda dialog: troubles.append(dialog.message))
            page.on("request", lambda request: troubles.append(request.url) if request.url.startswith("http") else None)
            page.goto(report.as_uri())
            return page

        yield open_page
        browser.close()
    assert not troubles


def _count(page: Any) -> str:
    return str(page.locator("#count").inner_text())


def test_the_filter_by_kind_finds_its_dialogues_and_topics(look: Callable[..., Any]) -> None:
    page = look()
    options = page.locator("[name=why] option").all_inner_texts()
    assert [option.strip() for option in options] == [
        "all", "success (2)", "never asked about a wish (2)", "never asked about a wish cap (2)", "never asked about a wish unit (1)",
        "answered early (1)", "answered early cap (1)", "void (1)",
    ]  # fmt: skip
    page.locator("[name=why]").select_option(index=2)
    assert _count(page) == "2 of 6 dialogues match" and page.locator("#list button").count() == 2
    page.locator("[name=why]").select_option(index=4)
    assert _count(page) == "1 of 6 dialogues match" and page.locator("#case h3").inner_text().startswith("task-1 ")
    page.locator("[name=why]").select_option("void")
    assert page.locator("#case .kind").inner_text() == "void" and page.locator("#case .wishes").count() == 0
    page.locator("[name=why]").select_option("")
    page.locator("[name=text]").fill("asked unit")
    assert _count(page) == "1 of 6 dialogues match"


def test_a_void_episode_shows_its_reason_and_a_silent_turn_that_it_is_one(look: Callable[..., Any]) -> None:
    page = look()
    page.locator("[name=why]").select_option("void")
    case = page.locator("#case article")
    assert case.locator(".message").last.inner_text() == f"Void: a thought that does not end {ATTACK}."
    turn = case.locator(".message.agent")
    assert turn.locator(".note").inner_text() == "Nothing was said." and not turn.locator("pre").is_visible()
    turn.get_by_text("Thought").click()
    assert turn.locator("pre").inner_text() == f"Hm. {ATTACK}"


def test_the_turns_of_a_team_have_the_names_of_its_agents(look: Callable[..., Any]) -> None:
    page = look()
    page.locator("[name=text]").fill("to coder")
    assert _count(page) == "1 of 6 dialogues match"
    heads = page.locator("#case article .speaker > span:first-child").all_inner_texts()
    assert heads == ["To interviewer", "interviewer, turn 1", "To coder", "coder, turn 2, cut by the limit of tokens"]


def test_an_episode_shows_why_it_failed(look: Callable[..., Any]) -> None:
    page = look()
    case = page.locator("#case article")
    assert case.locator(".kind").inner_text() == "never asked about a wish: cap"
    wishes = case.locator(".wishes").first.locator("li").all_inner_texts()
    assert wishes[0] == "heard in turn 1 · tax: Add a tax of 10%." and wishes[1] == f"never asked · cap: At most 9. {ATTACK}"
    assert case.locator(".wishes").nth(1).inner_text() == "" and "1 other topic that came up" in case.inner_text()  # folded
    assert case.locator(".chip").all_inner_texts() == ["asks about tax", "asks about order", "states tax"]
    case.get_by_text("Hidden tests: 1 of 2 passed").click()
    cells = case.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert (
        cells[0].endswith("more characters)")
        and cells[2] == ATTACK
        and cells[3].split() == ["wrong", "1", "ms"]
        and cells[4] == "tax"
    )
    case.get_by_text("The answer against the reference").click()
    assert case.locator(".diff .wanted").inner_text() == "-     return min(x * 1.1, 9)"
    assert case.locator(".diff .got").inner_text() == f"+     return x * 1.1  # {ATTACK}"
    bars = case.locator(".advantage").all_inner_texts()
    assert [bar.split() for bar in bars] == [["sweet", "+0.25"], ["exact", "+0.5"], ["sweet", "−20"], ["exact", "−0.5"]]
    widths = [amount.evaluate("bar => bar.style.width") for amount in case.locator(".amount").all()]
    assert widths == ["0.625%", "50%", "50%", "50%"]  # each critic has a scale of its own


def test_a_success_shows_the_reference_alone(look: Callable[..., Any]) -> None:
    page = look()
    page.locator("[name=why]").select_option("passed")
    assert page.get_by_text("The hidden reference").is_visible() and page.locator("#case .diff .got").count() == 0


def test_pages_are_side_by_side_with_the_blocks_that_differ(look: Callable[..., Any]) -> None:
    page = look()
    page.get_by_text("never asked about a wish: cap, unit").first.click()
    images = page.locator("#case img")
    assert images.count() == 2 and images.first.evaluate("image => image.naturalWidth") == 400
    mark, image = page.locator("#case .page i").first.bounding_box(), images.first.bounding_box()
    assert mark["width"] / image["width"] == pytest.approx(0.5, abs=0.02)
    assert (mark["y"] - image["y"]) / image["height"] == pytest.approx(0.1, abs=0.02)
    page.get_by_text("2 blocks that differ").click()
    page.get_by_role("button", name="missing").first.click()
    assert page.locator("#case .page i.current").count() == 1
    assert "It should say Hello. (said after turn 1)" in page.locator("#case").inner_text()


def test_everything_works_by_keys(look: Callable[..., Any]) -> None:
    page = look()
    page.locator("#list button").first.focus()
    page.keyboard.press("ArrowDown")
    assert (
        page.locator("#case h3").inner_text().startswith("task-2 ")
        and page.evaluate("document.activeElement.title") == "task-2"
    )
    turn = page.get_by_role("button", name="turn 1").first
    turn.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.innerText").startswith("Agent, turn 1")
    page.locator("#case summary").filter(has_text="Hidden tests").focus()
    page.keyboard.press("Enter")
    assert page.locator("#case tbody").is_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_narrow_window_scrolls_in_one_direction(look: Callable[..., Any], colours: str) -> None:
    page = look(400, colours)
    page.get_by_text("never asked about a wish: cap, unit").first.click()
    page.evaluate("document.querySelectorAll('#case details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    background, text = page.evaluate(
        "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; })()"
    )
    assert (sum(map(int, background[4:-1].split(","))) > sum(map(int, text[4:-1].split(",")))) == (colours == "light")


def test_nothing_becomes_markup(look: Callable[..., Any]) -> None:
    page = look()
    page.evaluate("document.querySelectorAll('#case details').forEach((one) => { one.open = true; })")
    assert page.locator("#viewer img").count() == 0 and ATTACK in page.locator("#case").inner_text()
