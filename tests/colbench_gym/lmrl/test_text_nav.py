"""Text navigation: the game as an environment, what is hidden, and its data."""

from __future__ import annotations

import json
import random
import statistics

import gymnasium as gym
import pytest

from colbench_gym.lmrl.text_nav import text_world
from colbench_gym.lmrl.text_nav.text_nav import OBJECTIVE, POLICIES, ROOMS, PartiallyObservedTextNav, TextNav, make, walkthrough


def _in(room, **arguments):
    """A game and its first observation."""
    env = make(**arguments)
    return env, env.reset(seed=0, options={"room": room})[0]


def test_observations_say_room_and_hands_unless_partially_observed():
    listed = "Admissible commands: close fridge, eat stale food, go east, go north, go west, insert stale food into fridge, drop stale food, take fruit from fridge"
    listed = "Admissible commands: " + ", ".join(sorted(listed.removeprefix("Admissible commands: ").split(", "))) + "\n"
    walk = ("take stale food from table", "go west", "go west", "open fridge")
    full, _ = _in("living room")
    part, _ = _in("living room", observed="partially")
    texts = [(full.step(command)[0], part.step(command)[0]) for command in walk]
    assert texts[-1][1] == f"You open the fridge. In the fridge: fruit.\n{listed}"
    place = "You are in the kitchen. There is an open fridge. In the fridge: fruit. Exits: east, north, west.\nYou carry: stale food.\n"
    assert texts[-1][0] == place + texts[-1][1]
    assert texts[1][1].startswith("You go west. There is a table. On the table: coffee cup, plate. Exits: east, west.\nAdm")
    assert part.step("inventory")[0] == f"You carry: stale food.\n{listed}"


def test_the_first_observation():
    full, text = _in("garden")
    rest = "Admissible commands: go south\n"
    assert text == f"You are in the garden. Exits: south.\nYou carry: nothing.\n{OBJECTIVE}\n{rest}"
    assert _in("garden", observed="partially")[1] == f"{OBJECTIVE} Exits: south.\n{rest}"


def test_partial_observations_never_name_a_room_after_the_objective():
    env = make("partially", max_turns=60)
    for seed in range(20):
        texts, act, is_over = [env.reset(seed=seed)[0]], env.behaviour(random.Random(seed)), False
        while not is_over:
            observation, _, terminated, truncated, _ = env.step(act())
            texts.append(observation)
            is_over = terminated or truncated
        assert texts[0].startswith(OBJECTIVE)
        assert not [text for text in [texts[0].removeprefix(OBJECTIVE), *texts[1:]] for room in ROOMS if room in text]


@pytest.mark.parametrize(
    ("room", "turns"), [("bedroom", 7), ("living room", 6), ("kitchen", 8), ("garden", 9), ("backyard", 9)]
)
def test_the_expert_wins_from_every_room(room, turns):
    env, _ = _in(room)
    rewards = []
    for _ in range(turns):
        _, reward, terminated, truncated, info = env.step(env.expert_action())
        rewards.append(reward)
    assert rewards == [0.0] * (turns - 1) + [1.0] and terminated and not truncated
    assert info == {"success": True, "metrics": {"outcome": "ended", "success": 1, "return": 1.0, "turns": turns}}


def test_eating_the_stale_food_fails_and_other_food_does_not():
    env, _ = _in("living room")
    for command in ("take fresh food from table", "eat fresh food", "take stale food from table"):
        assert env.step(command)[1:4] == (0.0, False, False)
    observation, reward, terminated, truncated, info = env.step("EAT  stale food\n")
    assert (observation, reward, terminated, truncated) == ("You eat the stale food. You have lost.\n", 0.0, True, False)
    assert not info["success"] and info["metrics"]["outcome"] == "ended"


def test_unknown_commands_are_answered_and_cost_a_turn():
    env, _ = _in("garden")
    for number, action in enumerate(
        ("", "go north", "dance", "take stale food from table", "open fridge", "examine bowl"), start=1
    ):
        observation, reward, terminated, _, _ = env.step(action)
        assert observation.splitlines()[2] == text_world.NOTHING_HAPPENS and reward == 0.0 and not terminated
        assert env.turn == number and env.state == text_world.begin("garden")


def test_the_limit_truncates():
    env, _ = _in("garden")
    ends = [env.step("look")[2:] for _ in range(15)]
    assert ends[13][:2] == (False, False) and ends[14][:2] == (False, True) and ends[14][2]["metrics"]["outcome"] == "cut"


