"""Packed candidates: any model that attends to everything, no trace left on it, and the cost of the candidates' tokens only."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from sweetrl_agent.critics import packed
from sweetrl_agent.critics.advantage import candidate_log_probs
from sweetrl_agent.policies.slots import can_use_slots

SIZES = {
    "vocab_size": 300, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}  # fmt: skip
KINDS = {
    "heads that share keys": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "another family": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
    "a sliding window": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=16)),
}
PROMPT = list(range(5, 45))
CANDIDATES = [[7, 8, 9, 1], [5, 1], [9], [11, 12, 13, 14, 15, 16, 1]]


def _naive(model, prompt, candidate):
    ids = torch.tensor([prompt + candidate])
    log_probs = torch.log_softmax(model(ids, use_cache=False).logits[0, :-1].double(), dim=-1)
    return log_probs.gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_it_equals_the_naive_way_and_leaves_the_model_as_it_was(kind):
    torch.manual_seed(0)
    model = KINDS[kind]().eval()
    assert can_use_slots(model) == (kind != "a sliding window")
    with torch.inference_mode():
        for _ in range(2):
            for found, candidate in zip(candidate_log_probs(model, PROMPT, CANDIDATES), CANDIDATES, strict=True):
                assert torch.allclose(found.double(), _naive(model, PROMPT, candidate), atol=1e-5)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("count", [1, 16])
def test_the_attention_of_all_candidates_is_one_operation_per_layer(count, monkeypatch):
    attend, widths = packed.F.scaled_dot_product_attention, []
    monkeypatch.setattr(
        packed.F, "scaled_dot_product_attention", lambda q, *rest, **kw: widths.append(len(q)) or attend(q, *rest, **kw)
    )
    with torch.inference_mode():
        candidate_log_probs(KINDS["heads that share keys"]().eval(), PROMPT, [[7, 8, 1], [5, 1]] * (count // 2) or [[7, 8, 1]])
    layers = SIZES["num_hidden_layers"]
    assert widths == [1] * layers + [count] * layers, "the prompt in each layer, then the candidates"


def test_an_error_leaves_the_model_as_it_was():
    model = KINDS["heads that share keys"]().eval()
    with pytest.raises(IndexError), torch.inference_mode():
        candidate_log_probs(model, PROMPT, [[5, 10**6, 1]])
    assert model.config._attn_implementation == "sdpa"


def test_operations_are_those_of_the_tokens_themselves():
    model = KINDS["heads that share keys"]().eval()
    prompt, candidates = [7] * 300, [[8] * 20] * 16
    with torch.inference_mode():
        with FlopCounterMode(display=False) as shared:
            candidate_log_probs(model, prompt, candidates)
        with FlopCounterMode(display=False) as naive:
            for candidate in candidates:
                model(torch.tensor([prompt + candidate]), use_cache=False, logits_to_keep=21)
    tokens = 16 * (300 + 20) / (300 + 16 * 20)
    assert (
        naive.get_total_flops() / shared.get_total_flops() > 0.75 * tokens
    )  # the candidates attend, and have logits, more than the prompt
