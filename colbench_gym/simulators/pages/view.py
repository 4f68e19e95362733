"""The view of a simulated human in ColBench-Frontend: the agent's last page and the reference page, both rendered."""

from __future__ import annotations

from dataclasses import dataclass

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.scoring.pages import current_page
from colbench_gym.tasks.task import Task
from sandboxes.browser import Browser
from sandboxes.pages import Page, PageOutcome, Rendering


@dataclass(frozen=True)
class View:
    """The agent's page and the reference page.

    Attributes:
        html: Source of the agent's last page; "" if it has shown none.
        page: The agent's last page, rendered.
        reference: The reference page, rendered.
    """

    html: str
    page: Rendering
    reference: Rendering


def look(browser: Browser, task: Task, dialogue: Dialogue, has_edits: bool) -> View:
    """Render the last page of a dialogue and the reference page.

    Raises:
        SandboxError: If no browser is available.
        SimulatorError: If the reference page cannot be rendered.
    """
    html = current_page((m.content for m in dialogue.messages if m.role == "assistant"), has_edits)
    page, reference = browser.render([Page(html), Page(task.hidden.reference)])
    if reference.outcome is not PageOutcome.OK:
        raise SimulatorError(f"The reference page of {task.id} cannot be rendered: {reference.outcome.value}.")
    return View(html, page, reference)
