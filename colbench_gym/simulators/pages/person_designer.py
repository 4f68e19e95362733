"""A person at this machine plays the human in ColBench-Frontend. A file for their browser shows both pages side by side."""

from __future__ import annotations

import base64
import html
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from colbench_gym.dialogue import Dialogue
from colbench_gym.outside_text import encodable
from colbench_gym.simulators.pages.view import View, look
from colbench_gym.simulators.person import Person
from colbench_gym.tasks.task import Task
from sandboxes.browser import Browser
from sandboxes.pages import Rendering

FILE = "pages.html"


class PersonDesigner(Person):
    """Writes pictures of both pages into a file, and asks the person at the terminal for the reply. Commands as in `Person`.

    Args:
        browser: Renders both pages. The caller has to close it.
        has_edits: Whether the agent may edit its last page.
        folder: Folder of the file; None for a new temporary folder.
        input: Reads one line after a prompt.
        output: Prints one text.
    """

    def __init__(
        self,
        browser: Browser,
        has_edits: bool = False,
        folder: str | Path | None = None,
        input: Callable[[str], str] = input,
        output: Callable[[str], Any] = print,
    ) -> None:
        super().__init__(input, output)
        self.browser, self.has_edits = browser, has_edits
        self.folder = Path(folder or tempfile.mkdtemp(prefix="colbench-pages-"))

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """Show both pages and ask the person; `seed` is ignored.

        Raises:
            SimulatorError: If the pages cannot be rendered, the person quits, or the input ends.
        """
        view = look(self.browser, task, dialogue, self.has_edits)
        path = self.folder / FILE
        path.write_text(encodable(side_by_side(task, view)), encoding="utf-8")
        self._output(f"Look at {path.as_uri()} (load it again after each turn).")
        return super().reply(task, dialogue, seed)


def side_by_side(task: Task, view: View) -> str:
    """An HTML file that shows both pages as pictures only, without any text that the agent wrote."""
    columns = "".join(
        f"<figure><figcaption>{title}</figcaption>{_picture(rendering)}</figure>"
        for title, rendering in (("What you have in mind", view.reference), ("What the agent has made", view.page))
    )
    style = "body{font:1rem sans-serif;margin:1rem}main{display:flex;gap:1rem}figure{flex:1;margin:0}img{width:100%;border:1px solid #888}"
    return (
        f'<!doctype html><meta charset="utf-8"><title>{html.escape(task.id)}</title><style>{style}</style>'
        f"<p>You want: {html.escape(task.description)}</p><main>{columns}</main>"
    )


def _picture(rendering: Rendering) -> str:
    if not rendering.picture:
        return f"<p>It does not come up ({rendering.outcome.value}).</p>"
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(rendering.picture).decode()}">'
