"""ColBench-Frontend-v0: design a web page in a dialogue with a simulated human who has a page in mind."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from colbench_gym.envs.colbench_env import ColBenchEnv, Metrics
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.errors import ScoringError
from colbench_gym.reasoning import AUTO
from colbench_gym.scoring.answer import AgentMessage
from colbench_gym.scoring.pages import current_page
from colbench_gym.scoring.similarity import Similarity, make_similarity
from colbench_gym.simulators import Simulator, make_designer
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.rows import OnError
from sandboxes.arguments import typed
from sandboxes.browser import Browser, make_browser
from sandboxes.pages import Page, PageOutcome, Rendering

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_REPLY_CHARS = 1000


class FrontendEnv(ColBenchEnv):
    """Design a web page that looks like the one a simulated human has in mind.

    ## Description
    The simulated human asks for a page and leaves the request vague. They see the agent's page as rendered, and say what should
    be different. Source: ColBench, arXiv:2503.15478, section 3.

    ## Observation
    Text: the transcript so far. `info["messages"]` holds the same as chat messages, ready for a chat template.

    ## Action
    Text: one utterance with a page in it, as a reader of Markdown would take it. ``I WANT TO ANSWER:`` starts the answer; an
    answer without a page hands in the last page shown. A page may link Tailwind, as the pages of ColBench do, from any of the usual
    addresses of Tailwind 2; the file is served from disk. Scripts do not run. Text before ``OUTPUT:`` and what a model
    thinks between ``<think>`` and ``</think>`` or other marks is the agent's private thought. With `edits=True` an utterance may edit the last page instead; `colbench_gym.scoring.pages` documents the format and the
    limits. A page that cannot be rendered scores as a missing page. Characters beyond 2,000,000 are cut, and lone surrogates are
    replaced by U+FFFD. `colbench_gym.simulators.model.openai` documents which part of an utterance is sent to a language model that plays
    the human. `step_cut` is `step` for a message that the limit of tokens cut: if it ends the episode, nothing is graded, and the outcome is "answer_cut".

    ## Reward
    0 before the last step. At the last step, with `reward="similarity"`: similarity of the last page to the reference page, in [0, 1].
    With `reward="success"`: 1 if that similarity is at least `success_at`, else 0.

    ## Episode end
    *Terminated* by an answer, or after `max_turns` turns. *Truncated* only if the simulator or the browser failed: the episode is then
    void. See `BackendEnv`.

    ## Info
    "task_id", "turn", "messages"; at the end "metrics": "similarity", "success" (0/1), "outcome" ("rendered", "no_page", "timeout",
    "crash", "too_large"), "answered" (0 if the turn limit ended the episode), "turns".

    ## Arguments
    * `tasks`: "embedded:train", "embedded:test", "embedded:unseen", a path to rows (.jsonl, .json, .jsonl.gz, .parquet), "hub:HuggingFaceM4/WebSight:train",
      or "package.module:function", each with an optional slice; or a sequence of tasks.
    * `simulator`: "scripted", "person", "package.module:Class", or a mapping with such a "name" and arguments: {"name": "scripted",
      "level": "terse"} (or "normal", "chatty"), {"name": "openai", "model": ..., "base_url": ...}; or a `Simulator`.
    * `similarity`: "blocks", "encoder", "clip", "clip:FOLDER"; or a `Similarity`.
    * `sandbox`: "auto", "embedded", "docker", "package.module:Class", or a mapping with such a "name" and arguments (see
      `sandboxes.browser.make_browser`); or a `Browser`, which the caller has to close.
    * `reward`: "similarity" of the last page, or "success" for 1 if the similarity is at least `success_at`.
    * `success_at`: the least similarity that is a success, above 0 and at most 1.
    * `edits`: whether the agent may edit its last page.
    * `max_turns`: agent turns of an episode; None for ten, as in the benchmark.
    * `max_reply_chars`: longer replies of the simulated human are cut. Default: 1000, as in the benchmark.
    * `on_error`: "raise" an error for a row that is not a valid task, or "skip" it.
    * `on_world_error`: "void" an episode in which the simulator or the browser failed (`env.unwrapped.world_error` then holds the
      error), or "raise" the error.
    * `reasoning`: how the agent's model marks its thoughts, which are not part of the dialogue and never graded: "auto" for all known marks, "none"
      for a model whose whole text is speech, or its own marks, such as "<plan> </plan>"; see `colbench_gym.reasoning`.
    * `render_mode`: "ansi" for the transcript, "rgb_array" for the last page as it looks.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}
    metric = "similarity"
    success_means = "the last page is at least 90% similar to the hidden design"

    @typed
    def __init__(
        self,
        tasks: str | Sequence[Task] = "embedded:train",
        simulator: str | Mapping[str, Any] | Simulator = "scripted",
        similarity: str | Similarity = "blocks",
        sandbox: str | Mapping[str, Any] | Browser = "auto",
        reward: Literal["similarity", "success"] = "similarity",
        success_at: float = 0.9,
        edits: bool = False,
        max_turns: int | None = None,
        max_reply_chars: int = MAX_REPLY_CHARS,
        on_error: OnError = "raise",
        on_world_error: Literal["void", "raise"] = "void",
        render_mode: str | None = None,
        reasoning: str = AUTO,
    ) -> None:
        """Build the environment. The class documents the arguments. The browser starts with the first page."""
        if reward not in ("similarity", "success"):
            raise ValueError(f"`reward` must be 'similarity' or 'success', got {reward!r}.")
        if not 0 < success_at <= 1:
            raise ValueError(f"`success_at` must be above 0 and at most 1, got {success_at!r}.")
        self.reward, self.success_at, self.edits = reward, success_at, edits
        self.similarity = make_similarity(similarity)
        self._owns_browser = not isinstance(sandbox, Browser)
        self.browser = sandbox if isinstance(sandbox, Browser) else make_browser(sandbox, workers=1)
        super().__init__(tasks, simulator, max_turns, max_reply_chars, on_error, on_world_error, render_mode, reasoning)
        if self._owns_browser:
            is_looked_at = render_mode == "rgb_array" or self.simulator.needs_pictures
            self.browser.pictures = is_looked_at or self.similarity.needs_pictures

    @staticmethod
    def load_tasks(source: str | Sequence[Task], on_error: OnError = "raise") -> tuple[Task, ...]:
        """Load the page tasks of a source."""
        return load_tasks(source, on_error, "page")

    def _make_simulator(self, spec: str | Mapping[str, Any] | Simulator) -> Simulator:
        return make_designer(spec, self.browser, self.edits)

    @property
    def discrete_actions(self) -> Any:
        """The menu of its tasks for `wrappers.DiscreteActions`: the options of a design's slots.

        Raises:
            AttributeError: If the tasks are not embedded page tasks.
        """
        from colbench_gym.wrappers.slot_actions import SlotActions

        if not all(task.id.startswith("embedded/") for task in self.tasks):
            raise AttributeError('Discrete actions are made for embedded page tasks, such as tasks="embedded:train".')
        return SlotActions()

    def prepare(self) -> None:
        """See `ColBenchEnv.prepare`; starts a browser."""
        self._look("")

    def share(self, other: Self, workers: int) -> None:
        """See `ColBenchEnv.share`; also shares the browsers and their cache of rendered pages."""
        super().share(other, workers)
        if other is self and self._owns_browser:
            self.browser.workers = workers
        elif other is not self:
            self.browser, self._owns_browser = other.browser, False

    def score_answer(self, text: str) -> Metrics:
        """Score the page in a text, or the last page shown if the text has none. The episode continues."""
        return self._score_page(current_page([*self._said(), self._reasoning.speech(text)], self.edits))

    def _score_last(self, message: AgentMessage) -> Metrics:
        return self._score_page(self.page())

    def _score_page(self, html: str) -> Metrics:
        page, reference = self._look(html), self._look(self.task.hidden.reference)
        if reference.outcome is not PageOutcome.OK:
            raise ScoringError(f"Task {self.task.id!r} cannot be scored: its page gives {reference.outcome.value!r}.")
        (similarity,) = self.similarity.score([page], [reference])
        outcome = page.outcome.value if page.outcome is not PageOutcome.OK else "rendered" if html else "no_page"
        return {"success": int(similarity >= self.success_at), "similarity": similarity, "outcome": outcome}

    def page(self) -> str:
        """Source of the agent's last page; "" before the first."""
        return current_page(self._said(), self.edits)

    def _said(self) -> list[str]:
        return [message.content for message in self._dialogue.messages if message.role == "assistant"]

    def render(self) -> str | NDArray[np.uint8] | None:  # type: ignore[override]
        """The transcript with render_mode="ansi"; with "rgb_array" the last page, shape (height, width, 3), black if it does not render."""
        if self.render_mode != "rgb_array":
            return super().render()
        import numpy as np
        from PIL import Image

        picture = self._look(self.page()).picture
        if not picture:  # not rendered: the benchmark uses a black picture instead
            blank = Page("")
            return np.zeros((blank.height, blank.width, 3), np.uint8)
        with Image.open(io.BytesIO(picture)) as image:
            return np.asarray(image.convert("RGB"))

    def close(self) -> None:
        """End the browser and the simulator if this environment owns them. A second call does nothing."""
        super().close()
        if self._owns_browser:
            self.browser.close()

    def _look(self, html: str) -> Rendering:
        return self.browser.render([Page(html)])[0]

    def _reward(self, metrics: Metrics) -> float:
        return float(metrics[self.reward])


class FrontendVectorEnv(ColBenchVectorEnv):
    """`num_envs` frontend environments that step in threads, see `ColBenchVectorEnv`."""

    def __init__(self, num_envs: int = 1, **arguments: Any) -> None:
        """Build the sub-environments; arguments of `ColBenchVectorEnv` and of `FrontendEnv`."""
        super().__init__(num_envs, env_class=FrontendEnv, **arguments)
