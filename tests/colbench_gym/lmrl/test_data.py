"""Data sets: rows that the trainer reads, the same for every size, with the statistics of the paper beside them."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

import colbench_gym
from colbench_gym.files import read_rows
from colbench_gym.lmrl.data import PAPER, as_lines, episodes, main, statistics
from sweetrl_agent.core.episode import SCHEMA, Episode

MAZE = "LMRL-Maze-v0"


def test_rows_are_the_trainers_episodes():
    for row in episodes(MAZE, 3, arguments={"observed": "partially", "max_turns": 5}):
        assert row["schema"] == SCHEMA
        episode = Episode.from_row(row)
        assert episode.to_row() == row
        assert len(episode.turns) == episode.metrics["turns"] and sum(turn.reward for turn in episode.turns) == episode.reward
        assert [said["role"] for said in episode.messages] == ["user", "assistant"] * len(episode.turns)
        assert [turn.text for turn in episode.turns] == [said["content"] for said in episode.messages[1::2]]
        assert episode.hidden.startswith("The agent started at")


def test_an_episode_can_be_played_again_by_its_task():
    (row,) = episodes(MAZE, 1, seed=3)
    env = gym.make(MAZE)
    observation, _ = env.reset(seed=int(row["task_id"]))
    for i, turn in enumerate(row["turns"]):
        assert row["dialogue_history"][2 * i] == {"role": "user", "content": observation}
        observation, reward, *_ = env.step(turn["text"])
        assert reward == turn["reward"]


def test_a_larger_data_set_begins_with_the_smaller_one_and_another_seed_gives_another():
    few, more, other = (list(episodes(MAZE, count, seed, {"max_turns": 4})) for count, seed in ((3, 0), (5, 0), (3, 1)))
    assert more[:3] == few and other != few


def test_the_expert_is_better_than_the_data():
    behaviour, expert = (statistics(list(episodes(MAZE, 40, policy=policy))) for policy in ("behaviour", "expert"))
    assert expert["return"][1] > behaviour["return"][2] and expert["success"][0] == 1.0
    for mean, low, high in behaviour.values():
        assert low <= mean <= high
    with pytest.raises(ValueError, match=r"`policy` must be one of \('behaviour', 'expert'\), got 'best'."):
        next(episodes(MAZE, 1, policy="best"))


def test_the_command_writes_a_file_and_prints_statistics(tmp_path, capsys):
    file = tmp_path / "maze.jsonl"
    assert main([MAZE, "--episodes", "4", "--env_kwargs", json.dumps({"max_turns": 3}), "--output", str(file)]) == 0
    rows = read_rows(file)
    assert rows == list(episodes(MAZE, 4, arguments={"max_turns": 3}))
    assert capsys.readouterr().out.splitlines() == as_lines(MAZE, rows)
    turns = as_lines(MAZE, rows)[2].split()
    assert turns[0] == "turns" and turns[-1] == "19.7" and float(turns[1]) <= 3


def test_every_game_has_the_papers_figures():
    assert set(PAPER) == {f"LMRL-{name}-v0" for name in colbench_gym.LMRL_GAMES}
