"""Why a page is not alike enough: the kinds of failure, and explanations with both pictures, the blocks that differ, and what was said about them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from colbench_gym.scoring.blocks import Comparison, colour_distance, compare, distance
from colbench_gym.scoring.pages import current_page
from colbench_gym.scoring.texts import text_likeness
from colbench_gym.simulators.design_differences import LEAST_COLOUR, LEAST_MOVE, LEAST_RATIO, differences
from colbench_gym.simulators.scripted_design import CONTENT
from colbench_gym.tasks import Task
from sandboxes.browser import make_browser
from sandboxes.pages import Box, Page, Rendering
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
        wanted = browser.render([Page(task.hidden.reference) for _, task in chosen])
        said = [[m["content"] for m in row["dialogue_history"] if m["role"] == "assistant"] for row, _ in chosen]
        got = browser.render([Page(current_page(texts, has_edits)) for texts in said])
    made = [
        _explanation(row["dialogue_history"], page, reference)
        for (row, _), page, reference in zip(chosen, got, wanted, strict=True)
    ]
    return [*made, *({} for _ in episodes[len(chosen) :])]


def _explanation(messages: Messages, page: Rendering, reference: Rendering) -> dict[str, Any]:
    comparison = compare(page, reference)
    scale = WIDTH / max(reference.width, page.width, 1)
    replies = [message["content"] for message in messages[1:] if message["role"] == "user"]
    left = differences(page, reference)[:MAX_DIFFERENCES] if page.picture and reference.picture else []
    return {
        "pages": {
            "wanted": picture(reference),
            "got": picture(page),
            "width": WIDTH,
            "height": MAX_HEIGHT,
            "score": {name: round(value, 3) for name, value in asdict(comparison.score).items()},
            "blocks": [block for block in _blocks(comparison, scale, reference) if block["box"][1] < MAX_HEIGHT][:MAX_BLOCKS],
            "differences": [
                {
                    "sentence": one.sentence,
                    "turns": [turn for turn, reply in enumerate(replies, 1) if one.sentence in reply],
                }
                for one in left
            ],
        }
    }


def picture(rendering: Rendering) -> str:
    """A small picture of a page, JPEG in base64; "" if it has none. Its top left corner is that of the page."""
    from PIL import Image

    if not rendering.picture:
        return ""
    with Image.open(io.BytesIO(rendering.picture)) as image:
        height = max(1, round(image.height * WIDTH / image.width))
        small = image.convert("RGB").resize((WIDTH, height)).crop((0, 0, WIDTH, min(height, MAX_HEIGHT)))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=JPEG_QUALITY)
    return base64.b64encode(file.getvalue()).decode()


def _blocks(comparison: Comparison, scale: float, reference: Rendering) -> Iterator[dict[str, Any]]:
    """The blocks that differ, on the picture that they are visible on: missing ones on the wanted page, all others on the agent's."""
    for box in comparison.missing:
        yield _block("wanted", "missing", box, scale)
    for box in comparison.extra:
        yield _block("got", "not wanted", box, scale)
    for own, wanted in comparison.pairs:
        if what := ", ".join(_changes(own, wanted, reference)):
            yield _block("got", what, own, scale)


def _changes(own: Box, wanted: Box, reference: Rendering) -> Iterator[str]:
    """How two matched blocks differ, by the thresholds of the simulated human."""
    if text_likeness(own.text, wanted.text) < 1:
        yield "other text"
    if distance(own, wanted, max(reference.width, 1), max(reference.height, 1)) > LEAST_MOVE:
        yield "moved"
    if own.text and wanted.text and colour_distance(own.colour, wanted.colour) > 2 * LEAST_COLOUR:
        yield "other colour of text"
    if (own.background is None) != (wanted.background is None) or (
        own.background and wanted.background and colour_distance(own.background, wanted.background) > LEAST_COLOUR
    ):
        yield "other background"
    ratio = max(own.font_size, 1) / max(wanted.font_size, 1)
    if own.text and max(ratio, 1 / ratio) > LEAST_RATIO:
        yield "larger text" if ratio > 1 else "smaller text"


def _block(side: str, what: str, box: Box, scale: float) -> dict[str, Any]:
    place = [round(scale * value) for value in (box.x, box.y, box.width, box.height)]
    return {"side": side, "what": what, "text": f"{box.kind}: {box.text[:100]}" if box.text else box.kind, "box": place}
