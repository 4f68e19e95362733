"""Scripted agents, a person, and agents of a user's own."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

import colbench_gym  # noqa: F401
from colbench_gym.agents.agent import Agent, FunctionAgent, Said
from colbench_gym.agents.menu import MenuAgent, own_agent, uniform
from colbench_gym.agents.person import PersonAgent
from colbench_gym.agents.scripted import BACKEND, FRONTEND, OracleAgent, menu_of, random_agent
from colbench_gym.errors import AgentDownError
from colbench_gym.evaluation.agents import AgentPlayer
from colbench_gym.evaluation.rows import Key
from colbench_gym.scoring.answer import parse_message

SOURCE = "embedded:test[:4]"


def dialogue(env, agent, seed):
    """The messages of an episode, and its last info."""
    env.reset(seed=seed)
    for turn in range(20):
        hidden = env.unwrapped.hidden_information if agent.uses_hidden else ""
        *_, terminated, _, info = env.step(agent.say(env.unwrapped.messages, seed + turn, hidden).text)
        if terminated:
            return info
    raise AssertionError("the episode does not end")


@pytest.fixture
def backend(sandbox):
    env = gym.make(BACKEND, tasks=SOURCE, sandbox=sandbox)
    yield env
    env.close()


@pytest.mark.parametrize("max_turns", [0, 3])
def test_random_asks_about_no_topic_twice_and_answers_in_its_last_turn(backend, max_turns):
    agent = random_agent(BACKEND, SOURCE, max_turns)
    info = dialogue(backend, agent, 0)
    said = [message["content"] for message in info["messages"] if message["role"] == "assistant"]
    assert len(set(said)) == len(said) == info["turn"] == (max_turns or 6) and info["metrics"]["answered"] == 1


def test_the_same_seed_asks_the_same(backend):
    agent = random_agent(BACKEND, SOURCE, 0)
    assert dialogue(backend, agent, 1)["messages"] == dialogue(backend, agent, 1)["messages"]
    assert dialogue(backend, agent, 1)["messages"][1] != dialogue(backend, agent, 7)["messages"][1]


def test_the_oracle_hands_in_the_reference(backend):
    info = dialogue(backend, OracleAgent(), 0)
    assert info["metrics"]["success"] == 1 and info["turn"] == 1


@pytest.mark.parametrize(("env_id", "wanted"), [(BACKEND, "def total(prices):\n    return None"), (FRONTEND, "<html>")])
def test_real_rows_are_asked_general_questions(env_id, wanted):
    agent = random_agent(env_id, "rows.jsonl", 2)
    messages = [{"role": "user", "content": "A total. The signature of the function is: def total(prices)"}]
    question = agent.say(messages, 0).text
    assert question.endswith("?") and parse_message(question).answer is None
    said = agent.say([*messages, {"role": "assistant", "content": question}, {"role": "user", "content": "No."}], 0).text
    assert parse_message(said).answer.startswith(wanted)


class Own(Agent):
    def say(self, messages, seed, hidden=""):
        return Said("Hello.")


class First:
    def act(self, observation, mask, random):
        return int(np.flatnonzero(mask)[0])


def test_agents_of_a_users_own():
    messages = [{"role": "user", "content": "Hi."}]
    assert own_agent(Own, lambda: menu_of(BACKEND, SOURCE)).say(messages, 0).text == "Hello."
    said = own_agent(lambda messages: messages[-1]["content"].upper(), lambda: None).say(messages, 0)
    assert (said.text, said.prompt_tokens) == ("HI.", None)
    assert isinstance(own_agent(First, lambda: menu_of(FRONTEND, SOURCE)), MenuAgent)
    with pytest.raises(
        ValueError,
        match="^A policy with `act` chooses from the environment's menu, `discrete_actions`, which these tasks do not have",
    ):
        own_agent(First, lambda: menu_of(BACKEND, "rows.jsonl"))
    with pytest.raises(ValueError, match="^A policy of your own must be a function of the messages"):
        own_agent(3, lambda: None)
    with pytest.raises(TypeError, match="must return the next message as a text, got NoneType"):
        FunctionAgent(lambda messages: None).say(messages, 0)


@pytest.mark.parametrize("action", [99, -1, 1.5, None, (np.array(0), None), np.array([0])])
def test_what_is_no_action_of_the_menu_is_refused(action, backend):
    class Wrong:
        def act(self, observation, mask, random):
            return action

    backend.reset(seed=0)
    agent = own_agent(Wrong, lambda: menu_of(BACKEND, SOURCE))
    with pytest.raises(ValueError, match=r"^`act` must return an integer from 0 to \d+, got "):
        agent.say(backend.unwrapped.messages, 0)


def test_random_slots_are_those_that_change_something():
    mask = np.array([False, True, False, True])
    assert {uniform(np.zeros(1), mask, np.random.default_rng(seed)) for seed in range(20)} == {1, 3}


def test_a_person_is_shown_what_is_printable_and_reads_until_the_end():
    shown = []
    person = PersonAgent(["A question\n", "\n", "last\n"], shown.append)
    messages = [{"role": "user", "content": "Hi \x1b[2J"}]
    assert person.say(messages, 0).text == "A question" and "\\x1b[2J" in shown[1] and "\x1b" not in "".join(shown)
    assert person.say([*messages, *messages], 0).text == "last"
    with pytest.raises(AgentDownError, match="the end of the input; the same command resumes"):
        person.say(messages, 0)


@pytest.mark.parametrize("prose", ["The person wants the successor of a number.", None, ""])
def test_the_oracle_hands_in_the_reference_where_critics_have_a_text_of_their_own(prose, tmp_path, sandbox):
    row = {
        "problem_description": "Add one.\nThe signature of the function is: def f(x)",
        "ground_truth": "def f(x):\n    return x + 1",
        "hidden_information": prose,
        "test_cases": {"test1": "f(1)", "test2": "f(2)"},
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    env = gym.make(BACKEND, tasks=str(tmp_path / "rows.jsonl"), sandbox=sandbox).unwrapped
    played = AgentPlayer(OracleAgent(), [env], "test", "tests_passed", 0).episode(Key(env.tasks[0].id, 0))
    assert played.row["success"] == 1 and played.row["answer"] == row["ground_truth"]
    assert played.row["hidden_information"] == prose or not prose
    env.close()
