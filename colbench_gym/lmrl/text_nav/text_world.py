"""A small interpreter of the house of text navigation: rooms, things, the commands that change something, and what they do.

A state is a value; the interpreter has none of its own. That is what makes exact search possible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

#: Room -> direction -> room.
EXITS: Mapping[str, Mapping[str, str]] = {
    "bedroom": {"west": "living room", "south": "bathroom"},
    "living room": {"east": "bedroom", "west": "dining room", "south": "office"},
    "dining room": {"east": "living room", "west": "kitchen"},
    "kitchen": {"east": "dining room", "north": "garden", "west": "backyard"},
    "garden": {"south": "kitchen"},
    "backyard": {"east": "kitchen"},
    "office": {"north": "living room", "east": "bathroom"},
    "bathroom": {"north": "bedroom", "west": "office"},
}
#: Furniture: room -> its name. A table holds things on it; a chest or a fridge in it, while it is open.
FURNITURE: Mapping[str, str] = {
    "bedroom": "table",
    "living room": "table",
    "dining room": "table",
    "office": "chest",
    "kitchen": "fridge",
}
CONTAINERS = frozenset({"chest", "fridge"})
#: Things -> the room whose furniture they start at.
THINGS: Mapping[str, str] = {
    "stale food": "living room",
    "fresh food": "living room",
    "bowl": "bedroom",
    "coffee cup": "dining room",
    "plate": "dining room",
    "utensils": "office",
    "fruit": "kitchen",
}
FOOD, GOAL_ROOM = "stale food", "kitchen"
EDIBLE = frozenset({"stale food", "fresh food", "fruit"})
#: Places of things beside floors ("floor of ROOM") and furniture ("furniture of ROOM").
HAND, EATEN = "hand", "eaten"
NOTHING_HAPPENS = "Nothing happens: that is not possible here."


@dataclass(frozen=True)
class State:
    """Where everything is.

    Attributes:
        room: The room of the agent.
        places: The place of each thing, in the order of `THINGS`.
        opened: Containers that are open.
    """

    room: str
    places: tuple[str, ...]
    opened: frozenset[str] = frozenset()

    def place(self, thing: str) -> str:
        """The place of a thing."""
        return self.places[list(THINGS).index(thing)]

    def at(self, place: str) -> list[str]:
        """The things of a place, in the order of `THINGS`."""
        return [thing for thing, where in zip(THINGS, self.places, strict=True) if where == place]

    def moved(self, thing: str, place: str) -> State:
        """The state after a thing has moved."""
        return replace(
            self, places=tuple(place if name == thing else where for name, where in zip(THINGS, self.places, strict=True))
        )

    @property
    def is_won(self) -> bool:
        """Whether the stale food is in the closed fridge."""
        return self.place(FOOD) == furniture_of(GOAL_ROOM) and FURNITURE[GOAL_ROOM] not in self.opened

    @property
    def is_lost(self) -> bool:
        """Whether the stale food is eaten."""
        return self.place(FOOD) == EATEN


def begin(room: str) -> State:
    """The house with the agent in a room."""
    return State(room, tuple(furniture_of(where) for where in THINGS.values()))


def furniture_of(room: str) -> str:
    """The place at the furniture of a room."""
    return f"furniture of {room}"


def floor_of(room: str) -> str:
    """The place on the floor of a room."""
    return f"floor of {room}"


def commands(state: State) -> dict[str, tuple[str, State]]:
    """The commands that change the state, sorted: command -> what is said, the next state."""
    possible = {**dict(_walks(state)), **dict(_of_furniture(state)), **dict(_of_hands(state))}
    return {command: possible[command] for command in sorted(possible)}


def answer(state: State, command: str) -> tuple[str, State]:
    """What a command does: one of `commands`, or "look", "inventory", "examine THING", which change nothing; others are not possible."""
    offered = commands(state)
    if command in offered:
        return offered[command]
    if command == "look":
        return seen(state), state
    if command == "inventory":
        return carried(state), state
    verb, _, thing = command.partition(" ")
    if verb == "examine" and thing in _near(state):
        return _examined(state, thing), state
    return NOTHING_HAPPENS, state


def seen(state: State) -> str:
    """What is seen in the room, without its name."""
    parts, furniture = [], FURNITURE.get(state.room)
    if furniture in CONTAINERS:
        parts.append(f"There is {'an open' if furniture in state.opened else 'a closed'} {furniture}.")
    elif furniture:
        parts.append(f"There is a {furniture}.")
    if furniture and _is_accessible(state):
        parts.append(_content(state, furniture))
    if floor := state.at(floor_of(state.room)):
        parts.append(f"On the floor: {', '.join(floor)}.")
    parts.append(f"Exits: {', '.join(sorted(EXITS[state.room]))}.")
    return " ".join(parts)


def carried(state: State) -> str:
    """What the agent carries."""
    return f"You carry: {', '.join(state.at(HAND)) or 'nothing'}."


@cache
def direction(start: str, goal: str) -> str:
    """The first step of a shortest way between two different rooms."""
    first, waiting = {start: ""}, deque([start])
    while goal not in first:
        room = waiting.popleft()
        for name, target in sorted(EXITS[room].items()):
            if target not in first:
                first[target] = first[room] or name
                waiting.append(target)
    return first[goal]


def expert_command(state: State) -> str:
    """The next command of a shortest way to win, from any state that is neither won nor lost."""
    place, fridge = state.place(FOOD), FURNITURE[GOAL_ROOM]
    goal = GOAL_ROOM if place in (HAND, furniture_of(GOAL_ROOM)) else place.partition(" of ")[2]
    if state.room != goal:
        return f"go {direction(state.room, goal)}"
    if place == HAND:
        return f"insert {FOOD} into {fridge}" if fridge in state.opened else f"open {fridge}"
    if place == furniture_of(GOAL_ROOM):
        return f"close {fridge}"
    if place == floor_of(goal):
        return f"take {FOOD}"
    return f"take {FOOD} from {FURNITURE[goal]}" if _is_accessible(state) else f"open {FURNITURE[goal]}"


def _walks(state: State) -> Iterator[tuple[str, tuple[str, State]]]:
    for name, room in EXITS[state.room].items():
        yield f"go {name}", (f"You go {name}.", replace(state, room=room))


def _of_furniture(state: State) -> Iterator[tuple[str, tuple[str, State]]]:
    """Opening, closing, and taking from furniture or from the floor."""
    room, furniture = state.room, FURNITURE.get(state.room, "")
    if furniture in CONTAINERS:
        after = replace(state, opened=state.opened ^ {furniture})
        if furniture in state.opened:
            yield f"close {furniture}", (f"You close the {furniture}.", after)
        else:
            yield f"open {furniture}", (f"You open the {furniture}. {_content(state, furniture)}", after)
    for thing in state.at(floor_of(room)):
        yield f"take {thing}", (f"You take the {thing} from the floor.", state.moved(thing, HAND))
    if furniture and _is_accessible(state):
        for thing in state.at(furniture_of(room)):
            yield f"take {thing} from {furniture}", (f"You take the {thing} from the {furniture}.", state.moved(thing, HAND))


def _of_hands(state: State) -> Iterator[tuple[str, tuple[str, State]]]:
    """Dropping, putting, inserting and eating what is carried."""
    room, furniture = state.room, FURNITURE.get(state.room, "")
    for thing in state.at(HAND):
        yield f"drop {thing}", (f"You drop the {thing}.", state.moved(thing, floor_of(room)))
        if furniture and _is_accessible(state):
            verb, side = ("insert", "into") if furniture in CONTAINERS else ("put", "on")
            after = state.moved(thing, furniture_of(room))
            yield f"{verb} {thing} {side} {furniture}", (f"You {verb} the {thing} {side} the {furniture}.", after)
        if thing in EDIBLE:
            yield f"eat {thing}", (f"You eat the {thing}.", state.moved(thing, EATEN))


def _is_accessible(state: State) -> bool:
    """Whether things can be taken from the furniture of the room, and seen there."""
    furniture = FURNITURE.get(state.room)
    return furniture is not None and (furniture not in CONTAINERS or furniture in state.opened)


def _content(state: State, furniture: str) -> str:
    things = ", ".join(state.at(furniture_of(state.room))) or "nothing"
    return f"{'In' if furniture in CONTAINERS else 'On'} the {furniture}: {things}."


def _near(state: State) -> list[str]:
    """What can be examined."""
    furniture = FURNITURE.get(state.room)
    there = state.at(furniture_of(state.room)) if _is_accessible(state) else []
    return [*([furniture] if furniture else []), *there, *state.at(floor_of(state.room)), *state.at(HAND)]


def _examined(state: State, thing: str) -> str:
    if thing in THINGS:
        return f"The {thing}: " + ("food." if thing in EDIBLE else "not food.")
    return _content(state, thing) if _is_accessible(state) else f"The {thing} is closed."
