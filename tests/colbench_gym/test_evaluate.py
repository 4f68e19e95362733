"""`python -m colbench_gym.evaluate`, end to end: scripted agents, chat servers of all kinds, a kill, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import time

import pytest

from colbench_gym import grade
from colbench_gym.evaluate import main
from colbench_gym.files import read_rows
from colbench_gym.servers.usage import USAGE
from tests.colbench_gym.simulators.model.chat_servers import fails, returns, serving, url
from tests.killed_jobs import kill_at_rows

TASKS = ["--tasks", "embedded:test[:6]", "--sandbox", "embedded"]
HOSTILE = "</script><script>alert(1)</script>\x1b[2J\ud800\u202e I WANT TO ANSWER"


def talks(handler):
    """A chat model: two questions, then an answer; all depends on the request alone. It reports its tokens."""
    asked = handler.asked
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    number = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:6]
    text = f"What about {number}?" if turn < 2 else f"I WANT TO ANSWER:\ndef f():\n    return '{number}'"
    usage = {"prompt_tokens": 10 * len(asked["messages"]), "completion_tokens": turn + 1}
    handler.send(200, json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode())


def slowly(handler):
    time.sleep(0.1)
    talks(handler)


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("httpx", reason="needs the httpx package; run `pip install .[train]`")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary1234")
    with serving() as server:
        server.script = [talks]
        yield server


def run(folder, *words):
    """Run the command; its rows and its results."""
    assert main([*words, "--output", str(folder)]) == 0
    return read_rows(folder / "evaluation.jsonl"), json.loads((folder / "results.json").read_text())


def content(folder):
    """Every file but that of the requests, which a stop repeats."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != USAGE}


def test_random_is_worse_than_the_oracle(tmp_path, capsys):
    rows, results = run(tmp_path / "e", "random", "oracle", "--tasks", "embedded:test[:30]", "--sandbox", "embedded")
    assert len(rows) == 60 and results["oracle"]["test"]["success"] == 1.0
    assert results["random"]["test"]["success"] < 0.5 and results["random"]["test"]["links"]["wishes_heard"] < 0.8
    (pair,) = results["differences"]
    assert pair["success"]["ci95"][0] > 0.3 and pair["success"]["p"] < 0.01
    out = capsys.readouterr().out
    assert [line.split()[:3] for line in out.splitlines()[2:4]] == [["random", "test", "30"], ["oracle", "test", "30"]]
    assert "test: oracle minus random: success +" in out and out.count(" minus ") == 1


def test_seeds_and_episodes_are_clustered_and_differ(tmp_path):
    rows, results = run(tmp_path / "e", "random", *TASKS, "--seeds", "3", "4", "--episodes", "2")
    assert len(rows) == 24 and results["random"]["test"]["n"] == 24 and results["seeds"] == [3, 4]
    assert [(row["seed"], row["episode"]) for row in rows[:3]] == [(3, 0), (3, 1), (3, 0)]
    dialogues = {json.dumps(row["dialogue_history"]) for row in rows if row["task_id"] == rows[0]["task_id"]}
    assert len(dialogues) == 4
    alone, _ = run(tmp_path / "alone", "random", *TASKS, "--seeds", "4", "--episodes", "2", "--concurrency", "1")
    assert alone == rows[12:]


def test_a_chat_server_has_tokens_and_a_price_and_its_key_is_in_no_file(server, tmp_path):
    (tmp_path / "prices.json").write_text('{"org/m": {"input": 1000, "output": 2000}}')
    name = f"openai:org/m@{url(server)}"
    rows, results = run(tmp_path / "e", name, *TASKS, "--prices", str(tmp_path / "prices.json"))
    assert {row["outcome"] for row in rows} != {"void"} and {row["turns"] for row in rows} == {3}
    assert {(row["prompt_tokens"], row["generated_tokens"]) for row in rows} == {(20 + 40 + 60, 1 + 2 + 3)}
    score = results["org/m"]["test"]
    assert score["tokens"] == {"prompt_tokens": 720, "generated_tokens": 36}
    assert score["cost"] == {"agent": 0.792, "human": 0.0, "total": 0.792}
    assert server.requests[0]["messages"][0]["role"] == "system" and server.keys[0] == "Bearer sk-canary1234"
    assert not any(b"sk-canary" in text for text in content(tmp_path / "e").values())


def test_hidden_information_is_in_no_request_to_an_agents_server(server, tmp_path):
    rows, _ = run(tmp_path / "e", f"openai:m@{url(server)}", *TASKS)
    asked = json.dumps(server.requests)
    for row in rows:
        body = [line.strip() for line in row["hidden_information"].splitlines()[1:] if len(line.strip()) > 12]
        assert body and not [line for line in body if json.dumps(line)[1:-1] in asked]


