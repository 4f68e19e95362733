"""Pictures of the pages of a few dialogues, turn by turn, for the report."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Sequence

from sandboxes import SandboxError
from sandboxes.browser import Browser, make_browser
from sandboxes.pages import Page, Rendering
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.data.files import Row, read_rows, write_json
from sweetrl_agent.data.run import Run

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
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    pages = [record.current_page(said[:turn]) for turn in range(1, len(said) + 1)]
    return [page for page, before in zip(pages, ["", *pages], strict=False) if page and page != before]


def pictures(browser: Browser, pages: Sequence[str]) -> list[str]:
    """Small pictures of pages, JPEG in base64."""
    return [_small(rendering) for rendering in browser.render([Page(page) for page in pages])]


def _small(rendering: Rendering) -> str:
    from PIL import Image

    with Image.open(io.BytesIO(rendering.picture)) if rendering.picture else Image.new("RGB", (WIDTH, 180), "black") as image:
        height = max(1, round(image.height * WIDTH / image.width))
        small = image.convert("RGB").resize((WIDTH, height)).crop((0, 0, WIDTH, min(height, MAX_HEIGHT)))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=70)
    return base64.b64encode(file.getvalue()).decode()
