"""The report: what it shows, that nothing in a run folder can break out of it, and that it lives with whatever is missing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sweetrl_agent.report import main
from sweetrl_agent.reporting.dialogues import MAX_BYTES, MAX_DIALOGUES, dialogues_data
from sweetrl_agent.reporting.numbers import duration, number, percent, plain, points
from sweetrl_agent.reporting.page import embedded_json, vega
from sweetrl_agent.reporting.run_folder import RunFolder
from sweetrl_agent.reporting.run_report import write_report
from sweetrl_agent.reporting.scores import agent_colours, scores_of

ATTACK = "</script><img src=x onerror=alert(1)>"
FILES = (
    "results.json",
    "config.yaml",
    "versions.json",
    "metrics.jsonl",
    "evaluation.jsonl",
    "turn_advantages.jsonl",
    "pairs_summary.json",
)


def scores(success: float | None, **others: Any) -> dict[str, Any]:
    """Scores of one agent on one split, 5 points to either side."""
    bounds = None if success is None else [success - 0.05, success + 0.05]
    given = {"success": success, "tests_passed": 0.61, "n": 300, "void": 3, "turns": 4.1, "answered": 0.98}
    return {**given, "ci95": {"success": bounds, "tests_passed": [0.57, 0.65]}, **others}


def difference(a: str, b: str, split: str, mean: float, low: float, high: float) -> dict[str, Any]:
    """A paired difference of the scores of two agents."""
    change = {"difference": mean, "ci95": [low, high], "p": 0.001, "p_holm": 0.002}
    scores = {"success": change, "tests_passed": change, "similarity": change}
    return {"split": split, "from": a, "to": b, "n": 300, "tasks": 300, **scores}


def episode(agent: str = "initial", task_id: str = "task-0", split: str = "test", **others: Any) -> dict[str, Any]:
    """One line of evaluation.jsonl."""
    history = [{"role": "user", "content": "Please help."}, {"role": "assistant", "content": "I WANT TO ANSWER:\ndef f(): ..."}]
    given = {"agent": agent, "split": split, "task_id": task_id, "episode": 0, "outcome": "passed", "success": 1}
    return {**given, "tests_passed": 1.0, "turns": 1, "dialogue_history": history, **others}


def advantages(values: list[Any], **of: Any) -> dict[str, Any]:
    """One line of turn_advantages.jsonl."""
    dialogue = episode(**of)
    return {**{name: dialogue[name] for name in ("agent", "split", "task_id", "episode")}, "advantages": values}


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with every file, and an attack in every text that a model or a user may have written."""
    results = {
        "initial": {"test": scores(0.2), "unseen": scores(0.1)},
        "trained": {"test": scores(0.473), "unseen": scores(0.12)},
        "differences": [
            difference("initial", "trained", "test", 0.273, 0.202, 0.344),
            difference("initial", "trained", "unseen", 0.02, -0.051, 0.091),
        ],
        "seconds": {"sft": 200.0, "critic": 100.0},
        "seed": 7,
        "algorithm": "sweet",
    }
    (tmp_path / "results.json").write_text(json.dumps(results))
    (tmp_path / "config.yaml").write_text(f"algorithm: sweet\nnote: '{ATTACK}'\n")
    versions = {"python": "3.11.7", "packages": {"torch": "2.6.0"}, "git_commit": "deb72bb", "machine": f"box {ATTACK}"}
    (tmp_path / "versions.json").write_text(json.dumps(versions))
    metrics = [
        {"stage": "actor", "step": s, "loss": 1 / s, "learning_rate": 1e-5, "rewards/accuracies": 0.5} for s in (1, 2, 3)
    ]
    write_lines(tmp_path / "metrics.jsonl", [*metrics, {"stage": ATTACK, "step": 1, ATTACK: 2.0}])
    attacked = [{"role": "user", "content": ATTACK}, {"role": "assistant", "content": f"```\n{ATTACK}\n```"}]
    attack = episode(task_id=ATTACK, outcome=ATTACK, success=0, dialogue_history=attacked)
    write_lines(tmp_path / "evaluation.jsonl", [episode(), attack, episode("trained"), episode("trained", split="unseen")])
    write_lines(tmp_path / "turn_advantages.jsonl", [advantages([0.25], task_id=ATTACK)])
    (tmp_path / "pairs_summary.json").write_text(json.dumps({"outcome_pairs": 579, ATTACK: 0.5}))
    return tmp_path


