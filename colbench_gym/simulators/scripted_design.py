"""A human played by rules who wants a page: sees the agent's and the one in mind as pictures, and says what differs most."""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.dialogue import Dialogue
from colbench_gym.simulators.design_differences import Difference, differences
from colbench_gym.simulators.design_view import look
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.tasks.task import Task
from sandboxes.browser import Browser
from sandboxes.pages import PageOutcome

#: Differences said in a reply, by how much the person says.
LEVELS = {"terse": 1, "normal": 2, "chatty": 4}
MAX_REPLY_CHARS = 1000
CONTENT = "That looks right to me."
#: How much less a person thinks of a point each time that they have made it in vain.
INSISTS = 0.5
NOTHING_SHOWN = "I see no page yet."
UNSEEN = {
    PageOutcome.TIMEOUT: "The page does not come up.",
    PageOutcome.CRASH: "The page breaks when I open it.",
    PageOutcome.TOO_LARGE: "The page is far too large to open.",
}


def sentences(found: Sequence[Difference], heard: Sequence[str], level: str) -> list[str]:
    """What is said of the differences: the most outstanding ones, other points first where some were made in vain.

    Args:
        found: As `differences` gives them.
        heard: The person's earlier replies.
        level: Of `LEVELS`.
    """
    weights = {
        difference: difference.weight * INSISTS ** sum(difference.sentence in reply for reply in heard) for difference in found
    }
    said = [difference.sentence for difference in sorted(weights, key=lambda difference: -weights[difference])]
    return list(dict.fromkeys(said))[: LEVELS[level]]


class ScriptedDesigner(Simulator):
    """A deterministic human for ColBench-Frontend, who needs a browser and no model.

    Args:
        level: How much they say: "terse", "normal" or "chatty": 1, 2 or 4 differences in a reply.
        browser: Renders both pages; it stays the caller's to close.
        has_edits: The agent may edit its last page (see `scoring.pages`).

    Raises:
        ValueError: If the level is unknown.
    """

    is_deterministic = True
    needs_pictures = False

    def __init__(self, browser: Browser, level: str = "normal", has_edits: bool = False) -> None:
        if level not in LEVELS:
            raise ValueError(f"`level` must be one of {tuple(LEVELS)}, got {level!r}.")
        self.level, self.browser, self.has_edits = level, browser, has_edits

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """What differs most between the agent's last page and the one in mind; `seed` is ignored.

        Raises:
            SimulatorError: If no browser can be had, or the page in mind cannot be rendered.
        """
        view = look(self.browser, task, dialogue, self.has_edits)
        if view.page.outcome is not PageOutcome.OK:
            return UNSEEN[view.page.outcome]
        heard = [message.content for message in dialogue.messages[1:] if message.role == "user"]
        said = sentences(differences(view.page, view.reference), heard, self.level)
        return " ".join([*([] if view.html else [NOTHING_SHOWN]), *(said or [CONTENT])])[:MAX_REPLY_CHARS]
