"""What a model thinks is neither heard nor graded, and an answer that the limit of tokens cut is not graded as if whole."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from colbench_gym.agents.agent import LENGTH, FunctionAgent, Said, agent_turns, turn_counts
from colbench_gym.evaluation.agents import AgentPlayer
from colbench_gym.evaluation.rows import Key
from colbench_gym.evaluation.summary import summarize
from colbench_gym.evaluation.table import count_lines
from colbench_gym.scoring.answer import defines_function, extract_program, parse_message
from colbench_gym.scoring.unit_tests import UnitTests

ASKS = "<think>I should ask first. Later I begin with 'I WANT TO ANSWER:'. OUTPUT: no.\nI WANT TO ANSWER:\n```python\ndef total(prices): pass\n```</think>\n\nIs there a fee?"
DRAFT = "```python\ndef total(prices):\n    return 0\n```"


@pytest.mark.parametrize("text", [ASKS, ASKS.removeprefix("<think>"), ASKS.replace("think>", "THINK >"), f"<think/>{ASKS}"])
def test_a_marker_in_a_thought_is_no_answer(make_env, text):
    env = make_env()
    env.reset(seed=0)
    observation, _, terminated, _, info = env.step(text)
    assert not terminated and info["messages"][1] == {"role": "assistant", "content": "Is there a fee?"}
    assert "think" not in observation.lower()
    assert parse_message(text).thought and parse_message(text).answer is None


@pytest.mark.parametrize(
    "text",
    [
        "<think>{draft}\nI WANT TO ANSWER: {draft}</think>I WANT TO ANSWER:\n{answer}",
        "I WANT TO ANSWER:\n<think>{draft}</think>\n{answer}",
    ],
)
def test_a_draft_in_a_thought_is_not_graded(make_env, answer, text):
    env = make_env()
    env.reset(seed=0)
    whole = parse_message(answer).answer or answer
    _, reward, terminated, _, info = env.step(
        text.format(draft=DRAFT, answer=f"```python\n{whole}\n```" if "```" not in whole else whole)
    )
    assert terminated and reward == 1, info["metrics"]


def test_a_verifier_and_a_grader_leave_the_thought_out(make_env, sandbox, total_task):
    env, task = make_env(), total_task()
    env.reset(seed=0)
    right = f"```python\n{task.hidden.reference}\n```"
    assert env.unwrapped.score_answer(f"<think>{right}</think>{DRAFT}")["success"] == 0
    assert env.unwrapped.score_answer(f"{DRAFT}</think>{right}")["success"] == 1
    assert UnitTests(sandbox).score(task, f"<think>{right}").outcome == "no_answer"
    assert UnitTests(sandbox, reasoning="none").score(task, f"<think>{right}").success == 1
    assert extract_program(f"<think>{right}</think>{DRAFT}", "total") == "def total(prices):\n    return 0"
    assert not defines_function(f"<think>{right}</think>I cannot.", "total")


def test_a_whole_program_may_speak_of_marks():
    program = "# from <think> on\ndef f(x):\n    return x"
    assert extract_program(program, "f") == program


def test_thoughts_can_be_turned_off(make_env):
    env = make_env(reasoning="none")
    env.reset(seed=0)
    assert env.step("<think> is a tag?")[4]["messages"][1]["content"] == "<think> is a tag?"
    assert make_env(reasoning="<plan> </plan>").unwrapped.parsed("<plan>a</plan>b").utterance == "b"
    with pytest.raises(ValueError, match="`reasoning` must be"):
        make_env(reasoning="maybe")


def test_a_reply_that_is_all_thought_is_heard_as_an_empty_message(make_env):
    env = make_env()
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step("<think>I never end. I WANT TO ANSWER: x")
    assert not (terminated or truncated) and info["messages"][1]["content"] == ""


def test_an_answer_that_was_cut_is_not_graded(make_env, answer):
    env = make_env()
    env.reset(seed=0)
    _, reward, terminated, _, info = env.unwrapped.step_cut(answer)
    assert (reward, terminated) == (0.0, True)
    assert {"success": 0, "tests_passed": 0.0, "outcome": "answer_cut", "answer_cut": 1, "answered": 1}.items() <= info[
        "metrics"
    ].items()
    env.reset(seed=0)
    assert not env.unwrapped.step_cut("Is there a f")[2]  # a cut question is heard
    assert env.step(answer)[1] == 1  # and what follows is whole


def _player(make_env, say):
    env = make_env(max_turns=2).unwrapped
    return AgentPlayer(type("Agent", (FunctionAgent,), {"say": say})(str), [env], "test", "tests_passed", 0), Key(
        env.tasks[0].id, 0
    )


def test_the_row_of_an_episode_has_thoughts_and_counts(make_env, answer):
    turns = iter([Said("", thought="<think>hm", finish_reason=LENGTH), Said(answer[:-3], finish_reason=LENGTH)])
    player, key = _player(make_env, lambda self, messages, seed, hidden="": next(turns))
    row = player.episode(key).row
    assert (row["outcome"], row["success"], row["silent_turns"], row["cut_turns"], row["answer_cut"]) == (
        "answer_cut",
        0,
        1,
        2,
        1,
    )
    assert row["agent_turns"] == [{"thought": "<think>hm", "finish_reason": "length"}, {"finish_reason": "length"}]
    results = summarize([row])
    assert (results["silent_turns"], results["cut_turns"], results["answer_cut"]) == (1, 2, 1)
    assert [line.strip()[:8] for line in count_lines(results, "m, test")] == ["m, test:"] * 3
    json.dumps(row)


def test_a_row_without_thoughts_is_as_before(make_env, answer):
    player, key = _player(make_env, lambda self, messages, seed, hidden="": Said(answer))
    assert not {"silent_turns", "cut_turns", "answer_cut", "agent_turns"} & player.episode(key).row.keys()
    assert turn_counts([Said("")]) == {} and agent_turns([Said("")]) == {}


def test_a_function_of_the_users_own_may_think():
    said = FunctionAgent(lambda messages: "<think>a</think>\nb").say([], 0)
    assert (said.text, said.thought) == ("b", "<think>a</think>\n")
    assert FunctionAgent(lambda messages: "<think>a</think>", reasoning="none").say([], 0).text == "<think>a</think>"


@pytest.mark.parametrize("game", ["LMRL-Wordle-v0", "LMRL-Maze-v0"])
def test_a_game_reads_the_move_without_the_thought(game):
    env = gym.make(game, disable_env_checker=True)
    try:
        texts = []
        for thought in ("", "<think>a wrong move</think>\n", "never mind</think>"):
            env.reset(seed=3)
            texts.append(env.step(thought + env.unwrapped.expert_action())[:3])
        assert texts[0] == texts[1] == texts[2]
    finally:
        env.close()
