"""Records of LMRL-Gym's games: tasks with arguments, behaviour data as demonstrations, exact advantages as a critic."""

from __future__ import annotations

import json

import pytest

from colbench_gym.files import write_rows
from colbench_gym.lmrl.data import episodes
from sweetrl_agent import compare, train
from sweetrl_agent.algorithms.critics import check_needs
from sweetrl_agent.algorithms.sweet import Sweet
from sweetrl_agent.envs.lmrl import FIRST_SEED, GameRecord, MazeRecord
from sweetrl_agent.envs.registry import RECORDS, find_record
from sweetrl_agent.evaluation.main_job import parse
from sweetrl_agent.models.tiny import build_tokenizer

MAZE = "LMRL-Maze-v0"


@pytest.fixture
def make_maze_run(make_run):
    """Function: arguments of the maze, settings -> a run on it."""

    def make(arguments=None, **settings):
        given = {"env": MAZE, "tasks": "seeds:0-9", "test_tasks": "seeds:100-102", "env_kwargs": json.dumps(arguments or {})}
        return make_run(**given, **settings)

    return make


def test_every_game_has_a_record():
    games = [name for name in RECORDS if name.startswith("LMRL-")]
    assert len(games) == 8 and all(isinstance(find_record(name), GameRecord) for name in games)


def test_tasks_are_seeds_with_the_arguments_of_their_environment(make_maze_run):
    run = make_maze_run({"observed": "partially", "max_turns": 7})
    assert [task.id for task in run.train] == [str(i) for i in range(10)]
    assert {(task.env, task.arguments) for task in run.train} == {(MAZE, '{"max_turns": 7, "observed": "partially"}')}


def test_demonstrations_are_behaviour_data_of_these_arguments(make_maze_run):
    run = make_maze_run({"observed": "partially", "max_turns": 7})
    expected = list(episodes(MAZE, 4, 4 * FIRST_SEED, {"observed": "partially", "max_turns": 7}))
    assert run.record.demonstrations(run.train, 4, 3) == [row["dialogue_history"] for row in expected]
    found = run.record.behaviour_episodes(run.train, 4, 3)
    assert [
        {"env": MAZE, "env_kwargs": run.config.task.keyword_arguments(), **one.to_row()} for one in found
    ] == expected and any(turn.reward for one in found for turn in one.turns)


def test_an_expert_is_no_policy_and_its_command_is_named(make_maze_run):
    run = make_maze_run()
    with pytest.raises(
        ValueError, match=r"`python -m colbench_gym\.lmrl\.data LMRL-Maze-v0 --policy expert --episodes 200` plays it"
    ):
        run.record.scripted_policy("oracle", run.config)
    assert run.record.scripted_policy("random", run.config) is None


def test_a_fully_observed_game_hides_nothing(make_maze_run):
    fully, partially = (make_maze_run({"observed": observed}) for observed in ("fully", "partially"))
    assert "hidden" not in fully.record.capabilities(fully.config)
    assert "hidden" in partially.record.capabilities(partially.config)
    assert {"snapshot", "anchor"} <= fully.record.capabilities(fully.config)
    does = {
        name: Sweet(name).requires <= fully.record.capabilities(fully.config)
        for name in ("sweet", "untrained", "no_hidden", "value_head", "exact")
    }
    assert does == {"sweet": False, "untrained": False, "no_hidden": True, "value_head": True, "exact": True}


def test_the_exact_advantage_is_a_critic(make_maze_run):
    run = make_maze_run()
    check_needs(["exact"], run.config)
    (row,) = episodes(MAZE, 1, policy="expert")
    with MazeRecord().open_oracle("exact", run.config, run.train) as oracle:
        ranked = oracle.rank(row["dialogue_history"][:1], "", [row["turns"][0]["text"], "move", "move nowhere"])
        assert ranked[0] == 0.0 and ranked[1] == ranked[2] == -4.0
        assert oracle.dialogue_advantages(row["dialogue_history"], "") == [0.0] * len(row["turns"])
    with pytest.raises(
        ValueError,
        match=r"^'marginal' needs an oracle that .* of LMRL-Maze-v0 does not have \(it has exact\); leave marginal out\.$",
    ):
        check_needs(["exact", "marginal"], run.config)


def test_the_agent_reads_the_last_observation_only_where_it_tells_all():
    record = find_record("LMRL-Maze-v0")
    assert record.all_defaults()["history"] == record.all_defaults({"observed": "fully"})["history"] == 0
    assert record.all_defaults({"observed": "partially"})["history"] == -1
    given = ["--env", "LMRL-Maze-v0", "--env_kwargs", '{"observed": "goal_and_walls"}']
    assert parse(given).model.history == -1 and parse(given[:2]).model.history == 0


