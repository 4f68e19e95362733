"""The house by search: everything is reachable, exactly the listed commands change something, and the expert is optimal from every state."""

from __future__ import annotations

import random
from collections import deque

import pytest

from colbench_gym.lmrl.text_nav.text_world import (
    CONTAINERS,
    EATEN,
    EDIBLE,
    EXITS,
    FOOD,
    FURNITURE,
    HAND,
    NOTHING_HAPPENS,
    THINGS,
    answer,
    begin,
    commands,
    direction,
    expert_command,
    seen,
)  # fmt: skip

OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
NAMES = sorted(set(FURNITURE.values()))
#: Every text of the form of a command.
FORMS = [
    *(f"go {direction}" for direction in OPPOSITE),
    *(f"{verb} {name}" for verb in ("open", "close") for name in NAMES),
    *(f"{verb} {thing}" for verb in ("take", "drop", "eat") for thing in THINGS),
    *(f"take {thing} from {name}" for thing in THINGS for name in NAMES),
    *(
        f"{verb} {thing} {side} {name}"
        for thing in THINGS
        for name in NAMES
        for verb, side in (("put", "on"), ("insert", "into"))
    ),
]


def _walk(seed, steps):
    """States of a random walk."""
    rng = random.Random(seed)
    state = begin(rng.choice(list(EXITS)))
    for _ in range(steps):
        state = commands(state)[rng.choice(list(commands(state)))][1]
        yield state


def _is_possible(state, command):
    """The rules once more, by command instead of by state."""
    verb, _, rest = command.partition(" ")
    here = FURNITURE.get(state.room)
    is_open = here is not None and (here not in CONTAINERS or here in state.opened)
    if verb == "go":
        return rest in EXITS[state.room]
    if verb in ("open", "close"):
        return rest == here and rest in CONTAINERS and (rest in state.opened) == (verb == "close")
    for middle in (" from ", " on ", " into "):
        thing, found, name = rest.partition(middle)
        if found and thing in THINGS:
            if name != here or not is_open:
                return False
            if verb == "take":
                return state.place(thing) == f"furniture of {state.room}"
            return state.place(thing) == HAND and (verb == "insert") == (name in CONTAINERS)
    if verb == "take":
        return state.place(rest) == f"floor of {state.room}"
    return state.place(rest) == HAND and (verb == "drop" or rest in EDIBLE)


def test_the_map_is_symmetric():
    assert len(EXITS) == 8 and set(FURNITURE) <= set(EXITS) and set(THINGS.values()) <= set(FURNITURE)
    for room, exits in EXITS.items():
        for name, target in exits.items():
            assert EXITS[target][OPPOSITE[name]] == room


def test_exactly_the_listed_commands_change_something():
    for seed in range(12):
        for state in _walk(seed, 12):
            listed = commands(state)
            assert list(listed) == sorted(listed) and set(listed) <= set(FORMS)
            for command in FORMS:
                said, after = answer(state, command)
                assert (after != state) == (command in listed) == _is_possible(state, command)
                assert (said == NOTHING_HAPPENS) == (command not in listed)


def test_each_command_moves_what_it_names():
    for state in _walk(99, 400):
        for command, (_, after) in commands(state).items():
            verb, _, rest = command.partition(" ")
            changed = [thing for thing in THINGS if after.place(thing) != state.place(thing)]
            thing = next((one for one in THINGS if rest.startswith(one)), None)
            assert changed == ([thing] if verb in ("take", "drop", "eat", "put", "insert") else [])
            assert (after.room != state.room) == (verb == "go") and (after.opened != state.opened) == (
                verb in ("open", "close")
            )
            place = {"take": HAND, "eat": EATEN, "drop": f"floor of {state.room}"}.get(verb, f"furniture of {state.room}")
            assert not changed or after.place(thing) == place


