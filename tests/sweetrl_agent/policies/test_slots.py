"""The cache of slots has room for those that are used, and growing changes nothing."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from sweetrl_agent.policies.slots import BLOCK, SlotCache, predict, read

MOST = 8


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=60, num_hidden_layers=2, **sizes)).eval()


@pytest.fixture
def cache():
    return SlotCache(2, MOST)


IDS = torch.randint(5, 60, (MOST, BLOCK + 20), generator=torch.Generator().manual_seed(1))


def _shapes(cache: SlotCache) -> set[tuple[int, int]]:
    return {(states.shape[0], states.shape[2]) for layer in cache.layers for states in (layer.keys, layer.values)}


def _at(place: int, count: int) -> torch.Tensor:
    return torch.full((count,), place)


@torch.inference_mode()
def test_memory_is_for_the_slots_and_positions_that_were_used(model, cache):
    read(model, cache, IDS[:2, :10], torch.arange(2), _at(0, 2))
    assert _shapes(cache) == {(2, BLOCK)}
    read(model, cache, IDS[2:3, :10], torch.tensor([2]), _at(0, 1))
    assert _shapes(cache) == {(3, BLOCK)}, "half more, rounded down"
    cache.copy(0, [MOST - 1], 10)
    assert _shapes(cache) == {(MOST, BLOCK)}, "never more than there can be"
    read(model, cache, IDS[:1, 10 : BLOCK + 10], torch.tensor([0]), _at(10, 1))
    assert _shapes(cache) == {(MOST, 2 * BLOCK)}


@torch.inference_mode()
def test_a_cache_that_grew_predicts_the_same(model, cache):
    for row in (3, 0, 6):
        read(model, cache, IDS[row : row + 1, :10], torch.tensor([row]), _at(0, 1))
    cache.copy(3, [5], 10)
    for first in range(10, BLOCK + 10, 9):
        last = min(first + 9, BLOCK + 10)
        read(model, cache, IDS[[0, 3], first:last], torch.tensor([0, 3]), _at(first, 2))
    rows, lengths = torch.tensor([0, 3, 5, 6]), torch.tensor([BLOCK + 10, BLOCK + 10, 10, 10])
    said = torch.stack([IDS[0, BLOCK + 10], IDS[3, BLOCK + 10], IDS[3, 10], IDS[6, 10]])
    found = predict(model, cache, said[:, None], rows, lengths)
    for row, source, length in ((0, 0, BLOCK + 11), (1, 3, BLOCK + 11), (2, 3, 11), (3, 6, 11)):
        whole = model(IDS[source : source + 1, :length]).logits[0, -1]
        torch.testing.assert_close(found[row], whole, atol=1e-5, rtol=1e-4)
