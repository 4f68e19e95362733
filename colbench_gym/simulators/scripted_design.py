"""A human played by rules who wants a page: sees the agent's and the one in mind as pictures, and says what differs most."""

from __future__ import annotations

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.scoring.pages import current_page
from colbench_gym.simulators.design_differences import differences
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.tasks.task import Task
from sandboxes import SandboxError
from sandboxes.browser import Browser
from sandboxes.pages import Page, PageOutcome

#: Differences said in a reply, by how much the person says.
LEVELS = {"terse": 1, "normal": 2, "chatty": 4}
MAX_REPLY_CHARS = 1000
CONTENT = "That looks right to me."
NOTHING_SHOWN = "I see no page yet."
UNSEEN = {
    PageOutcome.TIMEOUT: "The page does not come up.",
    PageOutcome.CRASH: "The page breaks when I open it.",
    PageOutcome.TOO_LARGE: "The page is far too large to open.",
}


class ScriptedDesigner(Simulator):
    """A deterministic human for ColBench-Frontend, who needs a browser and no model.

    Args:
        level: How much they say: "terse", "normal" or "chatty": 1, 2 or 4 differences in a reply.
        browser: Renders both pages; None for one of its own.
        has_edits: The agent may edit its last page (see `scoring.pages`).

    Raises:
        ValueError: If the level is unknown.
    """

    is_deterministic = True

    def __init__(self, level: str = "normal", browser: Browser | None = None, has_edits: bool = False) -> None:
        if level not in LEVELS:
            raise ValueError(f"`level` must be one of {tuple(LEVELS)}, got {level!r}.")
        self.level, self.has_edits = level, has_edits
        self._owns_browser = browser is None
        self.browser = browser or Browser()

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """What differs most between the agent's last page and the one in mind; `seed` is ignored.

        Raises:
            SimulatorError: If no browser can be had, or the page in mind cannot be rendered.
        """
        html = current_page((m.content for m in dialogue.messages if m.role == "assistant"), self.has_edits)
        try:
            page, reference = self.browser.render([Page(html), Page(task.hidden.reference)])
        except SandboxError as error:
            raise SimulatorError(f"The person cannot see the page: {error}") from error
        if reference.outcome is not PageOutcome.OK:
            raise SimulatorError(f"The reference page of {task.id} cannot be rendered: {reference.outcome.value}.")
        words = [] if html else [NOTHING_SHOWN]
        if page.outcome is not PageOutcome.OK:
            words = [UNSEEN[page.outcome]]
        else:
            words += [difference.sentence for difference in differences(page, reference)[: LEVELS[self.level]]] or [CONTENT]
        return " ".join(words)[:MAX_REPLY_CHARS]

    def close(self) -> None:
        """End the browser if it is ours."""
        if self._owns_browser:
            self.browser.close()
