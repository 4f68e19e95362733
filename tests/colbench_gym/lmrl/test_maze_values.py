"""The exact values against breadth-first search and playing in the environment."""

from __future__ import annotations

import numpy as np
import pytest

from colbench_gym.lmrl.maze.layouts import LAYOUTS
from colbench_gym.lmrl.maze.maze import OBSERVED, make
from colbench_gym.lmrl.maze.maze_values import (
    COMMANDS,
    dialogue_advantages,
    exact_advantages,
    optimal_values,
)

ACTIONS = (*COMMANDS, "unknown")


@pytest.mark.parametrize("maze", LAYOUTS)
def test_the_optimum_is_the_shortest_way(maze):
    layout = LAYOUTS[maze]
    values = optimal_values(layout)
    assert [float(v) for v in values.v] == [-max(layout.distance[cell] - 1, 0) for cell in layout.cells]
    for cell in layout.starts:
        row = layout.cells.index(cell)
        for column, action in enumerate(ACTIONS):
            env = make(maze)
            env.reset(options={"position": cell})
            reward = env.step(action)[1]
            assert values.q[row, column] == reward + values.v[layout.cells.index(env.position)]
    assert (values.advantages.max(axis=1) == 0).all()


def test_the_papers_optimum_is_exact():
    assert optimal_values(LAYOUTS["double_t"]).mean_return == -6.84
    assert optimal_values(LAYOUTS["umaze"]).mean_return == -2.5


def test_advantages_of_messages():
    texts = ["move right\n", " move left", "move down", "go right", ""]
    assert exact_advantages([1, 1], texts) == [0.0, -1.0, -1.0, -4.0, -4.0]
    assert exact_advantages((1, 2), texts) == [0.0, -2.0, -1.0, -4.0, -4.0]


@pytest.mark.parametrize("observed", OBSERVED)
@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("maze", LAYOUTS)
def test_advantages_in_a_dialogue_are_those_of_the_position(maze, observed, faithful):
    arguments = {"maze": maze, "observed": observed, "faithful": faithful}
    env, rng, texts = make(**arguments), np.random.default_rng(2), [*COMMANDS, "move up", "x"]
    for seed in range(10):
        messages, is_over = [{"role": "user", "content": env.reset(seed=seed)[0]}], False
        while not is_over and len(messages) < 30:
            hidden = getattr(env, "hidden_information", "")
            found = dialogue_advantages(messages, hidden, texts, arguments)
            assert found == exact_advantages(env.position, texts, maze, faithful=faithful)
            assert found[4] == (-4 if faithful else found[COMMANDS.index("move up\n")]) and found[5] == -4
            action = texts[rng.integers(len(texts))]
            observation, _, is_over, _, _ = env.step(action)
            messages += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]


def test_a_dialogue_without_a_position_is_refused():
    with pytest.raises(ValueError) as error:
        dialogue_advantages([{"role": "user", "content": "There is a wall above you.\n"}], "", ["move up"], {})
    assert str(error.value) == (
        "Expected a position in the last message, or a start in `hidden`, got neither; pass the environment's own texts."
    )


def test_wrong_positions_are_refused():
    for position in ((3, 3), (0, 0)):
        with pytest.raises(ValueError, match=r"`position` must be a free cell of 'umaze' that is not the goal, got \("):
            exact_advantages(position, ["move up"], "umaze")
