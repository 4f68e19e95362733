"""Oracles: the scripted one, a model behind a chat server, and those by name."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from colbench_gym.errors import SimulatorError
from colbench_gym.lmrl.guessing.oracles import OpenAIOracle, Oracle, ScriptedOracle, make_oracle
from colbench_gym.lmrl.guessing.secret_table import load_table
from tests.colbench_gym.simulators.model.chat_servers import fails, says, serving, url


def _dog():
    return load_table("objects").secrets[load_table("objects").find("puppy")]


def test_the_scripted_oracle_answers_from_the_table():
    oracle = make_oracle("scripted", "object")
    assert isinstance(oracle, ScriptedOracle) and _dog().name == "Dog"
    assert oracle.answer(_dog(), "Does it bark?", 0) and not oracle.answer(_dog(), "Does it fly?", 0)


@pytest.mark.parametrize(
    ("reply", "answer"), [("Yes.", True), ("yes, it is", True), ("No", False), ("I cannot tell", False), ("Yesterday", False)]
)
def test_a_model_answers_and_whatever_is_not_yes_is_no(reply, answer):
    with serving() as server:
        server.script = [says(reply)]
        oracle = make_oracle({"name": "openai", "model": "m", "base_url": url(server)}, "object")
        assert isinstance(oracle, OpenAIOracle) and oracle.answer(_dog(), 'Is it "alive"?', 7) == answer
        oracle.close()
    (request,) = server.requests
    assert request["model"] == "m" and request["seed"] == 7
    system, user = (message["content"] for message in request["messages"])
    assert "object Dog" in system and json.dumps('Is it "alive"?') in user


def test_the_prompt_of_a_model_has_the_country_of_a_city():
    with serving() as server:
        server.script = [says("no")]
        env = gym.make("LMRL-GuessCity-v0", oracle={"name": "openai", "model": "m", "base_url": url(server)})
        env.reset(seed=0, options={"secret": "Lima"})
        assert env.step("Is it in Peru?")[0] == "No.\n"
        assert env.step("Is it Lima?")[:3] == ("Yes.\n", 0.0, True)  # a guess is answered from the names
        env.close()
    assert len(server.requests) == 1 and "city Lima (Peru)" in server.requests[0]["messages"][0]["content"]


def test_a_server_that_fails_ends_in_an_error_and_not_in_an_answer():
    with serving() as server:
        server.script = [fails(404)]
        oracle = OpenAIOracle("object", "m", base_url=url(server), max_retries=0, backoff_s=0.0)
        with pytest.raises(SimulatorError, match="Expected a reply from model 'm'"):
            oracle.answer(_dog(), "Is it alive?", 0)
        oracle.close()


def test_wrong_names_are_refused():
    with pytest.raises(
        ValueError, match=r"`oracle` must be one of \('scripted', 'openai'\), or 'package.module:Class', got 'script'"
    ):
        make_oracle("script", "object")
    with pytest.raises(ValueError, match="`oracle` must name an `Oracle` of `colbench_gym.lmrl.guessing.oracles`"):
        make_oracle("json:JSONDecoder", "object")


class Always(Oracle):
    """Says yes."""

    def answer(self, secret, question, seed):
        return True


def test_an_oracle_of_ones_own_by_object_and_by_name():
    oracle = Always()
    assert make_oracle(oracle, "city") is oracle
    assert isinstance(make_oracle(f"{__name__}:Always", "city"), Oracle)
