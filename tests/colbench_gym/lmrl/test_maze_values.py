"""The exact values against breadth-first search, playing in the environment, recursion, and the closed form of a random walk."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from colbench_gym.lmrl.maze import OBSERVED, make
from colbench_gym.lmrl.maze_beliefs import optimal_walls_return
from colbench_gym.lmrl.maze_values import (
    COMMANDS,
    NUM_ACTIONS,
    dialogue_advantages,
    exact_advantages,
    optimal_policy,
    optimal_values,
    policy_values,
    uniform_policy,
)
from colbench_gym.lmrl.mazes import LAYOUTS

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


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_the_experts_policy_has_the_optimal_values(discount):
    for layout in LAYOUTS.values():
        best, expert = optimal_values(layout, discount), policy_values(layout, optimal_policy(layout), discount)
        np.testing.assert_allclose(best.v, expert.v, atol=1e-12)
        np.testing.assert_allclose(best.q, expert.q, atol=1e-12)


def test_a_random_policys_values_solve_bellmans_equation():
    layout, rng = LAYOUTS["double_t"], np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(NUM_ACTIONS), size=len(layout.cells))
    for discount in (1.0, 0.97):
        values = policy_values(layout, policy, discount)
        v = dict(zip(layout.cells, values.v, strict=True))
        for cell in layout.starts:
            row, total = layout.cells.index(cell), 0.0
            for column, action in enumerate(ACTIONS):
                target = layout.after(cell, action)
                reward = 0 if target == layout.goal else -4 if action == "unknown" else -1
                q = reward + discount * v[target]
                assert values.q[row, column] == pytest.approx(q)
                total += policy[row, column] * q
            assert values.v[row] == pytest.approx(total)
        assert v[layout.goal] == 0 and not values.q[layout.cells.index(layout.goal)].any()


def test_a_random_walk_on_the_u_has_its_closed_form():
    # On a path of n + 1 cells with a wall at its far end, moving either way with probability 1/4, the expected moves from d cells away are
    # 2 (2 n d + d - d^2); the last of them costs nothing.
    layout = LAYOUTS["umaze"]
    values, n = policy_values(layout, uniform_policy(layout)), 6
    for cell in layout.starts:
        d = layout.distance[cell]
        assert values.v[layout.cells.index(cell)] == pytest.approx(1 - 2 * (2 * n * d + d - d * d))


def test_values_agree_with_play():
    layout, rng = LAYOUTS["umaze"], np.random.default_rng(1)
    policy = np.tile([0.1, 0.3, 0.3, 0.2, 0.1], (len(layout.cells), 1))
    env, returns = make("umaze", max_turns=10_000), []
    for _ in range(150):
        env.reset(options={"position": (3, 1)})
        is_over = False
        while not is_over:
            row = layout.cells.index(env.position)
            *_, is_over, _, info = env.step(ACTIONS[rng.choice(NUM_ACTIONS, p=policy[row])])
        returns.append(info["metrics"]["return"])
    exact = policy_values(layout, policy).v[layout.cells.index((3, 1))]
    assert abs(np.mean(returns) - exact) < 4 * np.std(returns) / len(returns) ** 0.5


def test_advantages_of_messages():
    texts = ["move right\n", " move left", "move down", "go right", ""]
    assert exact_advantages([1, 1], texts) == [0.0, -1.0, -1.0, -4.0, -4.0]
    assert exact_advantages((1, 2), texts) == [0.0, -2.0, -1.0, -4.0, -4.0]
    layout = LAYOUTS["double_t"]
    policy = uniform_policy(layout)
    found = exact_advantages((5, 6), list(ACTIONS), policy=policy)
    assert sum(found[:4]) == pytest.approx(0) and max(found) == found[COMMANDS.index("move down\n")]
    assert exact_advantages((3, 1), ["move up"], maze="umaze", discount=0.5) == [0.0]


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


def test_wrong_policies_and_positions_are_refused():
    layout = LAYOUTS["umaze"]
    stuck = np.zeros((7, NUM_ACTIONS))
    stuck[:, 0] = 1
    with pytest.raises(ValueError, match=r"`policy` must reach the goal from every cell, or its values are infinite; choose"):
        policy_values(layout, stuck)
    assert policy_values(layout, stuck, 0.5).v[layout.cells.index((3, 1))] == pytest.approx(-2)
    for wrong in (np.ones((7, 4)) / 4, np.ones((7, 5)), np.tile([1.5, -0.5, 0, 0, 0], (7, 1))):
        with pytest.raises(ValueError, match=r"`policy` must have the shape \(7, 5\) and probabilities that sum to 1"):
            policy_values(layout, wrong)
    for position in ((3, 3), (0, 0)):
        with pytest.raises(ValueError, match=r"`position` must be a free cell of 'umaze' that is not the goal, got \("):
            exact_advantages(position, ["move up"], "umaze")


def _groups(layout, cells):
    """Cells by what an agent that sees walls alone sees there; the goal ends the episode."""
    seen = {}
    for r, c in sorted(set(cells) - {layout.goal}):
        walls = tuple(layout.is_wall(one) for one in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)))
        seen.setdefault(walls, []).extend([(r, c)] * cells.count((r, c)))
    return [tuple(group) for group in seen.values()]


@cache
def _best(maze, group, depth):
    """Best total return in `depth` turns from equally likely cells that look alike, by recursion over turns."""
    if depth == 0:
        return 0
    layout, totals = LAYOUTS[maze], []
    for command in COMMANDS:
        groups = _groups(layout, [layout.after(cell, command) for cell in group])
        totals.append(sum(_best(maze, one, depth - 1) - len(one) for one in groups))
    return max(totals)


@pytest.mark.parametrize(("maze", "depth", "total"), [("umaze", 6, -17), ("double_t", 13, -181)])
def test_the_optimum_that_sees_walls_alone(maze, depth, total):
    layout = LAYOUTS[maze]
    for turns in (depth, depth + 1):  # the limit of turns no longer matters
        assert sum(_best(maze, group, turns) for group in _groups(layout, layout.starts)) == total
    assert optimal_walls_return(layout) == total / len(layout.starts)
