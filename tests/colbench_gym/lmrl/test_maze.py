"""Maze: its rules by hand, its arguments, what is hidden, and its data."""

from __future__ import annotations

import json
import random
import statistics

import gymnasium as gym
import pytest

from colbench_gym.lmrl.game import GameText
from colbench_gym.lmrl.maze.layouts import LAYOUTS, MOVES
from colbench_gym.lmrl.maze.maze import Maze, PartiallyObservedMaze, command_of, make, read_position

DOUBLE_T = LAYOUTS["double_t"]


def _at(position, **arguments):
    """A maze and its first observation."""
    env = make(**arguments)
    return env, env.reset(seed=0, options={"position": list(position)})[0]


def test_the_observations_say_goal_position_and_walls():
    walls = "There are walls to your left, above you, below you.\n"
    assert _at((1, 1))[1] == f"The goal is at position 8, 6. Your current position is at position 1, 1. {walls}"
    assert _at((1, 1), observed="goal_and_walls")[1] == f"The goal is at position 8, 6. {walls}"
    assert _at((1, 1), observed="partially")[1] == walls
    assert "position is at position 1, 1 1. There are walls to your right," in _at((1, 11))[1]
    assert _at((5, 6), observed="partially")[1] == "There is a wall above you.\n"


def test_moves_walls_unknown_commands_and_the_goal():
    env, _ = _at((7, 6))
    assert env.step("move left")[1:4] == (-1.0, False, False) and env.position == (7, 6)
    assert env.step("walk")[1:4] == (-4.0, False, False) and env.position == (7, 6)
    assert env.step(" move up\n\n")[1] == -1.0 and env.position == (6, 6)
    env.step("move down\n")
    observation, reward, terminated, truncated, info = env.step("move down")
    assert (observation, reward, terminated, truncated) == ("Success\n", 0.0, True, False)
    assert info == {"success": True, "metrics": {"outcome": "ended", "success": 1, "return": -7.0, "turns": 5}}


def test_the_limit_truncates():
    env, _ = _at((1, 1))
    ends = [env.step("move left") for _ in range(100)]
    assert [end[2:4] for end in ends[-2:]] == [(False, False), (False, True)]
    assert ends[-1][1] == -1.0 and ends[-1][4]["metrics"]["return"] == -100.0 and not ends[-1][4]["success"]


def test_faithful_ends_with_a_call_more():
    env, _ = _at((7, 6), faithful=True)
    for _ in range(100):
        assert env.step("move left\n")[1:4] == (-1.0, False, False)
    observation, reward, terminated, truncated, info = env.step("move down\n")
    assert (observation, reward, terminated, truncated) == ("Failure\n", -1.0, True, False)
    assert info["metrics"]["return"] == -101.0 and not info["success"] and env.position == (7, 6)


def test_faithful_needs_the_line_feed_and_forgets():
    for faithful in (False, True):
        env, first = _at((1, 1), faithful=faithful)
        env.step("move right\n")
        assert [said.text for said in env.history][:2] == [first, "move right\n"] and len(env.history) == 3
        observation, reward, *_ = env.step("move right")
        assert reward == (-4.0 if faithful else -1.0) and env.position == ((1, 2) if faithful else (1, 3))
        assert len(env.history) == (1 if faithful else 5) and env.history[-1] == GameText(observation, False)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_history_keeps_the_last_texts(length):
    env, observation = _at((1, 1), history_length=length)
    texts = [observation]
    for action in ("move right", "x", "move left", "move up"):
        texts += [action, env.step(action)[0]]
        assert [said.text for said in env.history] == texts[-length:]


def test_a_seed_starts_where_the_original_does():
    for seed in range(30):
        rng = random.Random(seed)
        rng.choice([[8, 6]])
        env = make()
        env.reset(seed=seed)
        cells = [(r, c) for r in range(10) for c in range(13) if DOUBLE_T.rows[r][c] not in "#G"]
        assert env.position == rng.choice(cells) and len(cells) == 25


def test_hidden_information_is_only_where_something_is_hidden_and_does_not_change():
    assert type(make()) is Maze and not hasattr(make(), "hidden_information")
    assert not hasattr(gym.make("LMRL-Maze-v0", observed="fully").unwrapped, "hidden_information")
    for observed in ("partially", "goal_and_walls"):
        env, _ = _at((1, 2), observed=observed, maze="umaze")
        assert type(env) is PartiallyObservedMaze
        expected = (
            "The agent started at row 1, column 2. The goal is at row 3, column 3.\n"
            'Map (row 0 on top, "#" wall, "." free, "G" goal):\n#####\n#...#\n#.#.#\n#.#G#\n#####'
        )
        assert env.hidden_information == expected
        env.step("move right")
        assert env.hidden_information == expected


