"""A vision model behind an OpenAI-compatible server plays the human in ColBench-Frontend."""

from __future__ import annotations

import base64
from typing import Any

from colbench_gym.dialogue import Dialogue
from colbench_gym.outside_text import quoted
from colbench_gym.simulators.model.openai import Messages, OpenAIHuman
from colbench_gym.simulators.pages.view import look
from colbench_gym.tasks.task import Task
from sandboxes.browser import Browser
from sandboxes.pages import Rendering

PROMPT = """\
You play a person who wants a web page and has asked an assistant for it in these words: {request}

You have a page in mind: the first picture. The assistant cannot see it. What the assistant has made so far is the second picture{missing}.

Tell the assistant what should be different, what stands out most first:
- Speak as that person would in a chat: plain everyday words, at most three sentences.
- Be concrete about what you see: texts, colours, sizes, where things are.
- If both look alike, say that you are happy with it.
- Never write code, and never say that there is a picture of the page you have in mind."""
NO_PAGE = ", which is missing, for it has shown none yet"
UNSEEN_PAGE = ", which is missing, for it does not come up"


class OpenAIDesigner(OpenAIHuman):
    """Sends both pages as pictures to a vision model. As in the benchmark, the model does not see the dialogue.

    Args:
        model: Name of the model on the server. It must accept pictures.
        browser: Renders both pages. The caller has to close it.
        has_edits: Whether the agent may edit its last page.
        **settings: Other arguments of `OpenAIHuman`. `max_dialogue_chars` has no effect, since the model does not see the dialogue.
    """

    def __init__(self, model: str, browser: Browser, has_edits: bool = False, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.browser, self.has_edits = browser, has_edits
        self._settings |= {"browser": browser, "has_edits": has_edits}

    def prompts(self, task: Task, dialogue: Dialogue) -> list[Messages]:
        """Both pages; then only the reference page, for a server that fails on the agent's page.

        Raises:
            SimulatorError: If the pages cannot be rendered.
        """
        view = look(self.browser, task, dialogue, self.has_edits)
        alone = _prompt(task, UNSEEN_PAGE if view.html else NO_PAGE, [view.reference])
        return [_prompt(task, "", [view.reference, view.page]), alone] if view.html and view.page.picture else [alone]


def _prompt(task: Task, missing: str, pictures: list[Rendering]) -> Messages:
    text = PROMPT.format(request=quoted(task.description), missing=missing)
    return [{"role": "user", "content": [{"type": "text", "text": text}, *map(_shown, pictures)]}]


def _shown(rendering: Rendering) -> dict[str, Any]:
    data = base64.b64encode(rendering.picture).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
