"""What a person who wants a page sees: the agent's last page, and the one they have in mind."""

from __future__ import annotations

from dataclasses import dataclass

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.scoring.pages import current_page
from colbench_gym.tasks.task import Task
from sandboxes import SandboxError
from sandboxes.browser import Browser
from sandboxes.pages import Page, PageOutcome, Rendering


@dataclass(frozen=True)
class View:
    """Two pages as a person sees them.

    Attributes:
        html: Source of the agent's last page, "" where it has shown none.
        page: How that looks.
        reference: How the page in mind looks.
    """

    html: str
    page: Rendering
    reference: Rendering


def look(browser: Browser, task: Task, dialogue: Dialogue, has_edits: bool) -> View:
    """Render the last page of a dialogue and the one in mind.

    Raises:
        SimulatorError: If no browser can be had, or the page in mind cannot be rendered.
    """
    html = current_page((m.content for m in dialogue.messages if m.role == "assistant"), has_edits)
    try:
        page, reference = browser.render([Page(html), Page(task.hidden.reference)])
    except SandboxError as error:
        raise SimulatorError(f"The person cannot see the page: {error}") from error
    if reference.outcome is not PageOutcome.OK:
        raise SimulatorError(f"The reference page of {task.id} cannot be rendered: {reference.outcome.value}.")
    return View(html, page, reference)
