"""`--max_cost` of `train`, `compare` and `evaluate` where a model plays the human: the command ends, and a higher limit resumes it."""

from __future__ import annotations

import json

import pytest

import sweetrl_agent.compare
import sweetrl_agent.evaluate
from colbench_gym.files import read_rows
from colbench_gym.servers.usage import USAGE
from sweetrl_agent.train import main
from tests.colbench_gym.simulators.model.chat_servers import counting, url
from tests.words import words

SETTINGS = {
    "tasks": "embedded:train[:4]", "test_tasks": "embedded:test[:3]", "unseen_tasks": "", "sft_dialogues": 0, "system_prompt": "", "dtype": "float32",
    "max_new_tokens": 4, "max_turns": 2, "threads": 1, "sandbox": "embedded", "generation_batch": 1,
}  # fmt: skip
GRPO = {"algorithm": "grpo", "grpo.iterations": 2, "grpo.tasks": 2, "grpo.group": 2, "eval_tasks": 1}


@pytest.fixture
def server():
    with counting() as server:
        yield server


@pytest.fixture
def given(server, tiny_model_folder, tmp_path):
    """Settings of a run in which every request costs 1."""
    prices = tmp_path / "prices.json"
    prices.write_text('{"h": {"input": 100000, "output": 100000}}')
    human = json.dumps({"name": "openai", "model": "h", "base_url": url(server)})
    place = {"model": tiny_model_folder, "output": tmp_path / "run", "simulator": human, "prices": prices}
    return {**SETTINGS, **place}


def test_training_ends_at_the_limit_and_resumes_after_the_last_iteration(given, server, tmp_path, capsys):
    given |= GRPO
    assert main(words(given, max_cost=5)) == 2  # each iteration has four dialogues of one reply
    said = capsys.readouterr()
    assert "cost 5, and `--max_cost` is 5, so no more are sent." in said.err and "a higher `--max_cost` resumes." in said.err
    assert "model servers: 5 requests, 45 prompt tokens, 5 generated tokens, cost 5 of at most 5" in said.out
    assert len(server.requests) == 5 and (tmp_path / "run/grpo/checkpoint.pt").exists()
    assert main(words(given, max_cost=5)) == 2 and len(server.requests) == 5
    assert main(words(given, max_cost=50)) == 0
    assert (
        len(server.requests) == len(read_rows(tmp_path / "run" / USAGE)) == 5 + 4 + 2
    )  # iteration 2, and two policies on a task
    assert "void" not in {row["outcome"] for row in read_rows(tmp_path / "run/evaluation.jsonl")}


def test_a_comparison_has_one_limit_for_all_seeds(given, server, tmp_path, capsys):
    given |= {"algorithms": "initial", "seeds": 2, "credit_tasks": 0}
    assert sweetrl_agent.compare.main(words(given, max_cost=4)) == 2
    assert "1 of 2 seeds failed" in (error := capsys.readouterr().err) and "cost 4, and `--max_cost` is 4" in error
    assert sweetrl_agent.compare.main(words(given, max_cost=40)) == 0
    rows = read_rows(tmp_path / "run" / USAGE)
    assert len(server.requests) == len(rows) == 6  # three dialogues a seed: the one that had ended is kept
    assert not (tmp_path / "run/seed_0" / USAGE).exists()


def test_an_evaluation_brings_the_limit_too(given, server, tmp_path, capsys):
    shared = {name: given[name] for name in ("simulator", "sandbox", "max_turns", "prices", "output", "generation_batch")}
    command = ["random", *words(shared, tasks="embedded:test[:3]")]
    assert sweetrl_agent.evaluate.main([*command, "--max_cost", "1"]) == 2
    assert "cost 1, and `--max_cost` is 1" in capsys.readouterr().err
    assert sweetrl_agent.evaluate.main([*command, "--max_cost", "9"]) == 0 and len(server.requests) == 3


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"prices": ""}, "of 'h'"),
        ({"engine": "server", "server_urls": "http://127.0.0.1:9/v1"}, "of '{model}'"),
        ({"simulator": "scripted", "prices": ""}, "of every model on a server"),
    ],
)  # fmt: skip
def test_it_needs_the_prices_of_all_models_on_servers(changed, named, given, capsys):
    assert main(words({**given, **changed}, max_cost=1, dry_run="true", algorithm="rft")) == 2
    named = named.format(model=str(given["model"])[:100])
    assert f"error: `max_cost` needs the price {named}: give `--prices FILE`" in capsys.readouterr().err


def test_other_simulators_of_a_comparison_need_prices_too(given, server, capsys):
    other = json.dumps({"name": "openai", "model": "other", "base_url": url(server)})
    settings = {**given, "algorithms": "initial", "seeds": 1, "credit_tasks": 0, "simulators": other, "dry_run": "true"}
    assert sweetrl_agent.compare.main(words(settings, max_cost=1)) == 2
    assert "error: `max_cost` needs the price of 'other'" in capsys.readouterr().err
