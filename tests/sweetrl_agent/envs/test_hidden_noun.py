"""What a critic's hint calls the hidden information comes from the environment's record."""

from __future__ import annotations

import pytest

from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.critics.judge import question
from sweetrl_agent.envs.registry import find_record

TALK = [{"role": "user", "content": "Find it."}]


@pytest.mark.parametrize(
    ("env", "noun"),
    [("ColBench-Backend-v0", "function"), ("ColBench-Frontend-v0", "page"), ("LMRL-GuessCity-v0", "answer"), ("LMRL-Maze-v0", "answer"), ("mine:Own-v0", "answer")],
)  # fmt: skip
def test_the_noun_is_the_records(env, noun):
    assert find_record(env).hidden_noun == noun


def test_a_record_of_ones_own_may_name_it():
    class Own(EnvironmentRecord):
        hidden_noun = "secret number"

    assert Own().hidden_noun == "secret number"


def test_the_judge_asks_about_what_the_agent_looks_for():
    asked = question(TALK, "42", "Is it 4?", "Is it 5?", "secret number")
    assert asked.startswith(
        "A colleague looks for the secret number for a person and may ask them questions first. The person has this secret number in mind,"
    )
    assert "exactly the secret number that the person has in mind" in asked and "function" not in asked
    assert question(TALK, "def f(): ...", "a", "b", "function").startswith(
        "A colleague writes a Python function for a person and may ask them"
    )