@pytest.mark.parametrize(
    ("name", "arguments", "in_a_reply"),
    [
        ("TextNav", {}, 0),
        ("TwentyQuestions", {}, 2),
        ("Wordle", {}, 6),
        ("Wordle", {"reply": "letters"}, 6),
        ("Endgames", {}, 0),
        ("Endgames", {"position": "squares"}, 0),
    ],
)
def test_a_message_of_the_agent_is_one_token_of_its_tiny_model(name, arguments, in_a_reply):
    """So is each sentence of a reply, each color, alone or with its letter, and a line feed."""
    if name == "Endgames":
        pytest.importorskip("chess")
    record = find_record(f"LMRL-{name}-v0")
    rows = list(episodes(f"LMRL-{name}-v0", 40, env_kwargs=arguments))
    texts = [message["content"] for row in rows for message in row["dialogue_history"]]
    size = record.all_defaults()["tiny_vocab_size"]
    tokenizer = build_tokenizer(texts, size, record.max_token_length, record.pieces)
    assert len(tokenizer) < size, "nothing is left to merge"
    assert {len(tokenizer(turn["text"])["input_ids"]) for row in rows for turn in row["turns"]} == {1}
    if in_a_reply:
        (reply,) = {len(tokenizer(row["dialogue_history"][2]["content"])["input_ids"]) for row in rows}
        assert reply == in_a_reply and tokenizer.decode(tokenizer(texts[2])["input_ids"]) == texts[2]


def test_a_piece_with_its_square_is_one_token_of_the_tiny_model():
    pytest.importorskip("chess")
    record = find_record("LMRL-Chess-v0")
    (row,) = episodes("LMRL-Chess-v0", 1, env_kwargs={"position": "squares", "max_turns": 10})
    texts = [message["content"] for message in row["dialogue_history"]]
    tokenizer = build_tokenizer(texts, record.all_defaults()["tiny_vocab_size"], record.max_token_length, record.pieces)
    white, black, *_ = [part.split() for part in texts[0].split(" / ")]
    assert [tokenizer.decode(i) for i in tokenizer(texts[0])["input_ids"]][: len(white) + 1 + len(black)] == [
        white[0], *(f" {piece}" for piece in [*white[1:], "/", *black]),
    ]  # fmt: skip


def test_a_word_is_a_token_of_the_car_dealers_tiny_model():
    """What the buyer asked for is the same token in an offer; the longest offer fits in a turn."""
    record = find_record("LMRL-CarDealer-v0")
    rows = list(episodes("LMRL-CarDealer-v0", 300))
    texts = [message["content"] for row in rows for message in row["dialogue_history"]]
    defaults = record.all_defaults()
    tokenizer = build_tokenizer(texts, defaults["tiny_vocab_size"], record.max_token_length, record.pieces)
    offer = "We have a Tesla truck for $122,900."
    assert [tokenizer.decode(i) for i in tokenizer(offer)["input_ids"]] == [
        "We", " have", " a", " Tesla", " truck", " for", " $122", ",", "900", ".",
    ]  # fmt: skip
    assert max(len(tokenizer(turn["text"])["input_ids"]) for row in rows for turn in row["turns"]) < defaults["max_new_tokens"]


def test_default_critics_are_those_that_the_environment_allows(tmp_path, capsys):
    words = [
        "--env",
        MAZE,
        "--algorithms",
        "bc",
        "--credit_tasks",
        "2",
        "--seeds",
        "1",
        "--output",
        str(tmp_path / "run"),
        "--dry_run",
    ]
    assert compare.main(words) == 2
    expected = (
        f"error: Credit accuracy on {MAZE} needs `--critics` that see nothing hidden, such as no_hidden and value_head.\n"
    )
    assert capsys.readouterr().err == expected
    assert compare.main([*words, "--critics", "no_hidden"]) == 0
    assert "credit no_hidden 2" in capsys.readouterr().out
    assert compare.main([*words, "--env_kwargs", '{"observed": "partially"}']) == 0
    assert "credit sweet 2, credit untrained 2" in capsys.readouterr().out


def test_a_dry_run_refuses_a_file_of_another_game(tmp_path, capsys):
    write_rows(tmp_path / "car.jsonl", episodes("LMRL-CarDealer-v0", 1))
    words = ["--env", MAZE, "--algorithm", "bc", "--demonstrations", str(tmp_path / "car.jsonl")]
    assert train.main([*words, "--output", str(tmp_path / "run"), "--dry_run"]) == 2
    assert f"row 1: expected an episode of {MAZE}, got one of LMRL-CarDealer-v0." in capsys.readouterr().err
