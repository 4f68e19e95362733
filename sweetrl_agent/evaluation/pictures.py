"""Pictures of the pages of a few dialogues, turn by turn, for the report."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from colbench_gym.files import Row, read_rows, write_json
from sandboxes import SandboxError
from sandboxes.browser import Browser, make_browser
from sandboxes.pages import Page, small_jpeg
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.trainers.run import Run

_log = logging.getLogger(__name__)
FILE = "pictures.json"
#: Dialogues per agent, and size of a picture in pixels; taller pictures are cropped.
NUM_TASKS, WIDTH, MAX_HEIGHT = 4, 320, 360


def keep_pictures(run: Run) -> None:
    """Write pictures.json, for the first test tasks that every agent has played; does nothing if pages cannot be rendered."""
    rows = [row for row in read_rows(run.path("evaluation.jsonl")) if row["split"] == "test" and row["episode"] == 0]
    played: dict[str, list[Row]] = {}
    for row in rows:
        played.setdefault(row["task_id"], []).append(row)
    agents = {row["agent"] for row in rows}
    tasks = [task for task in run.test if {row["agent"] for row in played.get(task.id, ())} == agents][:NUM_TASKS]
    try:
        with make_browser(run.config.task.sandbox_spec()) as browser:
            shown = [
                {
                    "task_id": task.id,
                    "request": task.description,
                    "wanted": pictures(browser, [task.hidden.reference])[0],
                    "agents": {
                        row["agent"]: pictures(browser, pages_of(row["dialogue_history"], run.record))
                        for row in played[task.id]
                    },
                }
                for task in tasks
            ]
    except SandboxError as error:
        _log.warning("The report has no pictures: %s", error)
        return
    write_json(run.path(FILE), shown)


def pages_of(messages: Messages, record: EnvironmentRecord) -> list[str]:
    """The agent's page after each of its turns that changed it."""
    texts = [message["content"] for message in messages if message["role"] == "assistant"]
    pages = [record.current_page(texts[:turn]) for turn in range(1, len(texts) + 1)]
    return [page for page, before in zip(pages, ["", *pages], strict=False) if page and page != before]


def pictures(browser: Browser, pages: Sequence[str]) -> list[str]:
    """Small pictures of pages, JPEG in base64."""
    return [
        small_jpeg(rendering, WIDTH, MAX_HEIGHT, quality=70) for rendering in browser.render([Page(page) for page in pages])
    ]
