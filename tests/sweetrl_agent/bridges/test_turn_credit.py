"""Credit per turn as advantages per token."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from colbench_gym.errors import ColBenchError
from sweetrl_agent.bridges.turn_credit import RAW, Scale, credit_of_turns, gain_critic, turn_advantages, turn_credit
from sweetrl_agent.core.critic import Critic, all_advantages
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.data.chat import Chat

CANARY = "canary-4711"


def an_episode(tokenizer, task_id, index, turns, reward, outcome="ended", hidden=CANARY):
    """A dialogue of questions whose log-probabilities are -0.1, -0.2, ... by turn."""
    chat, messages, taken = Chat(tokenizer), [{"role": "user", "content": f"A request of {task_id}"}], []
    for number in range(1, turns + 1):
        text = f"Question {number} of {index}?"
        ids = chat.turn(messages, text)
        taken.append(Turn(text, ids, [-number / 10] * len(ids)))
        messages += [{"role": "assistant", "content": text}]
        messages += [{"role": "user", "content": f"Reply {number}"}] if number < turns else []
    return Episode(task_id, index, messages, taken, {"outcome": outcome}, reward, hidden)


def by_number(episodes):
    """Turn t of episode i has the credit 10 i + t."""
    return [[10.0 * e.index + t for t in range(1, len(e.turns) + 1)] for e in episodes]


@pytest.fixture
def episodes(tiny_tokenizer):
    """Three dialogues of a task and two of another, of different length."""
    shapes = [("a", 0, 2, 0.0), ("a", 1, 4, 1.0), ("a", 2, 3, 0.0), ("b", 0, 1, 1.0), ("b", 1, 2, 1.0)]
    return [an_episode(tiny_tokenizer, *shape) for shape in shapes]


def test_rows_are_the_tokens_of_the_dialogue_with_the_credit_of_their_turn(episodes, tiny_tokenizer):
    rows = turn_credit(episodes, by_number, tiny_tokenizer, "Be brief.", RAW)
    assert [(row.task_id, row.episode, row.sequence) for row in rows] == [
        ("a", 0, 0),
        ("a", 1, 0),
        ("a", 2, 0),
        ("b", 0, 0),
        ("b", 1, 0),
    ]
    for row, episode in zip(rows, episodes, strict=True):
        lists = (row.mask, row.turn_ids, row.logprobs, row.advantages)
        assert {len(of) for of in lists} == {len(row.completion_ids)}
        assert row.mask == [int(turn > 0) for turn in row.turn_ids] and row.turn_ids[0] == 1
        (whole,) = Chat(tiny_tokenizer).sequences(
            [{"role": "system", "content": "Be brief."}, *episode.messages], [turn.token_ids for turn in episode.turns]
        )
        assert row.prompt_ids + row.completion_ids == whole.token_ids
        for number, turn in enumerate(episode.turns, 1):
            places = [i for i, of in enumerate(row.turn_ids) if of == number]
            assert [row.completion_ids[i] for i in places] == turn.token_ids
            assert {row.logprobs[i] for i in places} == {-number / 10}
            assert {row.advantages[i] for i in places} == {10.0 * episode.index + number} == {row.turn_credit[number - 1]}
        assert {(row.logprobs[i], row.advantages[i]) for i, of in enumerate(row.turn_ids) if not of} <= {(0.0, 0.0)}


def test_no_row_tells_what_is_hidden_and_json_keeps_every_digit(episodes, tiny_tokenizer):
    named = [replace(episode, task_id=f"embedded/standard/largest+tax/{episode.task_id}") for episode in episodes]
    rows = turn_credit(named, lambda es: [[1e-7 / 3] * len(e.turns) for e in es], tiny_tokenizer, scale=RAW)
    read = json.loads(json.dumps(rows[0].to_row()))
    assert read["task_id"].startswith("embedded/standard/") and "tax" not in read["task_id"] and read["schema"] == 1
    assert read["advantages"][0] == 1e-7 / 3 == read["turn_credit"][0]
    assert CANARY not in json.dumps([row.to_row() for row in rows])
    assert CANARY not in "".join(tiny_tokenizer.decode(row.prompt_ids + row.completion_ids) for row in rows)


def test_an_order_of_episodes_is_an_order_of_rows(episodes, tiny_tokenizer):
    rows = {(r.task_id, r.episode): r for r in turn_credit(episodes, by_number, tiny_tokenizer)}
    shuffled = random.Random(0).sample(episodes, len(episodes))
    again = turn_credit(shuffled, by_number, tiny_tokenizer)
    assert [(r.task_id, r.episode) for r in again] == [(e.task_id, e.index) for e in shuffled]
    for row in again:
        assert row.advantages == pytest.approx(rows[row.task_id, row.episode].advantages)


def test_without_weight_the_advantage_is_trls(episodes):
    advantages = turn_advantages(episodes, by_number(episodes), Scale(weight=0))
    rewards = torch.tensor([e.reward for e in episodes[:3]])
    expected = (rewards - rewards.mean()) / (rewards.std() + 1e-4)  # `GRPOTrainer`, scale_rewards="group"
    for of_turns, value in zip(advantages[:3], expected.tolist(), strict=True):
        assert of_turns == pytest.approx([value] * len(of_turns))
    assert advantages[3:] == [[0.0], [0.0, 0.0]]
    centered = turn_advantages(episodes, by_number(episodes), Scale("centered", 0))
    assert centered[1] == pytest.approx([2 / 3] * 4)


def test_credit_is_standardized_over_all_turns_of_the_task(episodes):
    terms = turn_advantages(episodes, by_number(episodes), Scale("none", 2.0))
    values = [value for of_turns in by_number(episodes[:3]) for value in of_turns]
    expected = 2 * (np.array(values) - np.mean(values)) / (np.std(values, ddof=1) + 1e-4)
    assert [value for of_turns in terms[:3] for value in of_turns] == pytest.approx(expected.tolist())
    equal = turn_advantages(episodes, [[3.0] * len(e.turns) for e in episodes], Scale("none"))
    assert all(value == 0.0 for of_turns in equal for value in of_turns)


def test_centring_by_turn_index_loses_the_late_turn_of_the_longest_dialogue(tiny_tokenizer):
    """Verl issue 7244: at an index that one dialogue alone reaches, the mean is its own credit. The default keeps it."""
    episodes = [an_episode(tiny_tokenizer, "a", i, turns, 0.0) for i, turns in enumerate((1, 1, 3))]
    credit = [[0.0], [0.0], [0.0, 0.0, 5.0]]
    assert turn_advantages(episodes, credit, Scale("none", center="turn"))[2][2] == 0.0
    by_default = turn_advantages(episodes, credit, Scale("none"))
    assert by_default[2][2] > 1.5 and by_default[2][2] > by_default[2][1] == by_default[0][0]


def test_void_episodes_change_nothing_and_have_nothing(episodes, tiny_tokenizer):
    void = an_episode(tiny_tokenizer, "a", 7, 2, 0.0, outcome="void")
    without, of_void = (
        turn_credit(episodes, by_number, tiny_tokenizer),
        turn_credit([*episodes, void], by_number, tiny_tokenizer),
    )
    assert of_void[:-1] == without
    assert of_void[-1].reward is None and of_void[-1].turn_credit == [None, None] and not any(of_void[-1].advantages)
    nothing = replace(void, messages=[], turns=[])
    assert turn_credit([*episodes, nothing], by_number, tiny_tokenizer) == without


class ByReply(Critic):
    """Scores a turn by the length of the reply to it."""

    requires = frozenset({"snapshot"})

    def rank(self, messages, hidden, texts, replies=()):
        return [float(len(reply)) + 100 * hidden.count("x") for reply in replies]


def test_a_critic_that_scores_replies_gives_the_answer_no_credit(episodes, tiny_tokenizer):
    (of_turns,) = credit_of_turns(ByReply(), episodes[1:2])
    assert of_turns == [7.0, 7.0, 7.0, None]
    (row,) = turn_credit(episodes[1:2], ByReply(), tiny_tokenizer, scale=Scale("none"))
    assert {row.advantages[i] for i, turn in enumerate(row.turn_ids) if turn == 4} == {0.0}


def test_what_is_hidden_at_a_turn_goes_with_the_reply_to_this_turn(episodes):
    redrawn = replace(episodes[1], hidden=["x", "xx", "", "x"])
    assert all_advantages(ByReply(), redrawn.messages, redrawn.hidden)[:3] == [107.0, 207.0, 7.0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda e: replace(e, turns=[replace(e.turns[0], token_ids=[])]), "has 0 tokens"),
        (lambda e: replace(e, turns=[replace(e.turns[0], log_probs=[0.0])]), "1 log-probabilities"),
        (lambda e: replace(e, turns=[replace(e.turns[0], agent="coder")]), "coder"),
    ],
)
def test_episodes_that_cannot_be_told_are_refused(episodes, tiny_tokenizer, change, says):
    with pytest.raises(ValueError, match=says):
        turn_credit([change(episodes[3])], by_number, tiny_tokenizer)


def test_a_critic_with_other_turns_is_refused(episodes, tiny_tokenizer):
    with pytest.raises(ValueError, match="gave 1 numbers to the 2 turns of an episode of task 'a'"):
        turn_credit(episodes, lambda es: [[1.0] for _ in es], tiny_tokenizer)
    with pytest.raises(ValueError, match="a number that is not finite to a turn of task 'a'"):
        turn_credit(episodes, lambda es: [[float("nan")] * len(e.turns) for e in es], tiny_tokenizer)
    for flat in (lambda es: [1.0] * len(es), lambda es: ["12"] * len(es), lambda es: [["1"] * len(e.turns) for e in es]):
        with pytest.raises(TypeError, match="must give a list for each episode, with a number or None for each turn, got "):
            turn_credit(episodes, flat, tiny_tokenizer)
    for wrong in ({"outcome": "grpo"}, {"center": "mean"}, {"scale": "std"}, {"weight": float("nan")}, {"weight": "1"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Scale(**wrong)


def test_what_is_no_episode_and_no_critic_is_refused_in_a_sentence(episodes, tiny_tokenizer):
    with pytest.raises(TypeError, match=r"`episodes` must be `Episode` objects: .* got dict\."):
        turn_credit([episodes[0].to_row()], by_number, tiny_tokenizer)
    for critic in ("gain", None, Critic):
        with pytest.raises(TypeError, match="`critic` must be an object with `dialogue_advantages`, such as gain_critic"):
            turn_credit(episodes, critic, tiny_tokenizer)
    with pytest.raises(TypeError, match="`tokenizer` must be a tokenizer with a chat template, .* got 'gpt2'"):
        turn_credit(episodes, by_number, "gpt2")
    for model in ("/no/such/folder", "./none"):
        with pytest.raises(ColBenchError, match=f"`model` must be a folder or hub name of a chat model, got '{model}'"):
            gain_critic(model)
