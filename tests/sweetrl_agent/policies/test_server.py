"""A policy on servers. The stand-in for vLLM's speaks its documented protocol and samples as the policy of this process does."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
import torch

from colbench_gym.errors import AgentDownError, AgentError, ColBenchError
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.policy import ContinuousPolicy, Utterance, sample_each
from sweetrl_agent.models.loading import load_policy
from sweetrl_agent.policies.server import ServerPolicy
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.trainers.preflight import check_server
from tests.colbench_gym.servers.imitations import KINDS, imitating
from tests.colbench_gym.simulators.model import chat_servers

DIALOGUES = [[{"role": "user", "content": text}] for text in ("Hi.", "I need the total of my prices.", "def total(prices)?")]
SEEDS = [5, 6, 7]


@pytest.fixture
def make_policy(tiny_tokenizer):
    """Function: servers, settings -> a policy on them."""
    return lambda *servers, path="agent", **settings: ServerPolicy(
        path, Speaker(tiny_tokenizer, 8, **settings), [server.url for server in servers], 4
    )


@pytest.mark.parametrize("settings", [{}, {"history": 0}, {"system_prompt": "Ask first.", "response_prefix": "I WANT"}])
def test_two_servers_say_what_this_process_would(serve, make_policy, make_tiny_model, tiny_tokenizer, settings):
    servers = serve("agent"), serve("agent", "another")
    policy = make_policy(*servers, **settings)
    expected = TransformersPolicy(make_tiny_model(1), Speaker(tiny_tokenizer, 8, **settings)).generate(DIALOGUES, SEEDS)
    said = policy.generate(DIALOGUES, SEEDS)
    assert [(u.text, u.token_ids) for u in said] == [(u.text, u.token_ids) for u in expected]
    assert torch.allclose(
        torch.tensor(sum((u.log_probs for u in said), [])), torch.tensor(sum((u.log_probs for u in expected), [])), atol=1e-5
    )
    assert {len(server.asked) for server in servers} == {1, 2}


def test_it_need_not_be_waited_for(serve, make_policy):
    policy = make_policy(serve("agent"))
    expected = policy.generate(DIALOGUES, SEEDS)
    assert isinstance(policy, ContinuousPolicy)
    for name, (dialogue, seed) in enumerate(zip(DIALOGUES, SEEDS, strict=True)):
        policy.add(name, dialogue, seed)
    said = {}
    while len(said) < len(DIALOGUES):
        found = dict(policy.step())
        assert found and not set(found) & set(said)
        said |= found
    assert [said[name] for name in range(len(DIALOGUES))] == expected


def test_tokens_that_only_the_server_counts_are_counted_and_kept():
    said = Utterance("Is there a fee?", usage=(9, 5))
    assert said.num_tokens == 5 and Utterance("x", [1, 2], usage=(9, 5)).num_tokens == 2 and Utterance("x").num_tokens == 0
    turns = [Turn("a", usage=(9, 5)), Turn("b", [1, 2], [0.0, 0.0], usage=(9, 5)), Turn("c")]
    messages = [{"role": "assistant", "content": turn.text} for turn in turns]
    row = json.loads(json.dumps(Episode("t", 0, messages, turns, {"outcome": "ended"}, 1.0, "").to_row()))
    assert [turn.get("usage") for turn in row["turns"]] == [[9, 5], None, None]
    assert [turn.num_tokens for turn in Episode.from_row(row).turns] == [5, 2, 0]


def test_other_servers_get_text_and_give_text(serve, make_policy):
    expected = make_policy(serve("agent")).generate(DIALOGUES, SEEDS)
    said = make_policy(serve("agent", kind="transformers")).generate(DIALOGUES, SEEDS)
    assert [u.text for u in said] == [u.text for u in expected]
    assert {(len(u.token_ids), len(u.log_probs)) for u in said} == {(0, 0)}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_server_speaks_and_reads_the_settings_of_sampling(kind, tiny_tokenizer, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with imitating(kind, tokenizer=tiny_tokenizer) as server:
        policy = ServerPolicy("m", Speaker(tiny_tokenizer, 8, 0.8, "Ask first."), [server.url], 2)
        (said,) = policy.generate(DIALOGUES[:1], SEEDS[:1])
        assert (said.text, said.finish_reason, said.usage, said.error) == ("Two decimals?", "stop", (9, 5), None)
        assert bool(said.token_ids) == bool(said.log_probs) == kind.has_tokens
        assert said.thought == ("" if kind.has_tokens else "Let me ask.")
        asked = server.taken[0]
        own = {*asked} - {
            "model",
            "messages",
            "prompt",
            "temperature",
            "seed",
            "max_tokens",
            "max_completion_tokens",
            "logprobs",
            "return_token_ids",
            "stop_token_ids",
        }
        unread = {"generation_config"} if kind.owner == "library" or kind.owner is None else set()
        assert own - unread == {*kind.sampling}
        assert asked.get("top_k", -1) in (-1, 0) and {
            asked.get(name, 1.0) for name in ("top_p", "repetition_penalty", "repeat_penalty")
        } == {1.0}
        assert "prompt" in asked or "Ask first." in str(asked["messages"])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"choices": []}', "a malformed reply (no choices)"),
        (b'{"choices": [{"text": null, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}', "a malformed reply (its text is none)"),
        (b"<html>502</html>", "a malformed reply (a web page; an API's address usually ends in /v1)"),
    ],
)  # fmt: skip
def test_a_bad_reply_is_an_utterance_with_an_error_and_not_the_end(body, what, tiny_tokenizer, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("sweetrl_agent.policies.server.RETRIES", 0)
    with chat_servers.serving() as server:
        bad, good = chat_servers.returns(body), chat_servers.says("Fine.")
        server.script = [lambda handler: (bad if handler.asked["seed"] == SEEDS[1] else good)(handler)]
        policy = ServerPolicy("m", Speaker(tiny_tokenizer, 8), [chat_servers.url(server)], 4)
        said = policy.generate(DIALOGUES, SEEDS)
        with pytest.raises(AgentError, match="A request to the server at"):
            sample_each(policy, DIALOGUES, [[seed] for seed in SEEDS])
    assert [u.text for u in said] == ["Fine.", "", "Fine."] and [bool(u.error) for u in said] == [False, True, False]
    assert (
        said[1].error.reason
        == f"the agent's server: {what} at the last of 1 attempts; check that the server is up, or raise `timeout_s` or `max_retries`"
    )


def test_usage_that_lacks_a_count_is_unknown(tiny_tokenizer, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with chat_servers.serving() as server:
        server.script = [chat_servers.returns(b'{"choices": [{"message": {"content": "Hi."}}], "usage": {"prompt_tokens": 3}}')]
        (said,) = ServerPolicy("m", Speaker(tiny_tokenizer, 8), [chat_servers.url(server)], 4).generate(
            DIALOGUES[:1], SEEDS[:1]
        )
    assert (said.text, said.usage) == ("Hi.", None)


def test_a_server_without_tokens_is_refused_where_they_are_needed(tiny_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "adapter_config.json").write_text("{}")
    with imitating(KINDS[2]) as server:
        for needs_tokens in (
            lambda: ServerPolicy(str(tmp_path), Speaker(tiny_tokenizer, 8), [server.url], 4),
            lambda: check_server(server.url, "OPENAI_API_KEY", needs_tokens=True),
        ):
            with pytest.raises(
                ColBenchError, match=f"^The server at {server.url} is not vLLM's: it loads no adapters and returns no tokens"
            ):
                needs_tokens()
        with pytest.raises(ColBenchError, match="^Messages that start with 'I WANT' need servers that take prompts as tokens"):
            ServerPolicy("m", Speaker(tiny_tokenizer, 8, response_prefix="I WANT"), [server.url], 4)
        check_server(server.url, "OPENAI_API_KEY")


def test_log_probabilities_without_the_temperature_are_refused_where_they_are_trained_with(tiny_tokenizer, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with imitating(KINDS[0], tokenizer=tiny_tokenizer) as server:
        with pytest.raises(
            ColBenchError, match=f"^The server at {server.url} returns log-probabilities .*`--logprobs-mode processed_logprobs`"
        ):
            check_server(server.url, "OPENAI_API_KEY", needs_tokens=True, temperature=0.8)
        check_server(server.url, "OPENAI_API_KEY", temperature=0.8)
        check_server(server.url, "OPENAI_API_KEY", needs_tokens=True, temperature=1.0)
        server.is_processed = True
        check_server(server.url, "OPENAI_API_KEY", needs_tokens=True, temperature=0.8)


def test_an_adapter_is_given_to_the_server_of_its_base(serve, make_policy, tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    server = serve("base")
    make_policy(server, path=str(tmp_path)).generate(DIALOGUES[:1], SEEDS[:1])
    (tmp_path / "adapter_model.safetensors").write_text("trained anew")
    make_policy(server, path=str(tmp_path)).generate(DIALOGUES[:1], SEEDS[:1])
    (first, adapter), (_, asked), (_, again), (_, asked_again) = server.asked
    assert (first, adapter["lora_path"], asked["model"]) == ("/v1/load_lora_adapter", str(tmp_path), adapter["lora_name"])
    assert asked_again["model"] == again["lora_name"] != adapter["lora_name"]
    make_policy(serve("base", is_beside_another=True), path=str(tmp_path)).generate(DIALOGUES[:1], SEEDS[:1])
    with pytest.raises(ColBenchError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
        make_policy(serve("base", takes_adapters=False), path=str(tmp_path))


def test_new_weights_are_given_under_a_new_name_and_the_old_ones_dropped(serve, make_policy, tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    server = serve("base")
    policy = make_policy(server, path=str(tmp_path))
    policy.load_weights(str(tmp_path))  # nothing has changed
    (tmp_path / "adapter_model.safetensors").write_text("trained on")
    policy.load_weights(str(tmp_path))
    policy.generate(DIALOGUES[:1], SEEDS[:1])
    (_, before), (load, new), (drop, old), (_, asked) = server.asked
    assert (load, drop) == ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")
    assert asked["model"] == new["lora_name"] != before["lora_name"] == old["lora_name"]


def test_a_server_with_another_model_is_left_out_and_named(serve, make_policy):
    right, wrong = serve("agent"), serve("another")
    make_policy(wrong, right).generate(DIALOGUES, SEEDS)
    assert (len(right.asked), len(wrong.asked)) == (3, 0)
    with pytest.raises(
        ColBenchError, match=rf"^None of the servers has agent \({wrong.url} has another\). Start one: `vllm serve agent "
    ):
        make_policy(wrong)


def test_a_server_that_is_not_there_or_refuses_is_said(serve, make_policy, tiny_tokenizer):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ColBenchError, match="^No server answers at http://127.0.0.1:"):
            ServerPolicy("agent", Speaker(tiny_tokenizer, 8), [f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"], 4)
    server = serve("agent")
    policy = make_policy(server)
    server.names = ()
    with pytest.raises(
        AgentDownError, match=r"^A request to the server at .* failed \(it has agent\): status 404 .*; check the address"
    ):
        policy.generate(DIALOGUES, SEEDS)


def test_the_engine_needs_addresses_which_are_no_setting_of_the_results():
    with pytest.raises(ValueError, match="^`engine` 'server' needs `server_urls`"):
        make_config({"engine": "server"})
    config = make_config({"engine": "server", "server_urls": ["http://127.0.0.1:8000/v1"]})
    assert config.settings()["engine"] == "server" and "server_urls" not in config.settings()


@contextmanager
def _transformers_serve(folder, port, log):
    command = [
        sys.executable,
        "-m",
        "transformers.cli.transformers",
        "serve",
        str(folder),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [*command, "--device", "cpu"], stdout=out, stderr=out, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
    try:
        end = time.monotonic() + 1200
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[-2000:]
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("fastapi") is None, reason="needs `pip install transformers[serving]`")
def test_the_server_of_transformers(tiny_model_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with _transformers_serve(tiny_model_folder, port, tmp_path / "log") as url:
        arguments = ModelArguments(engine="server", server_urls=[url], max_new_tokens=8, generation_batch=2)
        policy = load_policy(str(tiny_model_folder), str(tiny_model_folder), arguments)
        said = policy.generate(DIALOGUES[:1] * 6, range(6))
    assert len({u.text for u in said}) > 3  # the server samples, each time by another seed


@pytest.mark.parametrize(("finish_reason", "is_thought"), [("length", True), ("stop", False)])
def test_a_thought_that_the_limit_cut_is_no_speech_where_the_prompt_opens_it(
    finish_reason, is_thought, tiny_tokenizer, monkeypatch
):
    """Of a server without a parser of thoughts."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = tokenizer.chat_template + "{% if add_generation_prompt %}<think>\n{% endif %}"
    with chat_servers.serving() as server:
        server.script = [chat_servers.says("The person wants a total \ud83d", finish_reason=finish_reason)]
        policy = ServerPolicy("m", Speaker(tokenizer, 8), [chat_servers.url(server)], 1)
        (said,) = policy.generate(DIALOGUES[:1], SEEDS[:1])
    assert bool(said.thought) == is_thought and bool(said.text) != is_thought
    assert (said.text + said.thought).encode()
