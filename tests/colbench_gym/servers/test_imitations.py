"""The agent and the simulated human on every kind of server; `--engine server` on them is in `sweetrl_agent/policies/test_server.py`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from colbench_gym.agents.chat import ChatAgent, Sampling
from colbench_gym.dialogue import Dialogue
from colbench_gym.evaluate import main
from colbench_gym.files import read_rows
from colbench_gym.servers.dialect import NOTHING, known_changes
from colbench_gym.simulators.model.openai import OpenAIHuman
from colbench_gym.tasks.task import HiddenTask, Task

from .imitations import KINDS, imitating, table, talks

pytest.importorskip("httpx", reason="needs the httpx package, of the extra `train`")
TASK = Task("t", "I need a total.", "def total(lines)", HiddenTask("def total(lines): return sum(lines)", ()))
#: A dialogue whose second message of the agent is empty.
MESSAGES = [
    {"role": role, "content": text}
    for role, text in (
        ("user", "I need a total."), ("assistant", "Of what?"), ("user", "Prices."), ("assistant", ""), ("user", "What?"),
    )
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_agent_speaks_on_every_server_and_learns_once_what_it_refuses(kind, caplog):
    with imitating(kind) as server, caplog.at_level(logging.WARNING):
        agent = ChatAgent("m", server.url, Sampling("Ask first.", 0.8, 64, max_retries=1, backoff_s=0.01))
        completion = agent._completed({**agent._request, "seed": 3, "messages": [*agent._instructions, *MESSAGES]})
        assert (completion.text, completion.thought, completion.finish_reason) == ("Two decimals?", "Let me ask.", "stop")
        assert known_changes(server.url, "m") == kind.changes
        assert len(caplog.messages) == len(kind.changes)
        asked = len(server.requests)
        other = ChatAgent("m", server.url, Sampling("Ask first.", 0.8, 64, max_retries=0))
        assert other.say(MESSAGES, 4).text == "Two decimals?"
        assert len(server.requests) == asked + 1 and len(caplog.messages) == len(kind.changes)
        (first, second) = server.taken
        assert {**first, "seed": 0} == {**second, "seed": 0}
        said = " ".join(message["content"] for message in first["messages"])
        assert "Ask first." in said and (NOTHING in said) == ("empty messages" in kind.changes)
        agent.close()
        other.close()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_human_replies_on_every_server(kind):
    with imitating(kind) as server:
        human = OpenAIHuman("m", base_url=server.url, max_retries=1, backoff_s=0.01)
        assert human.reply(TASK, Dialogue().add("user", TASK.description).add("assistant", "Rounded?"), 0) == "Two decimals?"
        assert TASK.hidden.reference in str(server.taken[0]["messages"])
        human.close()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_evaluation_with_agent_and_human_on_every_server_has_no_void_episode(kind, tmp_path):
    with imitating(kind, talks) as server:
        human = f'{{"name": "openai", "model": "m", "base_url": "{server.url}"}}'
        words = [f"openai:m@{server.url}", "--tasks", "embedded:test[:2]", "--sandbox", "embedded", "--simulator", human]
        assert main([*words, "--output", str(tmp_path / "e")]) == 0
    rows = read_rows(tmp_path / "e" / "evaluation.jsonl")
    assert [(row["turns"], row["answered"]) for row in rows] == [(2, True)] * 2 and all(
        "void_reason" not in row for row in rows
    )
    assert rows[0]["dialogue_history"][2]["content"] == "Yes, two decimals."


def test_the_table_of_the_documentation_is_that_of_the_imitations():
    assert table() in (Path(__file__).parents[3] / "docs/servers.md").read_text("utf-8")