@pytest.mark.parametrize("thing", THINGS)
def test_every_room_is_reachable_and_everything_can_be_held(thing):
    start = begin("garden")
    found, waiting = {(start.room, start.place(thing), start.opened)}, deque([start])
    while waiting:
        for _, after in commands(waiting.popleft()).values():
            if (key := (after.room, after.place(thing), after.opened)) not in found:
                found.add(key)
                waiting.append(after)
    assert {room for room, _, _ in found} == set(EXITS)
    assert HAND in {place for _, place, _ in found}
    assert len({place for _, place, _ in found}) == 8 + 5 + 1 + (thing in EDIBLE)


def _key(state):
    """What winning depends on: the room, where the stale food is, and what is open."""
    return state.room, state.place(FOOD), state.opened


def test_winning_depends_on_the_key_alone():
    successors = {}
    for seed in range(12):
        for state in _walk(seed, 150):
            found = {_key(after) for _, after in commands(state).values()} - {_key(state)}
            assert successors.setdefault(_key(state), found) == found


def test_the_expert_is_optimal_from_every_state():
    # Backwards from the states that are won, over the keys: a thing other than the stale food changes none of their steps (the test above).
    states, waiting = {_key(begin(room)): begin(room) for room in EXITS}, deque(begin(room) for room in EXITS)
    before = {}
    while waiting:
        state = waiting.popleft()
        if state.is_won or state.is_lost:
            continue
        for _, after in commands(state).values():
            before.setdefault(_key(after), set()).add(_key(state))
            if _key(after) not in states:
                states[_key(after)] = after
                waiting.append(after)
    turns = {key: 0 for key, state in states.items() if state.is_won}
    waiting = deque(turns)
    while waiting:
        key = waiting.popleft()
        for one in before.get(key, ()):
            if one not in turns:
                turns[one] = turns[key] + 1
                waiting.append(one)
    assert len(states) > 400 and set(turns) == {key for key, state in states.items() if not state.is_lost}
    for key, state in states.items():
        if not state.is_won and not state.is_lost:
            after = commands(state)[expert_command(state)][1]
            assert turns[_key(after)] == turns[key] - 1
    starts = {room: turns[_key(begin(room))] for room in EXITS}
    assert list(starts.values()) == [7, 6, 7, 8, 9, 9, 7, 8]


def test_only_the_closed_fridge_with_the_stale_food_wins():
    state = begin("kitchen").moved(FOOD, HAND)
    assert not state.is_won and "insert stale food into fridge" not in commands(state)
    for command, is_won in (
        ("open fridge", False),
        ("close fridge", False),
        ("open fridge", False),
        ("insert stale food into fridge", False),
        ("close fridge", True),
    ):
        state = answer(state, command)[1]
        assert state.is_won == is_won and not state.is_lost


def test_looking_changes_nothing_and_is_answered():
    state = begin("office").moved("bowl", "floor of office").moved("plate", HAND)
    assert seen(state) == "There is a closed chest. On the floor: bowl. Exits: east, north."
    answers = {
        "look": seen(state), "inventory": "You carry: plate.", "examine chest": "The chest is closed.",
        "examine bowl": "The bowl: not food.", "examine utensils": NOTHING_HAPPENS, "examine": NOTHING_HAPPENS,
    }  # fmt: skip
    for command, said in answers.items():
        assert answer(state, command) == (said, state)
    opened = answer(state, "open chest")[1]
    assert answer(opened, "examine chest")[0] == "In the chest: utensils."
    assert answer(opened, "examine utensils")[0] == "The utensils: not food."


def test_directions_are_of_shortest_ways():
    for start in EXITS:
        distance, waiting = {start: 0}, deque([start])
        while waiting:
            room = waiting.popleft()
            for target in EXITS[room].values():
                if target not in distance:
                    distance[target] = distance[room] + 1
                    waiting.append(target)
        for goal in set(EXITS) - {start}:
            room, steps = start, 0
            while room != goal:
                room, steps = EXITS[room][direction(room, goal)], steps + 1
            assert steps == distance[goal]
