"""Every architecture of the families: what samples, scores and trains gives a token the log-probability of a plain forward pass."""

from __future__ import annotations

import pytest
import torch
from peft import get_peft_model

from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.critics.advantage import candidate_log_probs
from sweetrl_agent.models.loading import lora_config, merged
from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
from sweetrl_agent.policies.perturbed import PerturbedModel
from sweetrl_agent.policies.slots import _BEYOND_THE_HEAD, body, can_use_slots
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.trainers.trl.cpu_head import _replace

from .families import FAMILIES, build_model, build_tokenizer

#: One family of each architecture, and of Mistral one with windows.
NAMES = [*{family.model_type: name for name, family in FAMILIES.items()}.values(), "mistral-v1", "phi-3"]
LONG = [
    {"role": role, "content": f"{role} says this, and it is longer than a window. " * 3}
    for role in ("user", "assistant", "user")
]
DIALOGUES = [LONG, LONG[:1], [*LONG, {"role": "assistant", "content": "Ok?"}, {"role": "user", "content": "Yes."}]]


@pytest.fixture(params=NAMES)
def parts(request):
    """A tokenizer and a function that builds the same random model."""
    family = FAMILIES[request.param]
    if family.template.read() is None:
        pytest.skip(family.template.missing)
    tokenizer = build_tokenizer(family)
    return tokenizer, lambda seed=0: build_model(family, tokenizer, seed)


def _plain(model, prompt, ids):
    """Log-probabilities of tokens after a prompt, by one pass without a cache."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + ids]), use_cache=False).logits[0].float()
    return torch.log_softmax(logits, dim=-1)[range(len(prompt) - 1, len(prompt + ids) - 1), ids]


def _policies(model):
    return [TransformersPolicy, *([ContinuousTransformersPolicy] if can_use_slots(model) else [])]


def test_sampled_tokens_have_the_log_probabilities_of_a_plain_pass(parts):
    tokenizer, build = parts
    model = build()
    for kind in _policies(model):
        policy = kind(model, Speaker(tokenizer, 10), batch_size=2)
        for dialogue, said in zip(DIALOGUES, policy.generate(DIALOGUES, [1, 2, 3]), strict=True):
            plain = _plain(model, policy.speaker.prompt(dialogue), said.token_ids)
            assert said.log_probs == pytest.approx(plain.tolist(), abs=2e-3), kind


def test_a_critic_scores_candidates_as_a_plain_pass(parts):
    tokenizer, build = parts
    model = build()
    prompt = Speaker(tokenizer, 10).prompt(LONG)
    candidates = [
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("What if it is empty?", "Ok", "A total, then.")
    ]
    with torch.inference_mode():
        scores = candidate_log_probs(model, prompt, candidates)
    for ids, score in zip(candidates, scores, strict=True):
        torch.testing.assert_close(score, _plain(model, prompt, ids), atol=2e-3, rtol=1e-3)


def test_the_head_on_labelled_tokens_is_the_models_own(parts):
    tokenizer, build = parts
    model = build()
    config = model.config.get_text_config()
    if any(getattr(config, name, None) is not None for name in _BEYOND_THE_HEAD) or hasattr(config, "num_experts"):
        pytest.skip("TRL's head is kept.")
    prompt = Speaker(tokenizer, 10).prompt(LONG)
    ids = torch.tensor([[*prompt, 70, 71, 72], [*prompt, 80, 81, 82]])
    labels = ids.clone()
    labels[:, : len(prompt)] = -100
    plain = [_plain(model, prompt, row[len(prompt) :].tolist()) for row in ids]
    _replace(model)
    output = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, labels=labels, fused_lm_head=True)
    torch.testing.assert_close(output.log_probs[:, len(prompt) - 1 :], torch.stack(plain), atol=2e-3, rtol=1e-3)


def test_values_perturb_models_with_any_attention(parts):
    tokenizer, build = parts
    model = build()

    class Values(torch.nn.Module):
        body = body(build(seed=1))

        def forward(self, hidden):
            return 0.1 * hidden[..., :1].float().expand(1, *hidden.shape[:-1], len(tokenizer)).cumsum(dim=-1)

    perturbed = PerturbedModel(model, Values(), 0.5)
    for kind in _policies(perturbed):
        policy = kind(perturbed, Speaker(tokenizer, 6), batch_size=2)
        for dialogue, said in zip(DIALOGUES, policy.generate(DIALOGUES, [1, 2, 3]), strict=True):
            prompt = policy.speaker.prompt(dialogue)
            with torch.no_grad():
                row = torch.tensor([prompt + said.token_ids])
                hidden = Values.body(row, use_cache=False).last_hidden_state
                logits = model(row, use_cache=False).logits.float() + 0.5 * perturbed.values(hidden)[0]
            chosen = torch.log_softmax(logits[0], dim=-1)[range(len(prompt) - 1, row.shape[1] - 1), said.token_ids]
            assert said.log_probs == pytest.approx(chosen.tolist(), abs=5e-3), kind


@pytest.mark.filterwarnings("ignore:The following .*_pattern keys did not match")  # peft, for experts
@pytest.mark.parametrize("layers", [0, 1])
def test_adapters_can_be_added_and_merged(layers, parts):
    tokenizer, build = parts
    model = build()
    ids = torch.arange(40)[None]
    before = model(ids).logits
    adapted = get_peft_model(model, lora_config(ModelArguments(lora=True, lora_layers=layers, lora_r=2), model))
    assert any(".lora_" in name for name, one in adapted.named_parameters() if one.requires_grad)
    torch.testing.assert_close(merged(adapted)(ids).logits, before, atol=1e-4, rtol=1e-4)
