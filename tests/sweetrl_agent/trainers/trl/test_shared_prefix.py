"""What two sides have in common is read once, and nothing else changes: states, gradients, and losses of a whole training."""

from __future__ import annotations

import pytest
import torch

from sweetrl_agent.trainers.trl.shared_prefix import hidden_states

PAIRS = [
    ([7, 8, 9, 10, 11, 12, 13, 14], [20, 21, 22], [30]),
    ([7, 8, 9], [40, 41, 42, 43, 44, 45], [50, 51]),
    ([17, 18, 19, 20, 21], [60], [61, 62, 63, 64]),
]


def _batch(pairs):
    rows = [shared + own for shared, own, _ in pairs] + [shared + own for shared, _, own in pairs]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids, mask


def _plain(body, ids, mask):
    return body(ids, attention_mask=mask, use_cache=False).last_hidden_state


def _read(body, monkeypatch):
    shapes, forward = [], body.forward
    monkeypatch.setattr(body, "forward", lambda ids, **rest: shapes.append(tuple(ids.shape)) or forward(ids, **rest))
    return shapes


@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[:1], [PAIRS[1], PAIRS[2]]])
def test_states_and_gradients_are_those_of_the_plain_batch(pairs, make_tiny_model, monkeypatch):
    model = make_tiny_model(3)
    body, (ids, mask) = model.base_model, _batch(pairs)
    weight = torch.randn(*ids.shape, 32, generator=torch.Generator().manual_seed(0)) * mask[:, :, None]
    found = []
    for compute in (_plain, hidden_states):
        model.zero_grad()
        states = compute(body, ids, mask)
        (states * weight).sum().backward()
        found.append((states.detach() * mask[:, :, None], [p.grad.clone() for p in body.parameters()]))
    (expected, gradients), (own, own_gradients) = found
    assert torch.allclose(own, expected, atol=1e-5)
    for a, b in zip(own_gradients, gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-3, rtol=1e-4)
    shapes = _read(body, monkeypatch)
    hidden_states(body, ids, mask)
    longest = max(len(shared) for shared, _, _ in pairs)
    assert shapes[0] == (len(pairs), longest), "the common beginning, once for each pair"
    assert shapes[1][1] < ids.shape[1]


def test_one_side_may_be_the_beginning_of_the_other(make_tiny_model):
    body, (ids, mask) = make_tiny_model(3).base_model, _batch([([7, 8, 9, 10], [11, 12], [])])
    assert torch.allclose(
        hidden_states(body, ids, mask) * mask[:, :, None], _plain(body, ids, mask) * mask[:, :, None], atol=1e-5
    )


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ([[1, 2, 3], [4, 5, 6]], "nothing in common"),
        ([[1, 2, 3], [1, 2, 4], [1, 2, 5]], "no pairs"),
        ([[1] + list(range(10, 30)), [1] + list(range(40, 60))], "too little in common"),
    ],
)
def test_what_shares_little_is_read_as_it_is(ids, why, make_tiny_model, monkeypatch):
    body = make_tiny_model(3).base_model
    ids = torch.tensor(ids)
    expected, shapes = _plain(body, ids, torch.ones_like(ids)), _read(body, monkeypatch)
    assert torch.equal(hidden_states(body, ids, torch.ones_like(ids)), expected), why
    assert shapes == [tuple(ids.shape)]
