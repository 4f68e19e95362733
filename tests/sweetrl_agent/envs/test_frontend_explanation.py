"""Kinds of failure of page tasks, and explanations with both pictures and the blocks that differ."""

from __future__ import annotations

import base64
import io

import pytest

from colbench_gym.simulators.pages.scripted_designer import CONTENT
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.task import HiddenTask
from sweetrl_agent.envs.colbench_frontend import FrontendRecord
from sweetrl_agent.envs.frontend_explanation import KINDS, MAX_EPISODES, MAX_HEIGHT, WIDTH, explain, failure

STYLE = '<body style="margin:0"><h1 style="margin:20px">Fresh bread daily</h1>'
WANTED = f'{STYLE}<p style="color:#c00">Open from nine to five</p><svg width="300" height="100"><rect width="300" height="100" fill="red"/></svg></body>'
REPLY = 'It should say "Open from nine to five" where it says "Closed".'
TASK = Task("page/0", "A page of a bakery.", "", hidden=HiddenTask(WANTED, ()))


def row(page, replies=(REPLY,), outcome="rendered", success=0, answered=1):
    """A row of evaluation.jsonl: the page is shown in the first turn and handed in in the last."""
    messages = [{"role": "user", "content": TASK.description}]
    for reply in replies:
        messages += [{"role": "assistant", "content": page}, {"role": "user", "content": reply}]
    messages.append({"role": "assistant", "content": f"I WANT TO ANSWER:\n{page}"})
    turns = len(replies) + 1
    return {"outcome": outcome, "success": success, "answered": answered, "turns": turns, "dialogue_history": messages}


@pytest.mark.parametrize(
    ("of", "kind"),
    [
        ({"success": 1}, "passed"),
        ({"outcome": "void", "success": None, "answered": None}, "void"),
        ({"outcome": "no_page"}, "not_parsed"),
        ({"outcome": "timeout"}, "not_rendered"),
        ({"replies": (REPLY, CONTENT)}, "accepted"),
        ({}, "answered_early"),
        ({"replies": ()}, "answered_early"),
        ({"replies": (REPLY,) * 5}, "unlike"),
        ({"replies": (REPLY,) * 5, "answered": 0}, "unlike"),
    ],
)
def test_the_kind_follows_from_the_row(of, kind):
    assert failure(row("<p>x</p>", **of), 6).kind == kind
    assert kind in {one.name for one in KINDS} and len({one.name for one in KINDS}) == len(KINDS)


def test_the_record_knows_the_limit_of_turns(make_run):
    run = make_run(env="ColBench-Frontend-v0", tasks="embedded:train[:5]", test_tasks="embedded:test[:1]", max_turns=2)
    assert isinstance(run.record, FrontendRecord)
    assert run.record.failure(row("<p>x</p>"), run.test[0], run.config).kind == "unlike"


def _size(picture):
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        return image.size


@pytest.mark.browser
def test_both_pictures_and_what_differs(needs_browser):
    got = f'{STYLE}<p style="color:#00c">Closed</p></body>'
    changed, same, none = explain(
        [(row(got), TASK), (row(WANTED), TASK), (row("no page", outcome="no_page"), TASK)], "embedded", False
    )
    pages = changed["pages"]
    assert _size(pages["wanted"])[0] == _size(pages["got"])[0] == WIDTH and _size(pages["wanted"])[1] <= MAX_HEIGHT
    missing = [block for block in pages["blocks"] if block["what"] == "missing"]
    assert {block["side"] for block in missing} == {"wanted"} and any("image" in block["text"] for block in missing)
    picture = next(block for block in missing if block["text"].startswith("image"))
    assert picture["box"][2:] == pytest.approx([300 * WIDTH / 1280, 100 * WIDTH / 1280], abs=1)
    assert any(
        block["what"] == "not wanted" and "Closed" in block["text"] and block["side"] == "got" for block in pages["blocks"]
    )
    said = {one["sentence"]: one["turns"] for one in pages["differences"]}
    assert said and all(turns in ([], [1]) for turns in said.values()) and any("nine to five" in sentence for sentence in said)
    assert set(pages["score"]) == {"matched", "text", "place", "colour", "ground"}
    assert same["pages"]["blocks"] == same["pages"]["differences"] == [] and same["pages"]["score"]["matched"] == 1
    assert none["pages"]["wanted"] and {block["side"] for block in none["pages"]["blocks"]} == {"wanted"}


@pytest.mark.browser
def test_colours_and_places_are_told_apart(needs_browser):
    got = WANTED.replace("#c00", "#00c").replace("margin:20px", "margin:20px 0 0 500px")
    (found,) = explain([(row(got), TASK)], "embedded", False)
    what = {block["what"] for block in found["pages"]["blocks"]}
    assert "other colour of text" in what and "moved" in what


@pytest.mark.browser
def test_only_some_episodes_have_pictures(needs_browser):
    task = load_tasks("embedded:test[:1]", "raise", "page")[0]
    found = explain([(row(task.hidden.reference, replies=()), task)] * (MAX_EPISODES + 1), "embedded", False)
    assert [bool(one) for one in found] == [True] * MAX_EPISODES + [False]
