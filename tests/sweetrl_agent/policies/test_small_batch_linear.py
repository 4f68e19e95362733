"""Exchanged factors give the same products, and are used only where they are meant to be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from sweetrl_agent.policies import small_batch_linear as module
from sweetrl_agent.policies.slots import SlotCache, predict, read
from sweetrl_agent.policies.small_batch_linear import BLOCK, LEAST, MOST_ROWS, small_batch_linear

WIDTH = 512


@pytest.fixture
def exchanged(monkeypatch):
    """Lists the shape of the rows of every product whose factors are exchanged."""
    plain, shapes = module._product, []
    monkeypatch.setattr(module, "_product", lambda rows, *rest: shapes.append(tuple(rows.shape)) or plain(rows, *rest))
    return shapes


def _large(dtype=torch.float32):
    """A model as `small_batch_linear` sees it, whose head has 64 * LEAST weights of no storage."""
    weight = torch.zeros(1, 1, dtype=dtype).expand(64 * LEAST // WIDTH, WIDTH)
    return SimpleNamespace(get_output_embeddings=lambda: SimpleNamespace(weight=weight))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("outputs", [LEAST // WIDTH, 2 * BLOCK + 1])
@pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 2, 2), (MOST_ROWS,)])
def test_products_are_the_same(shape, outputs, bias, exchanged):
    layer, rows = nn.Linear(WIDTH, outputs, bias=bias), torch.randn(*shape, WIDTH)
    with torch.inference_mode():
        plain = layer(rows)
        with small_batch_linear(_large()):
            found = layer(rows)
    assert exchanged == [(*shape, WIDTH)]
    assert found.shape == plain.shape
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize(
    ("rows", "outputs", "dtype"),
    [(MOST_ROWS + 1, BLOCK, torch.float32), (1, LEAST // WIDTH - 1, torch.float32), (1, BLOCK, torch.bfloat16)],
    ids=["many rows", "small weights", "bfloat16"],
)
def test_other_products_stay_as_they_are(rows, outputs, dtype, exchanged):
    layer = nn.Linear(WIDTH, outputs, dtype=dtype)
    with torch.inference_mode(), small_batch_linear(_large()):
        layer(torch.randn(rows, WIDTH, dtype=dtype))
    assert exchanged == []


def test_with_gradients_they_stay_as_they_are(exchanged):
    layer = nn.Linear(WIDTH, BLOCK)
    with small_batch_linear(_large()):
        layer(torch.randn(2, WIDTH)).sum().backward()
    assert exchanged == [] and layer.weight.grad is not None


HEADLESS = SimpleNamespace(get_output_embeddings=lambda: None)


@pytest.mark.parametrize("model", [_large(torch.bfloat16), HEADLESS, nn.Module()], ids=["bfloat16", "no head", "none known"])
def test_other_models_pay_nothing(model, exchanged):
    layer = nn.Linear(WIDTH, BLOCK)
    with torch.inference_mode(), small_batch_linear(model):
        layer(torch.randn(2, WIDTH))
    assert exchanged == []


def test_a_model_says_the_same(monkeypatch, exchanged):
    torch.manual_seed(0)
    sizes = {
        "hidden_size": WIDTH,
        "intermediate_size": BLOCK,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
    }
    model = LlamaForCausalLM(LlamaConfig(vocab_size=300, **sizes)).eval()
    rows, ids = torch.arange(2), torch.randint(5, 300, (2, 7))

    def said():
        cache = SlotCache(2, 2)
        with torch.inference_mode():
            read(model, cache, ids[:, :-1], rows, torch.zeros(2, dtype=torch.long))
            return predict(model, cache, ids[:, -1:], rows, torch.full((2,), 6))

    plain = said()
    assert exchanged == []
    monkeypatch.setattr(model, "get_output_embeddings", _large().get_output_embeddings)
    found = said()
    assert (2, 6, WIDTH) in exchanged and (2, 1, WIDTH) in exchanged, "in reading and in predicting"
    assert found.is_contiguous()
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=1e-4)
