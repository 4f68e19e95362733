"""What the benchmark of real servers reads, on the imitations and a tiny model."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from sweetrl_agent.models.loading import load_tokenizer
from sweetrl_agent.models.tiny import build_model, build_tokenizer
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from tests.colbench_gym.servers.imitations import KINDS, imitating

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def checks():
    sys.path.insert(0, str(BENCHMARKS))
    yield import_module("real_server_checks")
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def model():
    tokenizer = build_tokenizer(["Tell me a story about the sea."], 400)
    return build_model(tokenizer, 32, 1, 0).eval(), tokenizer


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_log_probabilities_of_the_same_model_agree_and_of_another_temperature_do_not(temperature, checks, model):
    policy = TransformersPolicy(model[0], Speaker(model[1], 8, temperature))
    said = policy.generate(checks.DIALOGUES[:3], range(3))
    prompts = [policy.speaker.prompt(dialogue) for dialogue in checks.DIALOGUES[:3]]
    same, other = (checks.differences(said, prompts, model[0], value) for value in (temperature, 0.75))
    assert same["tokens"] == sum(len(utterance.token_ids) for utterance in said) and same["max"] < 1e-4
    assert other["max"] > 10 * same["max"]


def test_files_of_two_runs_are_compared_but_for_their_folder_and_times(checks, tmp_path):
    for name, text in (("one", "a"), ("other", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(str(tmp_path / name))
        (tmp_path / name / "timings.jsonl").write_text(text)
        (tmp_path / name / "rows.jsonl").write_text(text)
    found = checks.compared(tmp_path / "one", tmp_path / "other")
    assert found == {"files": 2, "equal": 1, "differing": ["rows.jsonl"]}


def test_facts_of_a_server(checks):
    reasoning_model = KINDS[6]
    with imitating(KINDS[0]) as vllm, imitating(reasoning_model) as other:
        found = checks.facts(vllm.url, "m")
        assert (found["owned_by"], found["same seed, same text"], found["names of vLLM"]) == (["vllm"], True, "stop, 5 tokens")
        assert checks.facts(other.url, "m")["usual"].startswith("status 400: ")


def test_a_model_that_thinks_opens_a_thought_in_its_prompt(checks, model, tmp_path):
    for part in model:
        part.save_pretrained(tmp_path / "model")
    folder = checks.thinking_model(tmp_path / "model", tmp_path / "thinking")
    tokenizer = load_tokenizer(str(folder), checks.ModelArguments())
    ids = tokenizer.apply_chat_template(checks.DIALOGUES[0], add_generation_prompt=True, return_dict=True)["input_ids"]
    assert ids[-1] == tokenizer.convert_tokens_to_ids("<think>")
