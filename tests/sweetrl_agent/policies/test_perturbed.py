"""The initial policy with its logits moved by values: the formula, and the same through the cache."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sweetrl_agent.critics.token_values import QNetwork
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
from sweetrl_agent.policies.perturbed import PerturbedModel
from sweetrl_agent.policies.slots import body, can_use_slots
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker

BETA, TEMPERATURE = 3.0, 0.7
DIALOGUES = [
    [{"role": "user", "content": "I need the total of my prices."}],
    [
        {"role": "user", "content": "I need it."},
        {"role": "assistant", "content": "Round it?"},
        {"role": "user", "content": "No."},
    ],
    [{"role": "user", "content": "An empty list?"}],
]


@pytest.fixture
def parts(make_tiny_model, tiny_tokenizer):
    """pi_beta and values with random heads, on another body."""
    torch.manual_seed(0)
    values = QNetwork(body(make_tiny_model(seed=3)), len(tiny_tokenizer), heads=2).eval()
    for head in values.heads:
        nn.init.normal_(head[2].weight, std=0.3)
    return make_tiny_model(seed=1, scale=2.0), values


def _by_hand(parts, ids):
    """log pi_beta + beta (min Q - V) after a row of tokens, renormalized at the temperature; V is arbitrary."""
    policy, values = parts
    row = torch.tensor([ids])
    with torch.no_grad():
        hidden = values.body(row).last_hidden_state[0, -1]
        first, second = (head(hidden) for head in values.heads)
        log_pi = torch.log_softmax(policy(row).logits[0, -1], dim=-1)
        v = 17.0
        return torch.log_softmax((log_pi + BETA * (torch.minimum(first, second) - v)) / TEMPERATURE, dim=-1)


def _policy(model, tokenizer, kind=ContinuousTransformersPolicy):
    return kind(model, Speaker(tokenizer, 6, TEMPERATURE), batch_size=2)


@pytest.mark.parametrize("kind", [ContinuousTransformersPolicy, TransformersPolicy])
def test_sampled_tokens_have_the_probabilities_of_the_formula(kind, parts, tiny_tokenizer):
    model = PerturbedModel(*parts, BETA)
    assert can_use_slots(model) and model.config.num_hidden_layers == 2 * parts[0].config.num_hidden_layers
    said = _policy(model, tiny_tokenizer, kind).generate(DIALOGUES, [1, 2, 3])
    assert sum(len(utterance.token_ids) for utterance in said) > 10
    for dialogue, utterance in zip(DIALOGUES, said, strict=True):
        prompt = Chat(tiny_tokenizer).prompt(dialogue)
        for i, (token, log_prob) in enumerate(zip(utterance.token_ids, utterance.log_probs, strict=True)):
            expected = _by_hand(parts, prompt + utterance.token_ids[:i])[token]
            assert log_prob == pytest.approx(float(expected), abs=2e-4)


def test_a_whole_row_without_a_cache_has_the_same_logits(parts):
    ids = [5, 9, 300, 7, 2]
    with torch.no_grad():
        logits = PerturbedModel(*parts, BETA)(torch.tensor([ids])).logits[0]
    for i in range(len(ids)):
        torch.testing.assert_close(
            torch.log_softmax(logits[i] / TEMPERATURE, dim=-1), _by_hand(parts, ids[: i + 1]), atol=1e-4, rtol=1e-4
        )


def test_with_weight_zero_it_is_the_initial_policy(parts, tiny_tokenizer):
    plain = _policy(parts[0], tiny_tokenizer).generate(DIALOGUES, [4, 5, 6])
    assert _policy(PerturbedModel(*parts, 0.0), tiny_tokenizer).generate(DIALOGUES, [4, 5, 6]) == plain
    assert _policy(PerturbedModel(*parts, BETA), tiny_tokenizer).generate(DIALOGUES, [4, 5, 6]) != plain
