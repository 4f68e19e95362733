"""The policy on vLLM, against a stand-in that answers as vLLM's documentation says: no GPU is here."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.models.loading import load_policy
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.policies.vllm import VLLMPolicy


class _LoRARequest:
    def __init__(self, name, number, path):
        self.lora_name, self.lora_int_id, self.lora_path = name, number, path


class _LLM:
    def __init__(self, model, **engine):
        self.model, self.engine, self.asked, self.called, self.resets = model, engine, [], [], 0

    def collective_rpc(self, method, kwargs):  # the model is in another process, and cannot be reached
        self.called.append((method, kwargs))

    @property
    def said(self):
        return [*self.tokenizer("yes")["input_ids"], self.tokenizer.eos_token_id]

    def reset_prefix_cache(self):
        self.resets += 1

    def generate(self, prompts, sampling, lora_request, use_tqdm):
        self.asked.append(lora_request)
        said = SimpleNamespace(
            token_ids=self.said, logprobs=[{token: SimpleNamespace(logprob=-0.5 * i)} for i, token in enumerate(self.said, 1)],
            finish_reason="stop", stop_reason=None,
        )  # fmt: skip
        return [SimpleNamespace(outputs=[said]) for _ in prompts]


@pytest.fixture
def vllm(monkeypatch, tiny_tokenizer):
    """Stands for the package."""
    package, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    _LLM.tokenizer = tiny_tokenizer
    package.LLM, package.SamplingParams, request.LoRARequest = _LLM, SimpleNamespace, _LoRARequest
    for name, module in (("vllm", package), ("vllm.lora", lora), ("vllm.lora.request", request)):
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def speaker(tiny_tokenizer):
    return Speaker(tiny_tokenizer, 8)


def test_new_weights_of_a_whole_model_are_read_by_the_engine(vllm, speaker, tmp_path):
    policy = VLLMPolicy(str(tmp_path), str(tmp_path), speaker)
    policy.load_weights(str(tmp_path))
    assert policy.llm.called == [("reload_weights", {"weights_path": str(tmp_path)})] and policy.llm.resets == 1
    (said,) = policy.generate([[{"role": "user", "content": "Hi."}]], [3])
    assert said.log_probs == [-0.5 * i for i in range(1, len(said.token_ids) + 1)]
    assert (said.text, said.token_ids, said.finish_reason) == ("yes", policy.llm.said, "stop") and policy.llm.asked == [None]


@pytest.mark.parametrize(("rank", "most"), [(4, 8), (16, 16), (24, 32), (512, 512)])
def test_the_engine_takes_adapters_of_every_rank(rank, most, vllm, speaker, tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": rank}))
    assert VLLMPolicy(str(tmp_path), "base", speaker).llm.engine["max_lora_rank"] == most
    assert "max_lora_rank" not in VLLMPolicy("base", "base", speaker).llm.engine


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_engine_samples_in_the_dtype_of_the_settings_and_returns_its_own_log_probabilities(dtype, vllm, tiny_model_folder):
    arguments = ModelArguments(model=str(tiny_model_folder), engine="vllm", dtype=dtype)
    engine = load_policy(str(tiny_model_folder), str(tiny_model_folder), arguments).llm.engine
    assert (engine["dtype"], engine["logprobs_mode"]) == (dtype, "processed_logprobs")


def test_a_new_adapter_has_a_new_number(vllm, speaker, tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    policy = VLLMPolicy(str(tmp_path), "base", speaker)
    policy.generate([[{"role": "user", "content": "Hi."}]], [3])
    policy.load_weights(str(tmp_path))
    policy.generate([[{"role": "user", "content": "Hi."}]], [3])
    assert [request.lora_int_id for request in policy.llm.asked] == [1, 2]
    assert policy.llm.model == "base" and policy.llm.engine["enable_lora"] and policy.llm.resets == 1
