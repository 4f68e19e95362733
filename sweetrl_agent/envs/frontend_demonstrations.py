"""Scripted, deliberately mediocre demonstrations of page design with a simulated human, for SFT of the tiny model.

The demonstrator shows the most common page, hears the differences, and corrects some of them. It often misses something and stops too early,
which leaves room for learning. Some of the dialogues are guided by the hidden page, given as a system message: the demonstrator shows that page at
once. Without them a model from scratch could not read the critic's hidden information. A pretrained model can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.seeds import derive_seed
from colbench_gym.simulators.pages.differences import differences
from colbench_gym.simulators.pages.scripted_designer import CONTENT, sentences
from colbench_gym.tasks.designs.design import SLOTS, Design, plain_design
from colbench_gym.tasks.designs.embedded import design_of
from colbench_gym.tasks.task import Task
from sandboxes.browser import LayoutBrowser
from sandboxes.pages import Page, Rendering
from sandboxes.pages.page import RenderingCache
from sweetrl_agent.core.hint import hint_message

#: Size of the cache of pages' boxes, some kilobytes each.
CACHED = 50_000
#: Words in a sentence of the simulated human -> slots that it may refer to, likely ones first.
_ABOUT = (
    ("background of the page", ("ground",)), ("bar at the top", ("tone", "shade")), ("bar at the bottom", ("footer", "tone", "shade")),
    ("photo", ("photo", "layout")), ("column", ("layout", "tone", "shade")), ("larger", ("size",)), ("smaller", ("size",)),
    ("button", ("button", "tone", "shade", "layout")), ("should say", ("headline", "button")), ("should not be there", ("footer", "cards", "layout")),
    ("box", ("card", "cards", "layout")), ("missing", ("footer", "cards", "headline", "button", "layout")), ("field", ("layout",)),
    ("further", ("layout", "links", "size")), ("should be", ("links", "layout", "tone", "shade")),
)  # fmt: skip


@dataclass(frozen=True)
class Demonstrator:
    """Parameters of the demonstrations' quality.

    Attributes:
        rounds: Probability of 0, 1, 2, ... replies of the simulated human before the last page is handed in.
        hears: Probability of correcting the slot that a sentence refers to.
        errs: Probability that a correction chooses a wrong option.
        guesses: Probability that a slot of the first draft is not the most common option.
        hinted_fraction: Share of dialogues guided by the hidden page.
    """

    rounds: tuple[float, ...] = (0.2, 0.27, 0.2, 0.1, 0.07, 0.05, 0.04, 0.04, 0.03)
    hears: float = 0.9
    errs: float = 0.02
    guesses: float = 0.1
    hinted_fraction: float = 0.2


TINY = Demonstrator()


@dataclass
class _Dialogue:
    task: Task
    wanted: Design
    page: Design
    rng: np.random.Generator
    rounds: int
    messages: list[dict[str, str]]
    is_over: bool = field(default=False)


def demonstrations(
    tasks: Sequence[Task], num_dialogues: int, seed: int, demonstrator: Demonstrator = TINY
) -> list[list[dict[str, str]]]:
    """`num_dialogues` demonstrations on embedded pages as chat messages, on the tasks in rotation, with the scripted human.

    Raises:
        sandboxes.SandboxError: If there is no browser to render the pages.
    """
    dialogues = [_begin(tasks[i % len(tasks)], demonstrator, derive_seed(seed, "imitation", i)) for i in range(num_dialogues)]
    with LayoutBrowser(cache=RenderingCache(most=CACHED)) as browser:
        while unfinished := [dialogue for dialogue in dialogues if not dialogue.is_over]:
            renderings = browser.render([Page(dialogue.page.html()) for dialogue in unfinished])
            references = browser.render([Page(dialogue.task.hidden.reference) for dialogue in unfinished])
            for dialogue, rendering, reference in zip(unfinished, renderings, references, strict=True):
                _continue(dialogue, rendering, reference, demonstrator)
    return [dialogue.messages for dialogue in dialogues]


def _begin(task: Task, demonstrator: Demonstrator, seed: int) -> _Dialogue:
    rng = np.random.default_rng(seed)
    wanted = design_of(task)
    is_hinted = rng.random() < demonstrator.hinted_fraction
    page = wanted if is_hinted else _first_draft(wanted, demonstrator, rng)
    messages = [
        *hint_message(task.hidden.reference if is_hinted else "", noun="page"),
        {"role": "user", "content": task.description},
    ]
    rounds = int(rng.choice(len(demonstrator.rounds), p=demonstrator.rounds))
    dialogue = _Dialogue(task, wanted, page, rng, rounds, [*messages, {"role": "assistant", "content": page.html()}])
    if rounds == 0:
        _hand_in(dialogue)
    return dialogue


def _first_draft(wanted: Design, demonstrator: Demonstrator, rng: np.random.Generator) -> Design:
    choices = dict(plain_design(wanted.topic).choices)
    for slot, options in SLOTS.items():
        if rng.random() < demonstrator.guesses:
            choices[slot] = str(rng.choice(options[:12]))
    return Design(wanted.topic, choices)


def _continue(dialogue: _Dialogue, rendering: Rendering, reference: Rendering, demonstrator: Demonstrator) -> None:
    heard = [message["content"] for message in dialogue.messages if message["role"] == "user"][1:]
    feedback = sentences(differences(rendering, reference), heard, "normal")
    dialogue.messages.append({"role": "user", "content": " ".join(feedback) or CONTENT})
    if feedback:
        for sentence in feedback:
            if dialogue.rng.random() < demonstrator.hears:
                dialogue.page = _mended(dialogue, sentence, demonstrator.errs)
        dialogue.messages.append({"role": "assistant", "content": dialogue.page.html()})
    dialogue.rounds -= 1
    if not feedback or dialogue.rounds == 0:
        _hand_in(dialogue)


def _hand_in(dialogue: _Dialogue) -> None:
    """Hand in the last page again, or only the marker if the simulated human has just accepted it."""
    last = dialogue.messages[-1]
    if last["role"] == "assistant":
        last["content"] = f"{ANSWER_MARKER}\n{last['content']}"
    else:
        dialogue.messages.append({"role": "assistant", "content": ANSWER_MARKER})
    dialogue.is_over = True


def _mended(dialogue: _Dialogue, sentence: str, errs: float) -> Design:
    """The page, corrected in the first wrong slot that the sentence may refer to. Matching colours change together."""
    slots = next((slots for words, slots in _ABOUT if words in sentence), ("layout",))
    wrong = [slot for slot in slots if dialogue.page[slot] != dialogue.wanted[slot]]
    choices = dict(dialogue.page.choices)
    for slot in wrong[:2] if wrong[:1] == ["tone"] else wrong[:1]:
        options = SLOTS[slot][:12]
        choices[slot] = str(dialogue.rng.choice(options)) if dialogue.rng.random() < errs else dialogue.wanted[slot]
    return Design(dialogue.page.topic, choices)