def test_every_room_is_a_start():
    env, starts = make(), set()
    for seed in range(60):
        env.reset(seed=seed)
        starts.add(env.start)
    assert starts == set(ROOMS)


def test_hidden_information_is_only_where_something_is_hidden_and_does_not_change():
    assert type(make()) is TextNav and not hasattr(gym.make("LMRL-TextNav-v0").unwrapped, "hidden_information")
    env, _ = _in("backyard", observed="partially")
    hidden = env.hidden_information
    assert type(env) is PartiallyObservedTextNav
    assert hidden.startswith(
        "The agent started in the backyard and carried nothing. The house:\nbedroom: south to the bathroom, west to"
    )
    assert (
        "\nliving room: east to the bedroom, south to the office, west to the dining room. Its table holds: stale food, fresh food.\n"
        in hidden
    )
    for _ in range(5):
        env.step(env.expert_action())
    assert env.hidden_information == hidden


def test_the_key_is_the_house_or_the_texts():
    keys = {}
    for observed in ("fully", "partially"):
        one, _ = _in("garden", observed=observed)
        other, _ = _in("kitchen", observed=observed)
        one.step("go south")
        keys[observed] = one.state_key == other.state_key
    assert keys == {"fully": True, "partially": False}


def test_a_walkthrough_is_the_experts_way_out_of_the_room():
    assert walkthrough(text_world.begin("living room")) == ["take stale food from table", "go west"]
    held = text_world.begin("living room").moved("stale food", text_world.HAND)
    assert walkthrough(held) == ["go west"]
    kitchen = text_world.begin("kitchen").moved("stale food", text_world.HAND)
    assert walkthrough(kitchen) == ["open fridge", "insert stale food into fridge", "close fridge"]
    assert walkthrough(text_world.begin("kitchen")) == ["go east"]


def test_the_data_has_two_policies_that_follow_only_where_they_are_experts():
    shares = [share for _, share in POLICIES]
    assert sum(shares) == 1 and sorted(room for rooms, _ in POLICIES for room in rooms) == sorted(ROOMS)
    env, followed = make(), {room: 0 for room in ROOMS}
    for room in ROOMS:
        for seed in range(150):
            env.reset(seed=0, options={"room": room})
            action = env.behaviour(random.Random(seed), follow=1.0)()
            assert action in text_world.commands(env.state)
            followed[room] += action == env.expert_action()
    for rooms, share in POLICIES:
        for room in rooms:
            chance = share + (1 - share) / len(text_world.commands(text_world.begin(room)))
            assert abs(followed[room] / 150 - chance) < 4 * (chance * (1 - chance) / 150) ** 0.5 + 1e-9


def test_the_data_succeeds_as_the_papers_only_if_it_follows_more_than_the_code_does():
    env, means = make(), {}
    for follow in (0.1, 0.9):
        returns = []
        for seed in range(120):
            env.reset(seed=seed)
            act, is_over, reward = env.behaviour(random.Random(seed), follow), False, 0.0
            while not is_over:
                _, reward, terminated, truncated, _ = env.step(act())
                is_over = terminated or truncated
            returns.append(reward)
        means[follow] = statistics.mean(returns)
    assert means[0.1] < 0.05 < 0.1 < means[0.9] < 0.35


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError) as error:
        make(observed="half")
    assert str(error.value) == "`observed` must be one of 'fully', 'partially', got 'half'."
    with pytest.raises(ValueError, match=r"`options\['room'\]` must be one of 'bedroom', .*, got 'attic'\."):
        make().reset(options={"room": "attic"})
    with pytest.raises(TypeError, match="faithful"):
        gym.make("LMRL-TextNav-v0", faithful=True)


def test_a_snapshot_restores_what_is_hidden_and_the_house():
    env, _ = _in("living room", observed="partially")
    for command in ("take stale food from table", "go west", "go west", "open fridge"):
        env.step(command)
    other = make("partially")
    other.set_state(json.loads(json.dumps(env.get_state())))
    assert (other.hidden_information, other.state_key, other.state) == (env.hidden_information, env.state_key, env.state)
    assert other.step("insert stale food into fridge") == env.step("insert stale food into fridge")


def test_a_refused_reset_leaves_no_episode_to_play():
    env, _ = _in("garden")
    with pytest.raises(ValueError, match="attic"):
        env.reset(options={"room": "attic"})
    with pytest.raises(gym.error.ResetNeeded):
        env.step("look")
