"""Kinds of failure of pages, and explanations with both pictures, the blocks that differ, and the human's feedback on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from colbench_gym.scoring.blocks import Comparison, colour_distance, compare, distance
from colbench_gym.scoring.pages import current_page
from colbench_gym.scoring.texts import text_likeness
from colbench_gym.simulators.pages.differences import LEAST_COLOUR, LEAST_MOVE, LEAST_RATIO, differences
from colbench_gym.simulators.pages.scripted_designer import CONTENT
from colbench_gym.tasks import Task
from sandboxes.browser import make_browser
from sandboxes.pages import Box, Page, Rendering, small_jpeg
from sweetrl_agent.core.explanation import ANSWER_CUT, PASSED, VOID, Failure, FailureKind

#: Width of a picture and its maximum height, in pixels; taller pictures are cropped.
WIDTH, MAX_HEIGHT = 400, 500
JPEG_QUALITY = 60
#: Maximum number of episodes with pictures in one report, and of blocks and remaining differences of each.
MAX_EPISODES, MAX_BLOCKS, MAX_DIFFERENCES = 24, 60, 12
UNLIKE = FailureKind(
    "unlike", "still different after all turns", "All turns were used, and the last page is less similar than a success needs."
)
ACCEPTED = FailureKind(
    "accepted",
    "accepted, but not alike enough",
    "The human had nothing more to say, and the last page is less similar than a success needs.",
)
ANSWERED_EARLY = FailureKind(
    "answered_early", "answered early", "The agent handed in its page with turns left, before the human had accepted it."
)
NO_PAGE = FailureKind("not_parsed", "not parsed", "No message of the agent has a page in it.")
NOT_RENDERED = FailureKind("not_rendered", "not rendered", "The last page takes too long, breaks the browser, or is too large.")
KINDS = (PASSED, UNLIKE, ACCEPTED, ANSWERED_EARLY, NO_PAGE, NOT_RENDERED, ANSWER_CUT, VOID)
Messages = Sequence[Mapping[str, str]]


def failure(row: Mapping[str, Any], turn_limit: int) -> Failure:
    """The kind of an episode, from its row of `evaluation.jsonl`."""
    replies = [message["content"] for message in row["dialogue_history"][1:] if message["role"] == "user"]
    if row["outcome"] == VOID.name:
        return Failure(VOID.name)
    if row["success"]:
        return Failure(PASSED.name)
    if row["outcome"] == ANSWER_CUT.name:
        return Failure(ANSWER_CUT.name)
    if row["outcome"] != "rendered":
        return Failure(NO_PAGE.name if row["outcome"] == "no_page" else NOT_RENDERED.name)
    if replies and CONTENT in replies[-1]:
        return Failure(ACCEPTED.name)
    return Failure(ANSWERED_EARLY.name if row["answered"] and row["turns"] < turn_limit else UNLIKE.name)


def explain(episodes: Sequence[tuple[Mapping[str, Any], Task]], sandbox: str, has_edits: bool) -> list[dict[str, Any]]:
    """Explanations of the first `MAX_EPISODES` episodes, {} for the others; see `core.explanation.Explains`.

    Args:
        episodes: Rows of `evaluation.jsonl` with their tasks.
        sandbox: Name of the browser's sandbox.
        has_edits: Whether messages may edit the last page.

    Raises:
        SandboxError: If the browser cannot be started or fails.
    """
    chosen = episodes[:MAX_EPISODES]
    with make_browser(sandbox) as browser:
        references = browser.render([Page(task.hidden.reference) for _, task in chosen])
        texts_by_episode = [[m["content"] for m in row["dialogue_history"] if m["role"] == "assistant"] for row, _ in chosen]
        pages = browser.render([Page(current_page(texts, has_edits)) for texts in texts_by_episode])
    explanations = [
        _explanation(row["dialogue_history"], page, reference)
        for (row, _), page, reference in zip(chosen, pages, references, strict=True)
    ]
    return [*explanations, *({} for _ in episodes[len(chosen) :])]


def _explanation(messages: Messages, page: Rendering, reference: Rendering) -> dict[str, Any]:
    comparison = compare(page, reference)
    scale = WIDTH / max(reference.width, page.width, 1)
    replies = [message["content"] for message in messages[1:] if message["role"] == "user"]
    remaining = differences(page, reference)[:MAX_DIFFERENCES] if page.picture and reference.picture else []
    return {
        "pages": {
            "wanted": _picture(reference),
            "got": _picture(page),
            "width": WIDTH,
            "height": MAX_HEIGHT,
            "score": {name: round(value, 3) for name, value in asdict(comparison.score).items()},
            "blocks": [block for block in _blocks(comparison, scale, reference) if block["box"][1] < MAX_HEIGHT][:MAX_BLOCKS],
            "differences": [
                {
                    "sentence": difference.sentence,
                    "turns": [turn for turn, reply in enumerate(replies, 1) if difference.sentence in reply],
                }
                for difference in remaining
            ],
        }
    }


def _picture(rendering: Rendering) -> str:
    return small_jpeg(rendering, WIDTH, MAX_HEIGHT, JPEG_QUALITY) if rendering.picture else ""


def _blocks(comparison: Comparison, scale: float, reference: Rendering) -> Iterator[dict[str, Any]]:
    """The blocks that differ, on the picture that shows them: missing blocks on the wanted page, all others on the agent's page."""
    for box in comparison.missing:
        yield _block("wanted", "missing", box, scale)
    for box in comparison.extra:
        yield _block("got", "not wanted", box, scale)
    for box, wanted in comparison.pairs:
        if change := ", ".join(_changes(box, wanted, reference)):
            yield _block("got", change, box, scale)


def _changes(box: Box, wanted: Box, reference: Rendering) -> Iterator[str]:
    """How two matched blocks differ, by the thresholds of the simulated human."""
    if text_likeness(box.text, wanted.text) < 1:
        yield "other text"
    if distance(box, wanted, max(reference.width, 1), max(reference.height, 1)) > LEAST_MOVE:
        yield "moved"
    if box.text and wanted.text and colour_distance(box.colour, wanted.colour) > 2 * LEAST_COLOUR:
        yield "other colour of text"
    if (box.background is None) != (wanted.background is None) or (
        box.background and wanted.background and colour_distance(box.background, wanted.background) > LEAST_COLOUR
    ):
        yield "other background"
    ratio = max(box.font_size, 1) / max(wanted.font_size, 1)
    if box.text and max(ratio, 1 / ratio) > LEAST_RATIO:
        yield "larger text" if ratio > 1 else "smaller text"


def _block(side: str, what: str, box: Box, scale: float) -> dict[str, Any]:
    position = [round(scale * value) for value in (box.x, box.y, box.width, box.height)]
    return {"side": side, "what": what, "text": f"{box.kind}: {box.text[:100]}" if box.text else box.kind, "box": position}
