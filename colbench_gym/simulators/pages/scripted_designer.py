"""A rule-based user simulator for ColBench-Frontend: it compares the rendered pages and states the largest differences."""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.dialogue import Dialogue
from colbench_gym.simulators.pages.differences import Difference, differences
from colbench_gym.simulators.pages.view import look
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.tasks.task import Task
from sandboxes.browser import Browser
from sandboxes.pages import PageOutcome

#: Number of differences in a reply, by level.
LEVELS = {"terse": 1, "normal": 2, "chatty": 4}
MAX_REPLY_CHARS = 1000
CONTENT = "That looks right to me."
#: Factor on the weight of a difference for each earlier reply that stated it without effect.
INSISTS = 0.5
NOTHING_SHOWN = "I see no page yet."
UNSEEN = {
    PageOutcome.TIMEOUT: "The page does not come up.",
    PageOutcome.CRASH: "The page breaks when I open it.",
    PageOutcome.TOO_LARGE: "The page is far too large to open.",
}


def sentences(visible: Sequence[Difference], heard: Sequence[str], level: str) -> list[str]:
    """Sentences about the most salient differences. A difference that was stated before without effect ranks lower.

    Args:
        visible: Differences, as returned by `differences`.
        heard: Earlier replies of the simulated human.
        level: A key of `LEVELS`.
    """
    weights = {
        difference: difference.weight * INSISTS ** sum(difference.sentence in reply for reply in heard)
        for difference in visible
    }
    ordered = [difference.sentence for difference in sorted(weights, key=lambda difference: -weights[difference])]
    return list(dict.fromkeys(ordered))[: LEVELS[level]]


class ScriptedDesigner(Simulator):
    """A deterministic user simulator for ColBench-Frontend. It needs a browser and no model.

    Args:
        level: Number of differences in a reply: "terse", "normal" or "chatty" for 1, 2 or 4.
        browser: Renders both pages. The caller has to close it.
        has_edits: Whether the agent may edit its last page (see `scoring.pages`).

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
        """State the largest differences between the agent's last page and the reference page; `seed` is ignored.

        Raises:
            SimulatorError: If no browser is available, or the reference page cannot be rendered.
        """
        view = look(self.browser, task, dialogue, self.has_edits)
        if view.page.outcome is not PageOutcome.OK:
            return UNSEEN[view.page.outcome]
        heard = [message.content for message in dialogue.messages[1:] if message.role == "user"]
        remarks = sentences(differences(view.page, view.reference), heard, self.level)
        return " ".join([*([] if view.html else [NOTHING_SHOWN]), *(remarks or [CONTENT])])[:MAX_REPLY_CHARS]
