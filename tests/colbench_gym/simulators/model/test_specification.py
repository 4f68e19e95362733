"""A human that is told a specification in place of the reference: who writes it, how often, and that it holds no code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.simulators.model.openai import OpenAIHuman
from colbench_gym.simulators.model.specification import instructions
from colbench_gym.tasks.task import HiddenTask, Task

from .chat_servers import Behaviour, Server, returns, says, serving, url

pytest.importorskip("httpx", reason="needs the httpx package; run `pip install .[train]`")
CODE = "def total(lines):\n    if not lines:\n        return 0\n    return round(sum(line['price'] for line in lines), 2)"
TASK = Task("t", "I need a total.", "def total(lines)", HiddenTask(CODE, ()))
DIALOGUE = Dialogue().add("user", TASK.description).add("assistant", "How do you round?")
WORDS = "It adds up the prices and rounds to two decimals; nothing costs nothing."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def _human(server: Server, **settings: object) -> OpenAIHuman:
    return OpenAIHuman("m", base_url=url(server), hidden="specification", max_retries=0, **settings)


def _counted(text: str, read: int, written: int) -> Behaviour:
    """A reply with its tokens."""
    usage = {"prompt_tokens": read, "completion_tokens": written}
    return returns(json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode())


def test_the_specification_is_written_once_and_the_reference_is_not_told(server: Server) -> None:
    server.script = [says(WORDS), says("Two decimals."), says("Yes.")]
    human = _human(server)
    assert [human.reply(TASK, DIALOGUE, seed) for seed in (0, 1)] == ["Two decimals.", "Yes."]
    writing, *replies = server.requests
    assert CODE in writing["messages"][0]["content"] and writing["temperature"] == 0.0 and len(replies) == 2
    for request in replies:
        system = request["messages"][0]["content"]
        assert (
            f"Specification, for your eyes only:\n{WORDS}\n" in system and "round(" not in system and "solution" not in system
        )


def test_a_specification_with_code_is_written_again_and_refused_after_three_tries(server: Server) -> None:
    server.script = [says(f"It does this:\n{CODE}"), says(WORDS), says("Two decimals.")]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "Two decimals."
    assert [request["temperature"] for request in server.requests] == [0.0, 0.7, 0.0]
    server.script = [says(CODE)]
    with pytest.raises(
        SimulatorError,
        match="^Expected a specification without code from model 'm', got one with 100% of the reference in 3 tries;",
    ):
        _human(server).reply(TASK, DIALOGUE, 0)


def test_it_is_kept_in_the_cache_and_replayed(server: Server, tmp_path: Path) -> None:
    server.script = [says(WORDS), says("Two decimals.")]
    assert _human(server, cache=tmp_path / "human.db").reply(TASK, DIALOGUE, 0) == "Two decimals."
    again = _human(server, cache=tmp_path / "human.db", cache_mode="replay")
    assert again.reply(TASK, DIALOGUE, 0) == "Two decimals." and len(server.requests) == 2


def test_what_it_took_is_counted_with_the_first_reply(server: Server) -> None:
    server.script = [_counted(WORDS, 100, 20), _counted("Two decimals.", 50, 5)]
    human = _human(server)
    usages = [(human.reply(TASK, DIALOGUE, seed), human.last_usage())[1] for seed in (0, 1)]
    assert usages == [(150, 25), (50, 5)]


def test_the_kinds_have_prompts_of_their_own_and_others_are_refused(server: Server) -> None:
    told = instructions("reference", "def f(): {noun}")
    assert "because you have the finished solution below" in told and "Solution, for your eyes only:\ndef f(): {noun}\n" in told
    with pytest.raises(ValueError, match=r"^`hidden` must be one of \('reference', 'specification'\), got 'code'.$"):
        OpenAIHuman("m", base_url=url(server), hidden="code")  # type: ignore[arg-type]


def _cut(text: str) -> Behaviour:
    return returns(json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "length"}]}).encode())


def test_one_that_was_cut_is_written_again_also_after_whole_replies(server: Server) -> None:
    server.script = [says(WORDS), says("Yes."), _cut("It adds up the"), says(WORDS), says("No.")]
    human, other = _human(server), replace(TASK, signature="def sum_of(lines)")
    assert human.reply(TASK, DIALOGUE, 0) == "Yes."
    assert human.reply(other, DIALOGUE, 0) == "No." and WORDS in server.requests[-1]["messages"][0]["content"]
    server.script = [_cut("It adds up the")]
    with pytest.raises(SimulatorError, match="got more than 1,024 tokens in 3 tries"):
        _human(server).reply(TASK, DIALOGUE, 0)


def test_those_of_several_tasks_are_written_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    together, human = threading.Barrier(4, timeout=60.0), _human(server)
    monkeypatch.setattr(human, "_specify", lambda task: f"{together.wait()} {task.signature}" and task.signature)
    tasks = [replace(TASK, signature=f"def total_{i}(lines)") for i in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(human.specification, tasks)) == [task.signature for task in tasks]