def test_the_key_is_what_the_agent_knows():
    env, _ = _at((1, 2))
    other, _ = _at((1, 3))
    other.step("move left")
    assert env.state_key == other.state_key == (1, 2)
    env, _ = _at((1, 2), observed="partially")
    other, _ = _at((1, 8), observed="partially")
    assert env.state_key == other.state_key
    env.step("move right")
    other.step("move left")
    assert env.state_key != other.state_key


def test_positions_are_read_from_observations():
    for cell in DOUBLE_T.starts:
        assert read_position(_at(cell)[1]) == cell
        assert read_position(_at(cell, observed="goal_and_walls")[1]) is None
    assert command_of("  move up \n") == "move up\n" and command_of(" up ") == "up"


def test_a_distance_is_what_relaxation_finds():
    for layout in LAYOUTS.values():
        slow = {cell: 0 if cell == layout.goal else 99 for cell in layout.cells}
        for _ in layout.cells:
            for r, c in layout.starts:
                near = [slow.get(one, 99) for one in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1))]
                slow[r, c] = 1 + min(near)
        assert slow == layout.distance


def test_the_expert_takes_a_shortest_way_from_everywhere():
    for maze, layout in LAYOUTS.items():
        for cell in layout.starts:
            env, _ = _at(cell, maze=maze, observed="partially", faithful=True)
            turns = 0
            while env.position != layout.goal:
                *_, info = env.step(env.expert_action())
                turns += 1
            assert turns == layout.distance[cell] and info["metrics"]["return"] == 1 - turns


def test_sub_mazes_cover_the_maze_and_only_the_goals_own_has_no_exit():
    for layout in LAYOUTS.values():
        parts = {layout.part(cell) for cell in layout.cells}
        assert len(parts) == 3 and sorted(cell for part in parts for cell in part.cells) == layout.cells
        assert sorted(len(part.area - part.cells) for part in parts) == [0, 1, 1]
    assert layout.part((1, 1)).area - layout.part((1, 1)).cells == {(5, 3)}


def test_the_data_stays_in_its_sub_maze_and_has_the_papers_mean_return():
    env, returns = make(), []
    for seed in range(250):
        env.reset(seed=seed)
        act, area, is_over = env.behaviour(random.Random(seed)), DOUBLE_T.part(env.position).area, False
        while not is_over:
            action = act()
            assert action in MOVES
            *_, terminated, truncated, info = env.step(action)
            assert env.position in area
            is_over = terminated or truncated
        returns.append(info["metrics"]["return"])
        assert not info["success"] or env.layout.goal in area
    error = statistics.stdev(returns) / len(returns) ** 0.5
    assert abs(statistics.mean(returns) + 83) < 3 * error + 0.5  # -83 is rounded


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"maze": "large"}, "`maze` must be one of 'umaze', 'double_t', got 'large'."),
        ({"observed": "half"}, "`observed` must be one of 'fully', 'goal_and_walls', 'partially', got 'half'."),
        ({"history_length": 0}, "`history_length` must be positive, got 0."),
        ({"max_turns": 0}, "`max_turns` must be positive, got 0."),
        ({"max_turns": 0, "faithful": True}, "`max_turns` must be positive, got 0."),
    ],
)
def test_wrong_arguments_are_refused(arguments, text):
    with pytest.raises(ValueError) as error:
        make(**arguments)
    assert str(error.value) == text


@pytest.mark.parametrize("position", [[8, 6], [0, 0], [1], "1 1", 3])
def test_a_start_in_a_wall_or_at_the_goal_is_refused(position):
    with pytest.raises(ValueError) as error:
        make(maze="umaze").reset(options={"position": [3, 3] if position == [8, 6] else position})
    assert str(error.value).startswith("`options['position']` must be [row, column] of a free cell that is not the goal, got ")


@pytest.mark.parametrize("faithful", [False, True])
def test_a_snapshot_restores_what_is_hidden_and_the_history(faithful):
    env, _ = _at((1, 2), observed="partially", faithful=faithful)
    for action in ("move right\n", "x", "move down\n"):
        env.step(action)
    other = make(observed="partially", faithful=faithful)
    other.set_state(json.loads(json.dumps(env.get_state())))
    assert (other.hidden_information, other.state_key, other.position) == (env.hidden_information, env.state_key, (2, 3))
    assert other.step("move down\n") == env.step("move down\n") and other.history == env.history