def test_a_model_that_plays_the_human_is_counted_and_paid_for_once(server, tmp_path):
    human = json.dumps({"name": "openai", "model": "h", "base_url": url(server), "cache": str(tmp_path / "cache.jsonl")})
    (tmp_path / "p.json").write_text('{"h": {"input": 1000, "output": 0}}')
    words = ["random", *TASKS, "--simulator", human, "--prices", str(tmp_path / "p.json")]
    rows, results = run(tmp_path / "one", *words)
    assert {row["human_prompt_tokens"] for row in rows} == {5 * 20}
    assert results["random"]["test"]["cost"] == {"agent": 0.0, "human": 0.6, "total": 0.6}
    count = len(server.requests)
    again, _ = run(tmp_path / "two", *words)
    assert again == rows and len(server.requests) == count  # all replies, and their tokens, are in the cache


def test_concurrent_requests_to_a_slow_server(server, tmp_path):
    server.script = [slowly]
    rows, _ = run(tmp_path / "e", f"openai:m@{url(server)}", *TASKS, "--concurrency", "6")
    server.script = [talks]
    others, _ = run(tmp_path / "f", f"openai:m@{url(server)}", *TASKS, "--concurrency", "1")
    assert rows == others


def test_two_tasks_suffice_for_a_reason_which_quotes_nothing_hidden(tmp_path, capsys):
    human = "tests.colbench_gym.conftest:MuteHuman"
    rows, _ = run(tmp_path / "e", "random", "--tasks", "embedded:test[:2]", "--sandbox", "embedded", "--simulator", human)
    assert [row["void_reason"] for row in rows] == ["the simulated human could not reply"] * 2
    assert capsys.readouterr().err.count("is void: the simulated human could not reply.\n") == 1


def test_a_server_that_fails_in_some_dialogues_voids_them_and_they_can_be_played_again(server, tmp_path, capsys):
    def sometimes(handler):
        is_bad = handler.asked["seed"] % 3 == 0 and len(handler.asked["messages"]) == 2
        (fails(400) if is_bad else talks)(handler)

    server.script = [sometimes]
    words = [f"openai:m@{url(server)}", *TASKS, "--seeds", "0", "1", "2"]
    rows, results = run(tmp_path / "e", *words)
    void = [row for row in rows if row["outcome"] == "void"]
    assert 0 < len(void) < 18 and all(row["success"] is None for row in void)
    assert results["m"]["test"]["void"] == len(void) and results["m"]["test"]["n"] == 18 - len(void)
    shown = capsys.readouterr()
    assert f"{len(void)} of 18 episodes are void: counted, and in no mean." in shown.out
    reason = "the agent's server: status 400 at the last of 1 attempts; the server refuses the request: check the name of the model and what the"
    assert (
        all(row["void_reason"].startswith(reason) for row in void) and shown.err.count(f" is void: {reason}") == 3
    )  # once a seed
    assert not any("void_reason" in row for row in rows if row["outcome"] != "void")
    server.script = [talks]
    again, results = run(tmp_path / "e", *words, "--replay-void")
    assert results["m"]["test"]["void"] == 0
    whole, _ = run(tmp_path / "whole", *words)
    assert again == whole


