"""LMRL-TextNav-v0: carry the stale food to the fridge, in a house of eight rooms that is explored by text commands."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from colbench_gym.lmrl.game import Outcome, TextGame
from colbench_gym.lmrl.text_nav import text_world
from colbench_gym.lmrl.text_nav.text_world import EXITS, FURNITURE, THINGS, State
from sandboxes.arguments import typed

ROOMS = tuple(EXITS)
OBSERVED = ("fully", "partially")
OBJECTIVE = (
    "Put the stale food, which is on the table in the living room, into the fridge in the kitchen, and close the fridge."
)
#: The rooms in which each of the two policies of the data is an expert, with the share of episodes that the policy plays.
POLICIES = (
    (("office", "bathroom", "garden", "backyard"), 0.75),
    (("kitchen", "dining room", "living room", "bedroom"), 0.25),
)
#: Probability that such a policy follows the walkthrough, where it is an expert and is not following it already.
FOLLOW = 0.9


class TextNav(TextGame):
    """Carry the stale food from the living room into the kitchen's fridge; every observation says the room and what is carried.

    ## Description
    A house with eight rooms, seven things on tables, in a chest and in a fridge (`text_world` has the map). It is the same in all episodes; only the room
    that the agent starts in is drawn, each with the same probability. The interpreter is ours and small: no TextWorld. Source: LMRL-Gym, arXiv:2311.18232,
    task Text-Nav; rooms, things and rules are those of its code (commit 911d726), the sentences are ours. The paper speaks of ten rooms, its code has eight.

    From the rooms in the order bedroom, living room, dining room, kitchen, garden, backyard, office, bathroom, winning takes 7, 6, 7, 8, 9, 9, 7, 8 turns:
    every start can be won within the limit, so the optimal return is 1.

    ## Observation
    Text, of up to four parts with a line feed each: the room with what is seen in it, and what is carried; what the last command did (at the start the
    objective); ``Admissible commands:`` and all commands that would change something, separated by commas.

    ## Action
    Text: a command. "go DIRECTION"; "take THING from FURNITURE", or "take THING" from the floor; "put THING on table", "insert THING into CONTAINER",
    "drop THING", "eat THING"; "open CONTAINER", "close CONTAINER". Never listed, because they change nothing: "look", "inventory", "examine THING". Case and
    white space do not matter. Any other text changes nothing and says so.

    ## Reward
    1 for the turn after which the stale food is in the closed fridge, else 0.

    ## Episode end
    *Terminated* by winning, or by eating the stale food, which cannot be won any more. *Truncated* after `max_turns` turns.

    ## Info
    At the end "success" and "metrics": "outcome" ("ended", or "cut" by the limit), "success" (0/1), "return", "turns".

    ## Arguments
    Of the function `make`, which is the entry point of the id:

    * `observed`: "fully"; or "partially", which leaves out the first two parts of observations: the room and what is carried. What is seen is then said,
      without the name of the room, at the start, after a walk and in reply to "look". That hides information, see `PartiallyObservedTextNav`.
    * `max_turns`: turns of an episode. The original has no limit; its data was collected with 15.
    * `render_mode`: "ansi": `render` returns the history.

    `reset(options={"room": name})` sets the start.

    ## Faithful
    There is no argument `faithful`: the original cannot be played through its interface (`reset` takes no seed and returns a tuple of characters, `step`
    raises a NameError), so it has no behaviour to reproduce, and its sentences are TextWorld's.

    ## Expert and data
    `expert_action` is optimal from every state and knows the whole house. `behaviour` is the original's collector: in 3 of 4 episodes a policy that is an
    expert in the office, bathroom, garden and backyard, else one that is in the other four. In such a room it follows, with probability 0.9, the expert until it
    leaves the room; otherwise it draws among the admissible commands. The collector's probability is 0.1, with which nearly no episode succeeds; 0.9 comes
    close to the statistics of the paper's data (docs: Text navigation).
    """

    reset_options = ("room",)

    def __init__(self, observed: str = "fully", max_turns: int = 15, render_mode: str | None = None) -> None:
        """Build the environment; `make` checks and documents the arguments."""
        super().__init__(max_turns, render_mode=render_mode)
        self.observed = observed
        self.state, self.start = text_world.begin(ROOMS[0]), ROOMS[0]

    def _begin(self, options: Mapping[str, Any]) -> str:
        self.start = options["room"] if "room" in options else self.rng.choice(ROOMS)
        if self.start not in ROOMS:
            raise ValueError(f"`options['room']` must be one of {', '.join(map(repr, ROOMS))}, got {self.start!r}.")
        self.state = text_world.begin(self.start)
        return self._describe(OBJECTIVE, is_new=True)

    def _play(self, action: str) -> Outcome:
        room = self.state.room
        reply, self.state = text_world.answer(self.state, " ".join(action.lower().split()))
        if self.state.is_won:
            return Outcome(f"{reply} You have won.\n", 1.0, is_over=True, is_success=True)
        if self.state.is_lost:
            return Outcome(f"{reply} You have lost.\n", 0.0, is_over=True)
        return Outcome(self._describe(reply, is_new=self.state.room != room), 0.0)

    def _describe(self, reply: str, is_new: bool) -> str:
        """The observation.

        Args:
            reply: What the last command did.
            is_new: Whether the agent has just come into the room.
        """
        seen, parts = text_world.seen(self.state), [reply]
        if self.observed == "fully":
            parts = [f"You are in the {self.state.room}. {seen}", text_world.carried(self.state), reply]
        elif is_new:
            parts = [f"{reply} {seen}"]
        return "\n".join([*parts, f"Admissible commands: {', '.join(text_world.commands(self.state))}"]) + "\n"

    def _get(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "room": self.state.room,
            "places": list(self.state.places),
            "opened": sorted(self.state.opened),
        }

    def _set(self, state: Mapping[str, Any]) -> None:
        self.start = str(state["start"])
        self.state = State(str(state["room"]), tuple(state["places"]), frozenset(state["opened"]))

    @property
    def state_key(self) -> Hashable:
        """The state of the house: it always begins alike, so the texts so far give it.

        The turn is left out, so that a state is the same whenever it is reached. Close to the limit of turns, equal states then differ in value.
        """
        return self.state

    def expert_action(self) -> str:
        """The next command of a shortest way to win."""
        return text_world.expert_command(self.state)

    def behaviour(self, rng: random.Random, follow: float = FOLLOW) -> Callable[[], str]:
        """An episode of the data, see the manual.

        Args:
            rng: Draws the policy and its commands.
            follow: Probability that the policy follows the walkthrough where it is an expert.

        Returns:
            A function that gives the command for the current state.
        """
        rooms = rng.choices([rooms for rooms, _ in POLICIES], [share for _, share in POLICIES])[0]
        plan: list[str] = []

        def act() -> str:
            if not plan and self.state.room in rooms and rng.random() < follow:
                plan.extend(walkthrough(self.state))
            return plan.pop(0) if plan else rng.choice(list(text_world.commands(self.state)))

        return act


class PartiallyObservedTextNav(TextNav):
    """`TextNav` in which observations say neither the room nor what is carried.

    `hidden_information` says where the episode started, the map, and where things were at the start. It is the same in every turn:
    the commands that the dialogue shows give the rest.
    """

    @property
    def hidden_information(self) -> str:
        """The room at the start, what was carried, the map, and where things were."""
        rooms = []
        for room, exits in EXITS.items():
            ways = ", ".join(f"{name} to the {target}" for name, target in sorted(exits.items()))
            things = [thing for thing, where in THINGS.items() if where == room]
            holds = f" Its {FURNITURE[room]} holds: {', '.join(things)}." if things else ""
            rooms.append(f"{room}: {ways}.{holds}")
        return "\n".join([f"The agent started in the {self.start} and carried nothing. The house:", *rooms])

    @property
    def state_key(self) -> Hashable:
        """The texts so far."""
        return tuple(message.text for message in self.history)


@typed
def make(observed: str = "fully", max_turns: int = 15, render_mode: str | None = None) -> TextNav:
    """Build the environment of the id LMRL-TextNav-v0; the manual of `TextNav` has the arguments.

    Returns:
        A `TextNav`, which hides nothing, or a `PartiallyObservedTextNav`.

    Raises:
        ValueError: If an argument is wrong.
    """
    if observed not in OBSERVED:
        raise ValueError(f"`observed` must be one of {', '.join(map(repr, OBSERVED))}, got {observed!r}.")
    return (TextNav if observed == "fully" else PartiallyObservedTextNav)(observed, max_turns, render_mode)


def walkthrough(state: State) -> list[str]:
    """The expert's commands until it leaves the room or wins."""
    steps, room = list[str](), state.room
    while state.room == room and not state.is_won:
        steps.append(text_world.expert_command(state))
        state = text_world.answer(state, steps[-1])[1]
    return steps
