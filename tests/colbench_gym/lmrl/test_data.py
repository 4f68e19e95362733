"""Data sets: rows as the trainer reads and writes them, equal to a plain loop, seeds, statistics, and the command."""

from __future__ import annotations

import json
import random
import re
from statistics import mean

import gymnasium as gym
import pytest

import colbench_gym
from colbench_gym.lmrl import data
from colbench_gym.seeds import derive_seed
from sweetrl_agent.core.dialogues import TextDialogue
from sweetrl_agent.core.episode import SCHEMA, Episode

GAMES = [
    ("LMRL-CarDealer-v0", {"reward": "revenue"}),
    ("LMRL-Maze-v0", {"maze": "umaze", "max_turns": 15, "observed": "partially"}),
]


@pytest.mark.parametrize(("env_id", "kwargs"), GAMES)
def test_rows_are_the_trainers(env_id, kwargs):
    assert data.SCHEMA == SCHEMA
    for row in data.episodes(env_id, 3, 7, kwargs):
        assert {"env": env_id, "env_kwargs": kwargs, **Episode.from_row(row).to_row()} == row == json.loads(json.dumps(row))


@pytest.mark.parametrize(("env_id", "kwargs"), GAMES)
def test_a_row_is_what_the_trainer_sees_when_it_plays_the_same_actions(env_id, kwargs):
    rows = list(data.episodes(env_id, 5, 40, kwargs))
    assert [row["task_id"] for row in rows] == ["40", "41", "42", "43", "44"]
    for row in rows:
        episode = Episode.from_row(row)
        dialogue = TextDialogue(gym.make(env_id, **kwargs), {row["task_id"]: int(row["task_id"])}, "return", 0)
        dialogue.reset(options={"task_id": row["task_id"]})
        act = dialogue.env.unwrapped.behaviour(random.Random(derive_seed("lmrl behaviour", int(row["task_id"]))))
        for i, turn in enumerate(episode.turns, 1):
            assert episode.prefix(i) == dialogue.messages and act().strip() == turn.text
            assert dialogue.step(turn.text)[1] == turn.reward
        assert (dialogue.messages, dialogue.metrics) == (episode.messages, episode.metrics)
        assert dialogue.hidden_information == episode.hidden
        assert episode.reward == pytest.approx(episode.metrics["return"])


def test_an_episode_depends_on_its_own_seed_alone():
    together = list(data.episodes("LMRL-CarDealer-v0", 4, 10))
    assert list(data.episodes("LMRL-CarDealer-v0", 1, 12)) == together[2:3]
    assert len({json.dumps(row["dialogue_history"]) for row in together}) == 4


def test_every_game_has_its_published_statistics():
    assert list(data.PUBLISHED) == [f"LMRL-{name}-v0" for name in colbench_gym.LMRL_GAMES]


def test_the_table():
    played = [(turns, success, turns / 4) for turns, success in ((4, 1), (6, 0), (8, 0), (8, 1))]
    head, ours, paper = data.table("LMRL-CarDealer-v0", played)
    assert head.split() == ["episodes", "texts", "success", "return"]
    assert re.fullmatch(r"ours          4         13\.000 \(.* to .*\)  0\.500 \(0\.150 to 0\.850\)  1\.625 \(.* to .*\)", ours)
    assert paper.split()[2:] == ["19000", "16.5", "0.53", "0.562"]
    assert data.table("LMRL-Maze-v0", played)[1].split()[2] == "6.500"
    assert len(data.table("LMRL-Maze-v0", played, "expert")) == 2, "the paper's data are not of experts"


def test_the_command(tmp_path, capsys):
    path = tmp_path / "car.jsonl"
    command = ["LMRL-CarDealer-v0", "--episodes", "3", "--seed", "5", "--output", str(path), "--env_kwargs", '{"max_turns": 4}']
    assert data.main(command) == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == list(data.episodes("LMRL-CarDealer-v0", 3, 5, {"max_turns": 4}))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "LMRL-CarDealer-v0, seeds 5 to 7"
    assert printed[2].split()[:3] == ["ours", "3", f"{2 * mean(row['metrics']['turns'] for row in rows):.3f}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["LMRL-Golf-v0"], "`env_id` must be one of ('LMRL-Maze-v0', "),
        (["LMRL-CarDealer-v0", "--episodes", "0"], "`--episodes` must be positive and `--seed` not negative, got 0 and 0."),
        (["LMRL-CarDealer-v0", "--env_kwargs", "[1]"], "`--env_kwargs` must be a JSON object, got [1]."),
    ],
)
def test_wrong_options_end_the_command(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        data.main([*arguments, "--output", str(tmp_path / "x.jsonl")])
    assert message in capsys.readouterr().err


def test_an_environment_that_is_no_game_is_refused(capsys):
    assert data.main(["CartPole-v1", "--episodes", "1"]) == 1
    assert "must be of a `colbench_gym.lmrl.game.TextGame`, got 'CartPole-v1', a CartPoleEnv." in capsys.readouterr().err


def test_a_failure_leaves_no_file(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    assert data.main(["LMRL-CarDealer-v0", "--episodes", "1", "--output", str(path), "--env_kwargs", '{"reward": "luck"}']) == 1
    assert capsys.readouterr().err == "error: `reward` must be one of ('fancy', 'revenue'), got 'luck'.\n"
    assert not path.exists()


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="`count` must be positive and `seed` not negative, got 0 and -1"):
        next(data.episodes("LMRL-CarDealer-v0", 0, -1))


def test_the_expert_is_better_than_the_data():
    behaviour, expert = (list(data.episodes("LMRL-Maze-v0", 40, policy=policy)) for policy in data.POLICIES)
    assert all(row["metrics"]["success"] for row in expert)
    assert sum(row["reward"] for row in expert) > sum(row["reward"] for row in behaviour) / 2
    with pytest.raises(ValueError, match=r"`policy` must be one of \('behaviour', 'expert'\), got 'best'."):
        next(data.episodes("LMRL-Maze-v0", 1, policy="best"))


def test_without_a_file_the_table_is_printed(capsys):
    assert data.main(["LMRL-Maze-v0", "--episodes", "3", "--policy", "expert"]) == 0
    said = capsys.readouterr().out
    assert "LMRL-Maze-v0, seeds 0 to 2" in said and "1.000" in said and "paper" not in said
    assert data.main(["LMRL-TextNav-v0", "--episodes", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["paper's", "data", "2500", "12.2", "0.26", "0.258"]
