"""Behaviour data: which episodes a run reads, what it refuses, and which tokens are actions with which rewards."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import write_rows
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import LENGTH, Episode, Turn
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.trainers.offline import action_tokens, offline_episodes
from sweetrl_agent.trainers.sft_stage import demonstrations

MESSAGES = [
    {"role": "user", "content": "I need it."}, {"role": "assistant", "content": "Round it?"},
    {"role": "user", "content": "No."}, {"role": "assistant", "content": "Return."},
]  # fmt: skip
TURNS = [Turn("Round it?", reward=-1.0), Turn("Return.", reward=5.0)]
EPISODE = Episode("a", 0, MESSAGES, TURNS, {"outcome": "answered"}, 4.0)


class _Record(EnvironmentRecord):
    def behaviour_episodes(self, tasks, count, seed):
        return [replace(EPISODE, task_id=f"{task.id} {seed}") for task in tasks[:count]]


@pytest.fixture
def run_of(make_run, tiny_model_folder, tmp_path):
    """Function: rows of a file, settings -> a run that reads them."""

    def make(rows, **settings):
        write_rows(tmp_path / "data.jsonl", rows)
        return make_run(model=str(tiny_model_folder), demonstrations=str(tmp_path / "data.jsonl"), **settings)

    return make


def _refused(run):
    with pytest.raises(ColBenchError) as error:
        offline_episodes(run)
    return str(error.value)


def test_the_first_episodes_of_the_file_are_read_with_their_rewards(run_of):
    void = replace(EPISODE, index=1, metrics={"outcome": "void"})
    rows = [one.to_row() for one in (EPISODE, void, replace(EPISODE, index=2), replace(EPISODE, index=3))]
    found = offline_episodes(run_of(rows, sft_dialogues=3))
    assert [one.index for one in found] == [0, 2]
    assert found[0].messages == MESSAGES and [turn.reward for turn in found[0].turns] == [-1.0, 5.0]


def test_bare_messages_are_refused(run_of, tmp_path):
    said = _refused(run_of([EPISODE.to_row(), {"messages": MESSAGES}]))
    assert said == (
        f"'{tmp_path}/data.jsonl', row 2: expected an episode with a reward for every turn, as rows of trajectories.jsonl have, got "
        f"{str({'messages': MESSAGES})[:80]}; bare messages are enough for `bc` only."
    )


def test_broken_episodes_are_refused_with_their_row(run_of, tmp_path):
    row = EPISODE.to_row()
    unrewarded = {**row, "turns": [{"text": "Round it?", "token_ids": [], "log_probs": []}] * 2}
    assert _refused(run_of([row, unrewarded])) == (
        f"'{tmp_path}/data.jsonl', row 2: Expected a trajectory row of schema 3, got one with a field missing or of another type ('turns.0.reward': Field required); "
        "collect it again."
    )
    assert _refused(run_of([{**row, "turns": row["turns"][:1]}])) == (
        f"'{tmp_path}/data.jsonl', row 1: expected a turn for each message of the assistant, got 1 and 2; write each turn with its reward."
    )


def test_an_episode_of_another_environment_is_refused(run_of, tmp_path):
    row = EPISODE.to_row()
    run = run_of([{**row, "env": "ColBench-Backend-v0"}, row, {**row, "env": "LMRL-Maze-v0"}])
    expected = f"'{tmp_path}/data.jsonl', row 3: expected an episode of ColBench-Backend-v0, got one of LMRL-Maze-v0."
    assert _refused(run) == expected
    with pytest.raises(ColBenchError, match=re.escape(expected)):
        demonstrations(run)


def test_episodes_of_other_arguments_are_told_once(run_of, caplog):
    rows = [
        {**EPISODE.to_row(), "env": "ColBench-Backend-v0", "env_kwargs": one}
        for one in ({}, {"max_turns": 3, "x": "\x1b"}, {"max_turns": 4})
    ]
    with caplog.at_level("WARNING"):
        assert len(offline_episodes(run_of(rows))) == 3
    (said,) = [record.getMessage() for record in caplog.records if "env_kwargs" in record.getMessage()]
    assert said.endswith("row 2: played with `env_kwargs` {'max_turns': 3, 'x': '\\x1b'}, and this run has {}.")


def test_data_without_a_played_episode_is_refused(run_of, tmp_path):
    void = replace(EPISODE, metrics={"outcome": "void"})
    assert _refused(run_of([void.to_row(), EPISODE.to_row()], sft_dialogues=1)) == (
        f"'{tmp_path}/data.jsonl' has no episode with a turn among its first 1 (`sft_dialogues`); give more."
    )


def test_without_a_file_the_record_plays_and_sft_reads_the_same_dialogues(make_run, tiny_model_folder):
    run = make_run(model=str(tiny_model_folder), sft_dialogues=2)
    run.record = _Record()
    found = offline_episodes(run)
    assert [one.task_id for one in found] == [f"{task.id} {run.seed}" for task in run.train[:2]]
    assert run.record.demonstrations(run.train, 2, run.seed) == [MESSAGES, MESSAGES]
    assert run.record.has_demonstrations(run.config.task) and not EnvironmentRecord().has_demonstrations(run.config.task)


def test_behaviour_is_a_capability_of_a_record_or_of_a_file(run_of, make_run):
    given = run_of([]).config
    without = SimpleNamespace(demonstrations="")
    assert "behaviour" in given.record.capabilities(given)
    assert "behaviour" not in make_run().config.record.capabilities(make_run().config)
    assert _Record().has_behaviour(without) and not EnvironmentRecord().has_behaviour(without)


def test_actions_end_with_the_end_token_and_the_last_has_the_reward_of_its_turn(tiny_tokenizer):
    other = replace(EPISODE, messages=MESSAGES[:2], turns=TURNS[:1])
    first, second = action_tokens([EPISODE, other], Chat(tiny_tokenizer), [{"role": "system", "content": "Be brief."}])
    end = tiny_tokenizer.eos_token_id
    first, second = ({name: row[name][0] for name in ("input_ids", "is_action", "rewards")} for row in (first, second))
    acts = [token for token, is_action in zip(first["input_ids"], first["is_action"], strict=True) if is_action]
    assert tiny_tokenizer.decode(acts) == "Round it?<|end|>Return.<|end|>"
    rewarded = {i: reward for i, reward in enumerate(first["rewards"]) if reward}
    assert list(rewarded.values()) == [-1.0, 5.0]
    assert all(first["input_ids"][i] == end and first["is_action"][i] for i in rewarded)
    assert (
        tiny_tokenizer.decode(second["input_ids"])
        == "<|system|>Be brief.<|end|><|user|>I need it.<|end|><|assistant|>Round it?<|end|>"
    )
    assert sum(second["rewards"]) == -1.0


def test_a_turn_that_was_cut_does_not_teach_to_end_there(tiny_tokenizer):
    cut = replace(EPISODE, turns=[*TURNS[:-1], replace(TURNS[-1], finish_reason=LENGTH)])
    rows = [action_tokens([episode], Chat(tiny_tokenizer))[0] for episode in (EPISODE, cut)]
    acts = [[i for i, is_action in enumerate(row["is_action"][0]) if is_action] for row in rows]
    assert acts[1] == acts[0][:-1] and rows[0]["input_ids"] == rows[1]["input_ids"]
    assert [rows[1]["rewards"][0][i] for i in acts[1] if rows[1]["rewards"][0][i]] == [-1.0, 5.0]


def test_an_agent_without_history_has_a_sequence_for_each_turn_and_a_cut_episode_is_marked(tiny_tokenizer):
    cut = replace(EPISODE, metrics={**EPISODE.metrics, "answered": 0})
    whole, row = action_tokens([EPISODE], Chat(tiny_tokenizer))[0], action_tokens([cut], Chat(tiny_tokenizer), history=0)[0]
    assert (whole["is_cut"], row["is_cut"]) == (False, True)
    texts = [tiny_tokenizer.decode(ids) for ids in row["input_ids"]]
    assert texts == [
        "<|user|>I need it.<|end|><|assistant|>Round it?<|end|>",
        f"<|user|>{MESSAGES[2]['content']}<|end|><|assistant|>Return.<|end|>",
    ]
    assert [sum(rewards) for rewards in row["rewards"]] == [-1.0, 5.0]
    assert [sum(acts) for acts in row["is_action"]] == [
        len(tiny_tokenizer.encode(text, add_special_tokens=False)) for text in ("Round it?<|end|>", "Return.<|end|>")
    ]
    (memory,) = action_tokens([EPISODE], Chat(tiny_tokenizer), history=1)
    assert memory["input_ids"][1] == whole["input_ids"][0] and sum(memory["is_action"][1]) == sum(row["is_action"][1])


def test_what_the_template_adds_behind_the_end_token_is_no_action(tiny_tokenizer):
    newlines = copy.deepcopy(tiny_tokenizer)
    newlines.chat_template = (
        "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
    )
    (row,) = action_tokens([EPISODE], Chat(newlines))
    acts = [token for token, is_action in zip(row["input_ids"][0], row["is_action"][0], strict=True) if is_action]
    assert re.sub(r"\s", "_", tiny_tokenizer.decode(acts)) == "Round_it?<|end|>Return.<|end|>"
