"""Encoders and heads of utterance-level values: embeddings, what is read, what a target shares, and files."""

from __future__ import annotations

import pytest
import torch

from sweetrl_agent.critics.utterance_values import (
    ENCODERS,
    FrozenEncoder,
    SlowlyFollowed,
    SmallEncoder,
    UtteranceValues,
    make_values,
    pooled,
)
from sweetrl_agent.policies.slots import body

ROWS = [[5, 6, 7], [8], [5, 6, 7], [9, 10, 11, 12, 13]]


@pytest.fixture
def run(make_run, tiny_model_folder):
    return make_run(model=str(tiny_model_folder), dtype="float32", sft_dialogues=0)


def test_pooling_is_the_mean_and_the_last_state_without_padding():
    hidden, mask = torch.arange(12.0).reshape(2, 3, 2), torch.tensor([[1, 1, 1], [1, 1, 0]])
    assert pooled(hidden, mask).tolist() == [[2.0, 3.0, 4.0, 5.0], [7.0, 8.0, 8.0, 9.0]]


@pytest.mark.parametrize("name", list(ENCODERS))
def test_an_embedding_does_not_depend_on_what_is_read_with_it(run, name):
    torch.manual_seed(0)
    encoder = ENCODERS[name](run, 16, 64)
    together = encoder(ROWS)
    assert together.shape == (4, encoder.width) and torch.equal(together[0], together[2])
    for row, embedded in zip(ROWS, together, strict=True):
        assert torch.allclose(encoder([row])[0], embedded, atol=1e-5)
    assert together.requires_grad == (name != "frozen")


def test_a_frozen_encoder_reads_each_sequence_once(make_tiny_model):
    model = make_tiny_model()
    encoder = FrozenEncoder(body(model))
    encoder.prepare(ROWS)
    assert encoder.tokens_read == 3 + 1 + 5
    found = encoder(ROWS)
    assert encoder.tokens_read == 9
    hidden = model(torch.tensor([ROWS[3]]), output_hidden_states=True).hidden_states[-1][0]
    assert torch.allclose(found[3], torch.cat([hidden.mean(dim=0), hidden[-1]]), atol=1e-5)
    encoder.prepare([[3]])
    encoder([[8]])
    assert encoder.tokens_read == 11  # what was not prepared again is forgotten


@pytest.mark.parametrize(("name", "shared"), [("frozen", True), ("lora", True), ("small", False)])
def test_a_target_shares_what_is_not_trained_and_follows_the_rest(run, name, shared):
    torch.manual_seed(0)
    values = make_values(run, name, 16, 64)
    double = SlowlyFollowed(values, 1e-2, 0.5)
    assert not double.target.trained and values.trained
    online, slow = (dict(module.named_parameters()) for module in (values, double.target))
    assert all((online[key] is slow[key]) == (not online[key].requires_grad) for key in online)
    assert any(not parameter.requires_grad for parameter in online.values()) == (name == "lora")
    assert (double.target.encoder is values.encoder) == (name == "frozen")
    before = {key: parameter.detach().clone() for key, parameter in slow.items()}
    states = values.embed(ROWS)
    double.step(values.q_values(states, states).square().mean() + values.v_values(states).mean())
    for key in online:
        assert torch.allclose(slow[key], (before[key] + online[key]) / 2, atol=1e-6)
        assert online[key].requires_grad or torch.equal(slow[key], before[key])
    assert any((online[key] != before[key]).any() for key in online if "encoder" in key) == (name != "frozen")


@pytest.mark.parametrize("name", ["frozen", "lora"])
def test_values_are_restored_from_their_file(run, tmp_path, name):
    torch.manual_seed(0)
    values = make_values(run, name, 16, 64)
    double = SlowlyFollowed(values, 1e-1, 0.5)
    double.step(values.v_values(values.embed(ROWS)).sum())
    values.save(tmp_path)
    again = make_values(run, name, 16, 64).restore(tmp_path)
    assert again.advantages(ROWS, ROWS) == pytest.approx(values.advantages(ROWS, ROWS, batch=3), abs=1e-5)


def test_advantages_are_the_least_q_minus_the_least_v():
    torch.manual_seed(0)
    values = UtteranceValues(SmallEncoder(20, 8, 10), 16)
    with torch.no_grad():
        states, actions = values.embed(ROWS), values.embed(ROWS[::-1])
        expected = [
            min(head(torch.cat([s, a])).item() for head in values.q) - min(head(s).item() for head in values.v)
            for s, a in zip(states, actions, strict=True)
        ]
    assert values.advantages(ROWS, ROWS[::-1]) == pytest.approx(expected, abs=1e-6)
