"""Muon in float32: against the library's own, which rounds to bfloat16, and what it does to singular values."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from sweetrl_agent.trainers.muon import Muon, MuonWithAdamW, orthogonalized

SHAPES = [(24, 24), (24, 24), (48, 16), (16, 48)]


@pytest.mark.parametrize("columns", [32, 64])  # step by step, and by way of the gram matrices
def test_singular_values_come_near_one_and_their_vectors_stay(columns):
    matrices = torch.randn(3, 20, columns, generator=torch.Generator().manual_seed(0))
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    for matrix, found, u, v in zip(matrices, orthogonalized(matrices), left, right, strict=True):
        middle = u.mT @ found @ v.mT  # diagonal if the vectors are the same
        assert torch.allclose(middle, torch.diag(middle.diagonal()), atol=1e-4)
        assert ((middle.diagonal() > 0.5) & (middle.diagonal() < 1.3)).all()
        assert torch.allclose(orthogonalized(matrix.mT[None])[0], found.mT, atol=1e-5), "tall matrices are turned"


def test_steps_are_those_of_torchs_own_muon_up_to_its_rounding():
    random = torch.Generator().manual_seed(1)
    ours = [nn.Parameter(torch.randn(shape, generator=random)) for shape in SHAPES]
    theirs = copy.deepcopy(ours)
    begun = copy.deepcopy(ours)
    optimizers = [Muon(ours, lr=0.02, weight_decay=0.1), torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1)]
    for _ in range(5):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=random)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, other, before in zip(ours, theirs, begun, strict=True):
        with torch.no_grad():
            assert (one - other).norm() < 0.02 * (one - before).norm()


def test_a_matrix_without_gradient_stays(make_tiny_model):
    model = make_tiny_model()
    optimizer = MuonWithAdamW(model, lr=0.01, muon_lr=0.1)
    first = model.model.layers[0].mlp.up_proj.weight
    first.grad = torch.ones_like(first)
    before = copy.deepcopy(model.state_dict())
    optimizer.step()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"model.layers.0.mlp.up_proj.weight"}


def test_state_survives_its_dictionary(make_tiny_model):
    def stepped(model, optimizer, seed):
        random = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=random)
        optimizer.step()

    one, other = make_tiny_model(0), make_tiny_model(0)
    first, second = MuonWithAdamW(one, 0.01, 0.1), MuonWithAdamW(other, 0.01, 0.1)
    stepped(one, first, 1)
    other.load_state_dict(one.state_dict())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for seed in (2, 3):
        stepped(one, first, seed)
        stepped(other, second, seed)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