def test_a_server_that_is_down_stops_the_evaluation_and_it_resumes(server, tmp_path, capsys):
    words = [f"openai:m@{url(server)}", *TASKS, "--max-retries", "0", "--concurrency", "1"]
    server.script = [*[talks] * 9, fails(401)]
    assert main([*words, "--output", str(tmp_path / "e")]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("error: Expected a message from model 'm'") and err.endswith("OPENAI_API_KEY to a valid key.")
    assert len(read_rows(tmp_path / "e" / "evaluation.jsonl")) == 3
    server.script = [talks]
    run(tmp_path / "e", *words)
    run(tmp_path / "whole", *words)
    assert content(tmp_path / "e") == content(tmp_path / "whole")


def test_what_a_hostile_server_says_stays_in_the_rows(server, tmp_path, capsys):
    usage = {"prompt_tokens": 10**400, "completion_tokens": "x"}
    body = json.dumps({"choices": [{"message": {"content": HOSTILE}}], "usage": usage}).encode()
    server.script = [returns(body)]
    rows, results = run(tmp_path / "e", f"openai:m@{url(server)}", *TASKS)
    assert results["m"]["test"]["tokens"] == {"prompt_tokens": None, "generated_tokens": None}
    said = capsys.readouterr()
    assert "\x1b[2J" not in said.out + said.err and "script" not in said.out + said.err
    assert rows[0]["dialogue_history"][1]["content"].startswith("</script>") and "\ud800" not in str(rows)
    assert (tmp_path / "e" / "evaluation.jsonl").read_bytes().isascii()


def test_a_killed_evaluation_resumes_with_the_same_bytes(tmp_path):
    words = ["random", "oracle", "--tasks", "embedded:test[:40]", "--sandbox", "embedded", "--concurrency", "2"]
    killed = tmp_path / "killed"
    assert kill_at_rows(7, main, [*words, "--output", killed], killed / "evaluation.jsonl") < 80
    run(tmp_path / "killed", *words)
    run(tmp_path / "whole", *words)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_policies_are_added_later_and_other_settings_refused(tmp_path, capsys):
    run(tmp_path / "e", "random", *TASKS)
    _, results = run(tmp_path / "e", "oracle", *TASKS)
    assert list(results["policies"]) == ["random", "oracle"] and len(results["differences"]) == 1
    assert "earlier command" not in capsys.readouterr().err
    run(tmp_path / "e", "random", *TASKS)
    assert capsys.readouterr().err == "random, test: every episode was played by an earlier command\n"
    assert main(["random", *TASKS, "--max-turns", "4", "--output", str(tmp_path / "e")]) == 2
    assert "has another 'max_turns' of evaluation: '0' there, '4' here" in capsys.readouterr().err
    assert main(["random", "--tasks", "embedded:test[:7]", "--output", str(tmp_path / "e")]) == 2
    assert "has another 'test' of tasks" in capsys.readouterr().err


def test_grade_reads_the_rows(tmp_path, capsys):
    run(tmp_path / "e", "random", "oracle", *TASKS)
    scores = tmp_path / "scores.jsonl"
    assert grade.main([str(tmp_path / "e" / "evaluation.jsonl"), "--out", str(scores), "--sandbox", "embedded"]) == 0
    graded = [json.loads(line)["success"] for line in scores.read_text().splitlines()]
    assert graded == [row["success"] for row in read_rows(tmp_path / "e" / "evaluation.jsonl")]


def test_a_person_plays_one_dialogue_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("What should be rounded?\n\nI WANT TO ANSWER:\ndef f(): pass\n\n" * 2))
    words = ["person", "--tasks", "embedded:test[:3]", "--sandbox", "embedded"]
    assert main([*words, "--output", str(tmp_path / "e")]) == 2
    said = capsys.readouterr()
    assert said.out.count("Outcome: ") == 2 and "the end of the input; the same command resumes" in said.err
    assert [row["turns"] for row in read_rows(tmp_path / "e" / "evaluation.jsonl")] == [2, 2]


def test_a_policy_of_ones_own_with_a_name(tmp_path, monkeypatch):
    (tmp_path / "own_evaluated.py").write_text(
        "def asks(messages):\n    return 'Why?'\n\nclass First:\n    def act(self, o, m, r):\n        return int(m.argmax())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    rows, results = run(tmp_path / "e", "why=own_evaluated:asks", "own_evaluated:First", *TASKS)
    assert list(results["policies"]) == ["why", "First"] and rows[0]["dialogue_history"][1]["content"] == "Why?"


def test_a_dry_run_plays_nothing(tmp_path, capsys):
    assert main(["random", *TASKS, "--dry_run", "--output", str(tmp_path / "e")]) == 0
    assert (
        "episodes   6 of each policy, seeds 0; ColBench-Backend-v0" in capsys.readouterr().out and not (tmp_path / "e").exists()
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["rundom"], "A policy must be one of ('random', 'random_actions', 'oracle', 'person'), openai:MODEL"),
        (["random", "random"], "Expected policies or splits that differ, got 'random' twice"),
        (["openai:m@http://user:pw@127.0.0.1/v1"], "`base_url` must be http://"),
        (["no.module:thing"], "`policies` names a module that does not exist: 'no.module'."),
        (["random", "--episodes", "0"], "`episodes` must be at least 1, got 0."),
        (["random", "--seeds", "1", "1"], "`seeds` must be different numbers from 0 on"),
        (["random", "--tasks", "embedded:nothing"], "The embedded split must be one of"),
        (["random", "--simulator", '{"name": "openai", "api_key": "x"}'], "`simulator` must not contain a key or password"),
        (["random", "--prices", "/no/file"], "`prices` names no file that can be read"),
        (["random", "--env", "LMRL-Maze-v0"], "`env` must be one of ColBench-Backend-v0, ColBench-Frontend-v0, got 'LMRL-Maze-v0'; `python -m sweetrl"),
        (["random", "--sandbox", "cloud"], "`sandbox` must be one of"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_in_one_sentence(words, text, tmp_path, capsys):
    assert main([*words, "--output", str(tmp_path / "e")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {text}") and err.count("\n") == 1
    assert not (tmp_path / "e" / "evaluation.jsonl").exists()
