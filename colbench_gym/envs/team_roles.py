"""The roles of a team: who speaks after whom, what each is told, and what each reads.

A team is a sequence of roles, each taken by an agent of its own. A role that talks has a dialogue with the simulated human, which a marker or the limit
of turns ends. Any other role says one message. What a role hands over is its last message without the marker; later roles read it if they are meant to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from colbench_gym.scoring.answer import ANSWER_MARKER

#: Ends a dialogue whose agent hands over a note.
HAND_OVER = "HAND OVER:"
#: Default limit of a note, in characters.
NOTE_CHARS = 400
SPECS = ("interviewer,coder", "generator,verifier,refiner", "generator,verifier,refiner:K", "debaters:AxT")
_DEBATE = re.compile(r"debaters:([1-9]\d?)x([1-9]\d?)")
_PASSES = re.compile(r"generator,verifier,refiner:([1-9]\d?)")


@dataclass(frozen=True)
class Role:
    """A role of a team.

    Attributes:
        name: Name of its agent.
        instruction: What the agent is to do.
        talks: Whether it talks with the human. Otherwise it says one message.
        writes: What it hands over: an "answer", of which a draft is one; a "note"; or a "critique".
        hears: Whether it reads the dialogue with the human; if not, it reads the request alone.
        reads: Heading and author of each message that it reads besides.
        answers: Whether its last message is an answer that may be graded; among several the team chooses.
        ending: How it ends its dialogue, in a sentence.
    """

    name: str
    instruction: str
    talks: bool = False
    writes: Literal["answer", "note", "critique"] = "answer"
    hears: bool = False
    reads: tuple[tuple[str, str], ...] = ()
    answers: bool = False
    ending: str = ""

    @property
    def whole_instruction(self) -> str:
        """Instruction and ending; the agent's first observation begins with it."""
        return f"{self.instruction} {self.ending}".strip()

    @property
    def marker(self) -> str:
        """Marker of the message that ends its dialogue."""
        return HAND_OVER if self.writes == "note" else ANSWER_MARKER

    def first_message(self, opening: str, said: Mapping[str, str]) -> str:
        """The first message to the agent.

        Args:
            opening: The request, or the dialogue with the human.
            said: What earlier roles handed over, by name.
        """
        read = (f"{heading}\n{said[author]}" for heading, author in self.reads)
        return "\n\n".join(filter(None, (self.whole_instruction, opening, *read)))


@dataclass(frozen=True)
class Team:
    """Roles in the order in which they speak.

    Attributes:
        roles: The roles.
        is_debate: Whether nobody reads the first role's answer.
    """

    roles: tuple[Role, ...]
    is_debate: bool = False


def make_team(spec: str) -> Team:
    """The team of a specification.

    Args:
        spec: "interviewer,coder"; "generator,verifier,refiner", with ":K" for K critiques and refinements of the draft; or "debaters:AxT" for A coders and T
            rounds. Numbers are from 1 to 99.

    Raises:
        ValueError: If it is none of these.
    """
    spec = str(spec).replace(" ", "")  # from a file of settings it may be no text
    if match := _DEBATE.fullmatch(spec):
        return _debate(int(match[1]), int(match[2]))
    if match := _PASSES.fullmatch(spec):
        return _passes(int(match[1]))
    if spec not in _TEAMS:
        raise ValueError(f"`roles` must be one of {SPECS} with numbers for K, A and T, such as 'debaters:2x3', got {spec!r}.")
    return Team(_TEAMS[spec])


def check_channel(note_chars: int, choose: str) -> None:
    """Refuse a limit of notes, or a rule, that does not exist.

    Raises:
        ValueError: Names it.
    """
    if note_chars < 1:
        raise ValueError(f"`note_chars` must be positive, got {note_chars!r}.")
    if choose not in ("vote", "first"):
        raise ValueError(f"`choose` must be 'vote' or 'first', got {choose!r}.")


def _debate(coders: int, rounds: int) -> Team:
    roles = [
        Role(
            "interviewer",
            "You talk with the human for your colleagues, who read it and write the answer.",
            True,
            ending=f"End with {ANSWER_MARKER}",
        )
    ]
    for turn in range(1, rounds + 1):
        for coder in range(1, coders + 1):
            others = [other for other in range(1, coders + 1) if other != coder]
            reads = [("Your answer so far:", f"coder{coder}_{turn - 1}")]
            reads += [(f"Answer of colleague {other}:", f"coder{other}_{turn - 1}") for other in others]
            roles.append(
                Role(
                    f"coder{coder}_{turn}",
                    "You write the answer for the human.",
                    hears=True,
                    reads=tuple(reads) if turn > 1 else (),
                    answers=turn == rounds,
                )
            )
    return Team(tuple(roles), True)


def _passes(count: int) -> Team:
    """Verifier and refiner speak several times, each time to the draft alone: "verifier#2" and "refiner#2" have the policies of "verifier" and "refiner"."""
    generator, *checkers = _TEAMS[SPECS[1]]
    names = [{role.name: f"{role.name}#{turn}" if turn > 1 else role.name for role in checkers} for turn in range(1, count + 1)]
    again = [
        replace(role, name=of[role.name], reads=tuple((heading, of.get(author, author)) for heading, author in role.reads))
        for of in names
        for role in checkers
    ]
    return Team((generator, *again))


_TEAMS = {
    SPECS[0]: (
        Role("interviewer", "You talk with the human. Your colleague reads only the request and your note, and writes the answer.", True, "note",
             ending=f"End with {HAND_OVER} and the note."),
        Role("coder", "You write the answer. Your colleague has talked with the human.", reads=(("Note of your colleague:", "interviewer"),), answers=True),
    ),
    SPECS[1]: (
        Role("generator", "You talk with the human and draft the answer. A colleague checks it.", True, ending=f"End with {ANSWER_MARKER} and the draft."),
        Role("verifier", "You check a draft. Say which wishes of the human it misses, or that nothing is missing.", writes="critique", hears=True, reads=(("Draft:", "generator"),)),
        Role("refiner", "You write the final answer from a draft and a critique.", hears=True, reads=(("Draft:", "generator"), ("Critique:", "verifier")), answers=True),
    ),
}  # fmt: skip
#: Two agents, each of whom the human answers on half of the topics (`colbench_gym.envs.split`).
PAIR = Team(
    (
        Role("first", "You and a colleague talk with the human, one after the other. Each of you is answered on half of the topics.", True, "note",
             ending=f"End with {HAND_OVER} and a note."),
        Role("second", "You talk with the human after a colleague. Each of you is answered on half of the topics.", True,
             reads=(("Note of your colleague:", "first"),), answers=True, ending=f"End with {ANSWER_MARKER} and the answer."),
    )
)  # fmt: skip
#: One agent without an instruction.
SINGLE = Team((Role("agent", "", True, answers=True),))