class Page(HTMLParser):
    """What a browser would see of a report: elements with attributes, text by section, the embedded data."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.raw = {"script": "", "json": "", "style": ""}
        self._section, self._raw = "", ""
        self.feed(html)

    @classmethod
    def of(cls, folder: Path) -> Page:
        """The report of a run folder, written now."""
        return cls(write_report(folder).read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "section":
            self._section = str(attributes["id"])
        if tag in ("script", "style"):
            self._raw = "json" if attributes.get("type") == "application/json" else tag

    def handle_endtag(self, tag: str) -> None:
        """Leave a script or a style."""
        if tag in ("script", "style"):
            self._raw = ""

    def handle_data(self, data: str) -> None:
        """Collect text."""
        if self._raw:
            self.raw[self._raw] += data
        else:
            self.text[self._section] = f"{self.text.get(self._section, '')} {data}"

    @property
    def data(self) -> Any:
        """The embedded data."""
        return json.loads(self.raw["json"])


def test_shows_the_change_of_success_with_intervals(folder: Path) -> None:
    page = Page.of(folder)
    for expected in ("+27.3", "[+20.2, +34.4]", "+2.0", "[−5.1, +9.1]"):
        assert expected in page.text["headline"]
    for expected in ("20.0%", "47.3%", "[15.0, 25.0]", "[42.3, 52.3]"):
        assert expected in page.text["scores"]
    assert [mean["text"] for mean in page.data["charts"][0]["datasets"]["means"]] == ["20.0%", "47.3%", "10.0%", "12.0%"]


def test_shows_everything_else(folder: Path) -> None:
    page = Page.of(folder)
    assert "sweet" in page.text[""] and "deb72bb" in page.text[""]
    for expected in ("300", "61.0%", "[57.0, 65.0]", "4.10", "98.0%", "unseen"):
        assert expected in page.text["scores"]
    assert "3 min 20 s (67%)" in page.text["seconds"] and "5 min 0 s" in page.text["seconds"]
    assert "1 (50.0%)" in page.text["outcomes"] and "passed" in page.text["outcomes"]
    assert "579" in page.text["pairs"]
    assert "algorithm: sweet" in page.text["setup"] and "2.6.0" in page.text["setup"]
    assert "troubles" not in page.text


def test_other_agents_and_splits_are_shown_in_the_order_of_the_file(tmp_path: Path) -> None:
    results = {"dpo": {"hard": scores(0.3)}, "sweet": {"hard": scores(0.2), "soft": scores(None, n=0)}, "seconds": {"n": 1}}
    results["differences"] = [difference("dpo", "sweet", "hard", -0.1, -0.17, -0.03)]
    (tmp_path / "results.json").write_text(json.dumps(results))
    text = Page.of(tmp_path).text
    assert "dpo → sweet on hard" in text["headline"] and "−10.0 points" in text["headline"]
    assert {agent: [*splits] for agent, splits in scores_of(results).items()} == {"dpo": ["hard"], "sweet": ["hard", "soft"]}
    assert "—" in text["scores"]


def test_a_report_on_pages_begins_with_their_similarity(tmp_path: Path) -> None:
    bounds = {"success": [0.0, 0.04], "similarity": [0.66, 0.70]}
    start = scores(0.01, similarity=0.68, ci95=bounds)
    result = scores(0.03, similarity=0.76, ci95={**bounds, "similarity": [0.74, 0.78]})
    results = {"initial": {"test": start}, "trained": {"test": result}, "metric": "similarity"}
    results["differences"] = [difference("initial", "trained", "test", 0.08, 0.05, 0.11)]
    (tmp_path / "results.json").write_text(json.dumps(results))
    text = Page.of(tmp_path).text
    for expected in ("Similarity", "+8.0", "hidden reference page"):
        assert expected in text["headline"]
    assert "68.0%" in text["scores"] and "[74.0, 78.0]" in text["scores"] and "hidden test" not in text["headline"]


def test_a_single_agent_has_scores_but_no_comparison(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"initial": {"test": scores(0.2)}}))
    text = Page.of(tmp_path).text
    assert "20.0%" in text["scores"] and "→" not in text["headline"] and "paired" not in text["headline"]


def test_nothing_that_was_written_into_the_run_becomes_markup(folder: Path) -> None:
    page = Page.of(folder)
    names = [name for name, _ in page.elements]
    assert names.count("script") == 3 and "img" not in names
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    assert ATTACK in page.text["setup"] and ATTACK in page.text["curves"] and ATTACK in page.text["pairs"]
    assert ATTACK in page.text["outcomes"] and ATTACK in page.text[""]
    shown = page.data["dialogues"][0]
    assert shown["task"] == ATTACK and shown["messages"][0] == ["user", ATTACK] and shown["advantages"] == {"sweet": [0.25]}
    assert "<" not in page.raw["json"]


def test_the_page_loads_nothing(folder: Path) -> None:
    html = write_report(folder).read_text(encoding="utf-8").replace(vega(), "")
    page = Page(html)
    assert not re.search(r"https?://(?!vega.github.io/schema)|url\(|@import|fetch\(|XMLHttpRequest|import\(", html)
    assert not [key for _, attributes in page.elements for key in attributes if key in ("src", "href", "srcset", "action")]
    policy = next(a["content"] for name, a in page.elements if name == "meta" and a.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'; ") and "script-src 'sha256-" in policy
    assert "innerHTML" not in page.raw["script"]


@pytest.mark.parametrize("file_name", FILES)
@pytest.mark.parametrize("content", [None, "", "\n", "{", "[1, 2]", '"text"', '{"a": '])
def test_a_missing_or_broken_file_is_named(folder: Path, file_name: str, content: str | None) -> None:
    (folder / file_name).unlink()
    if content is not None:
        (folder / file_name).write_text(content)
    text = Page.of(folder).text
    if content and content.strip() and file_name == "config.yaml":
        assert content in text["setup"]
    else:
        assert file_name in text["troubles"]


def test_an_empty_folder_has_a_report_and_a_missing_one_has_none(tmp_path: Path) -> None:
    text = Page.of(tmp_path).text
    for identifier in ("headline", "scores", "outcomes", "curves", "dialogues", "seconds", "pairs", "setup"):
        assert "is missing from the run folder." in text[identifier]
    with pytest.raises(ValueError, match="`folder` must be the folder of a run, got '.*nowhere', which is not a folder"):
        write_report(tmp_path / "nowhere")


def test_odd_values_are_survived(tmp_path: Path) -> None:
    odd: list[Any] = [None, True, "text", [], {}, float("nan"), float("inf"), 10**400, -1]
    agents = {f"agent {i}": {"test": {"success": v, "n": v, "turns": v, "ci95": v}, "other": v} for i, v in enumerate(odd)}
    results = {**agents, "seconds": {"critic": 1, **{str(v): v for v in odd}}, "seed": odd, "algorithm": odd}
    (tmp_path / "results.json").write_text(json.dumps(results))
    names = ("agent", "split", "task_id", "episode", "outcome", "success", "tests_passed", "turns", "dialogue_history")
    episodes = [{name: value for name in names} for value in odd]
    histories = [[v] for v in odd] + [[{"role": v, "content": v}] for v in odd] + [[{"role": "user", "content": "\ud800"}]]
    write_lines(tmp_path / "evaluation.jsonl", [*episodes, *(episode(dialogue_history=h) for h in histories), {}])
    write_lines(tmp_path / "turn_advantages.jsonl", [advantages(odd), {"advantages": 3}, {}])
    write_lines(tmp_path / "metrics.jsonl", [{"stage": v, "step": v, "loss": v, "other": 1.0} for v in odd])
    (tmp_path / "versions.json").write_text(json.dumps({"packages": odd, "git_commit": odd}))
    page = Page.of(tmp_path)
    assert [dialogue["messages"] for dialogue in page.data["dialogues"]] == [[["text", "text"]], [["user", "?"]]]
    assert f"evaluation.jsonl: {len(odd) * 3} of {len(odd) * 3 + 2} lines could not be read" in page.text["troubles"]
    for name in ("results.json is not as", "turn_advantages.jsonl: 3 of 3 lines"):
        assert name in page.text["troubles"]


def test_pages_are_shown_turn_by_turn_and_nothing_but_pictures(folder: Path) -> None:
    assert "turn by turn" not in write_report(folder).read_text()
    evil = '"><script>alert(1)</script>'
    row = {"task_id": f"t{evil}", "request": "A page.", "wanted": "QUJD", "agents": {"initial": ["QUJE"], "trained": []}}
    for odd in ("odd", {"agents": 3}, {**row, "agents": {"initial": [evil]}}):
        (folder / "pictures.json").write_text(json.dumps([row, odd]))
        html = write_report(folder).read_text()
        assert "turn by turn" not in html and "pictures.json could not be read" in html and "<script>alert" not in html
    (folder / "pictures.json").write_text(json.dumps([row]))
    html = write_report(folder).read_text()
    assert html.count('src="data:image/jpeg;base64,') == 2 and "QUJE" in html and "no page" in html
    assert "<script>alert" not in html


def test_at_most_120_dialogues_those_with_advantages_first(tmp_path: Path) -> None:
    tasks = [f"task-{i}" for i in range(100)]
    evaluation = [episode(agent, t, split) for agent in ("initial", "trained") for split in ("test", "unseen") for t in tasks]
    write_lines(tmp_path / "evaluation.jsonl", evaluation)
    write_lines(tmp_path / "turn_advantages.jsonl", [advantages([0.1, -0.2], task_id="task-90", split="unseen")])
    page = Page.of(tmp_path)
    shown = [(d["agent"], d["split"], d["task"]) for d in page.data["dialogues"]]
    assert len(shown) == MAX_DIALOGUES == len(set(shown)) and page.data["in_all"] == 400
    assert shown[:2] == [("initial", "unseen", "task-90"), ("trained", "unseen", "task-90")]
    assert shown[2:6] == [(a, s, "task-0") for s in ("test", "unseen") for a in ("initial", "trained")]
    assert page.data["dialogues"][0]["advantages"] == {"sweet": [0.1, -0.2]} and page.data["dialogues"][1]["advantages"] is None
    assert "120 of the 400 dialogues" in page.text["dialogues"] and "280 are left out" in page.text["dialogues"]


def test_the_file_stays_small(tmp_path: Path) -> None:
    history = [{"role": role, "content": "<é&" * 5_000} for role in ("user", "assistant") * 5]
    short = episode("trained")
    write_lines(tmp_path / "evaluation.jsonl", [*(episode(f"a{i}", dialogue_history=history) for i in range(100)), short])
    write_lines(tmp_path / "metrics.jsonl", [{"step": s, **{f"m{i}": s / 7 for i in range(60)}} for s in range(2_000)])
    (tmp_path / "config.yaml").write_text("key: value\n" * 50_000)
    path = write_report(tmp_path)
    shown = Page(path.read_text(encoding="utf-8")).data["dialogues"]
    assert 1_500_000 < path.stat().st_size < 2_000_000 and MAX_BYTES < 1_000_000
    assert "more characters)" in shown[0]["messages"][0][1] and shown[-1]["agent"] == "trained"


def test_half_written_last_line_loses_only_itself(folder: Path) -> None:
    with (folder / "evaluation.jsonl").open("a") as file:
        file.write('{"agent": "initial", "spl')
    assert len(RunFolder.read(folder).evaluation) == 4
    assert "evaluation.jsonl: 1 of 5 lines could not be read and are skipped." in Page.of(folder).text["troubles"]


def test_advantages_meet_their_dialogue_and_no_other(tmp_path: Path) -> None:
    write_lines(tmp_path / "evaluation.jsonl", [episode(episode=0), episode(episode=1), episode("trained", episode=1)])
    write_lines(tmp_path / "turn_advantages.jsonl", [{**advantages([0.5]), "episode": 1}])
    shown = dialogues_data(RunFolder.read(tmp_path))["dialogues"]
    assert [(d["agent"], d["episode"], d["advantages"]) for d in shown] == [
        ("initial", 1, {"sweet": [0.5]}),
        ("trained", 1, None),
        ("initial", 0, None),
    ]


def test_writing_again_gives_the_same_file_and_leaves_nothing_else(folder: Path) -> None:
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    assert {path.name for path in folder.iterdir()} == {*FILES, "report.html"}


def test_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    with pytest.raises(SystemExit, match="2"):
        main([str(folder / "nowhere")])
    assert "`folder` must be a run, a comparison, or a folder with some below it" in capsys.readouterr().err


def test_figures() -> None:
    assert [percent(0.2), percent(None), points(-0.05), points(0.05)] == ["20.0%", "—", "−5.0", "+5.0"]
    assert [plain(300.0), plain(0.123456), plain(-2.5), plain(None)] == ["300", "0.1235", "−2.5", "—"]
    assert [duration(s) for s in (0.04, 41.2, 59.7, 200, 7500)] == ["0.0 s", "41 s", "60 s", "3 min 20 s", "2 h 5 min"]
    assert [number(v) for v in (1, True, "1", float("nan"), 10**400)] == [1.0, None, None, None, None]


def test_embedded_data_is_json_without_markup() -> None:
    assert json.loads(embedded_json({"a": ATTACK})) == {"a": ATTACK} and "<" not in embedded_json(ATTACK)
    with pytest.raises(ValueError, match="Out of range float values"):
        embedded_json(float("nan"))


def test_every_agent_has_its_colour() -> None:
    assert agent_colours(["initial", "trained", "initial"]) == {"initial": "colour-0", "trained": "colour-1"}
