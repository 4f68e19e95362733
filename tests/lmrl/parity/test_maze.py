"""Maze against the original: whole histories, rewards and ends."""

from __future__ import annotations

import random

import pytest

from colbench_gym.lmrl.maze.layouts import MOVES
from colbench_gym.lmrl.maze.maze import make

MAZES = {"double_t": "double_t_maze", "umaze": "umaze"}
DESCRIBE = {
    "fully": "describe_observation_give_position",
    "goal_and_walls": "describe_observation",
    "partially": "describe_observation_only_walls",
}
UNKNOWN = ("move left", " move up\n", "Move up\n", "move top left\n", "move down\n\n", "north\n", "\n", "")
STEPS = 30_000


def _action(rng, expert, kind):
    """A message: of an expert, or a command, or no command; the kind of episode says how often each."""
    draw = rng.random()
    if draw < kind[0]:
        return expert()
    return rng.choice(UNKNOWN) if draw < kind[0] + kind[1] else rng.choice(list(MOVES))


@pytest.mark.parametrize("observed", DESCRIBE)
@pytest.mark.parametrize("maze", MAZES)
def test_histories_rewards_and_ends_are_the_originals(import_original, maze, observed):
    utils = import_original("llm_rl_scripts.maze.env.maze_utils")
    text = import_original("LLM_RL.environment").Text
    rng = random.Random(f"{maze} {observed}")
    steps, seed, seen = 0, 0, dict.fromkeys(("Success\n", "Failure\n", -4.0), 0)
    while steps < STEPS / (len(MAZES) * len(DESCRIBE)):
        seed += 1
        length, limit = rng.choice((1, 2, 7, 40)), rng.choice((3, 100))
        original = utils.setup_maze_env(MAZES[maze], DESCRIBE[observed], "standard_reward", last_k=length, max_steps=limit)
        ours = make(maze, observed, length, limit, faithful=True)
        start = rng.choice(ours.layout.starts) if seed % 3 == 0 else None
        theirs = original.reset(seed, None if start is None else {"init_position": start})
        ours.reset(seed=seed, options=None if start is None else {"position": start})
        kind, done = rng.choice(((0.0, 0.0), (0.0, 0.2), (0.0, 1.0), (0.6, 0.1), (1.0, 0.0))), False
        while not done:
            assert [(said.text, said.is_action) for said in ours.history] == [(one.text, one.is_action) for one in theirs]
            action = _action(rng, ours.expert_action, kind)
            theirs, reward, done = original.step((*theirs, text(action, True)))
            observation, *rest = ours.step(action)[:4]
            assert (observation, *rest) == (theirs[-1].text, reward, done, False)
            steps += 1
            for key in (observation, reward):
                seen[key] = seen.get(key, 0) + 1
        assert [(said.text, said.is_action) for said in ours.history] == [(one.text, one.is_action) for one in theirs]
        assert tuple(original.position) == ours.position
    assert min(seen[key] for key in ("Success\n", "Failure\n", -4.0)) >= 5
