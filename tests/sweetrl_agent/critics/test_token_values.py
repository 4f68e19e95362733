"""Token-level values: which states and tokens they are of, the slow target, and the heads."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from sweetrl_agent.critics.token_values import TokenEstimates, TokenValues
from sweetrl_agent.policies.slots import body

IDS = torch.tensor([[5, 6, 7, 8, 9, 4], [9, 8, 7, 0, 0, 0]])
IS_ACTION = torch.tensor([[0, 1, 1, 0, 0, 1], [0, 0, 1, 0, 0, 0]])
REWARDS = torch.tensor([[0, 0, 2.0, 0, 0, 3.0], [0, 0, 4.0, 0, 0, 0]])


@pytest.fixture
def values(make_tiny_model, tiny_tokenizer):
    """Values with V and a target, whose last layers are random and not zero."""
    torch.manual_seed(0)
    made = TokenValues(body(make_tiny_model()), len(tiny_tokenizer), bootstraps=True)
    for head in (*made.online.heads, *made.target.heads, made.v):
        nn.init.normal_(head[2].weight)
    return made


def test_estimates_are_of_the_state_before_each_action_token(values):
    found = values(IDS, IS_ACTION, REWARDS)
    assert found.tokens.tolist() == [6, 7, 4, 7]
    assert found.rewards.tolist() == [0, 2, 3, 4]
    assert found.is_last.tolist() == [False, False, True, True]
    states = [IDS[0, :1], IDS[0, :2], IDS[0, :5], IDS[1, :2]]
    for i, state in enumerate(states):
        hidden = values.online.body(state[None]).last_hidden_state[0, -1]
        slow = values.target.body(state[None]).last_hidden_state[0, -1]
        for k in range(2):
            torch.testing.assert_close(found.q[k, found.state[i]], values.online.heads[k](hidden), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found.v[i], values.v(hidden)[0], atol=1e-5, rtol=1e-4)
        least = min(float(head(slow)[found.tokens[i]]) for head in values.target.heads)
        assert float(found.target_q[i]) == pytest.approx(least, abs=1e-4)
    assert found.taken[1, 2] == found.q[1, found.state[2], 4]
    assert found.is_cut is None


def test_equal_states_are_judged_once_and_rows_of_a_dialogue_are_one_sequence_of_actions(values):
    rows = torch.tensor([0, 1, 0, 1])
    found = values(IDS[rows], IS_ACTION[rows], REWARDS[rows], torch.tensor([0, 0, 1, 1]), torch.tensor([False, True]))
    once = values(IDS, IS_ACTION, REWARDS)
    assert found.q.shape == once.q.shape
    assert found.is_last.tolist() == [False] * 3 + [True] + [False] * 3 + [True]
    assert found.is_cut.tolist() == [False] * 7 + [True]
    assert found.rewards.tolist() == once.rewards.tolist() * 2
    torch.testing.assert_close(found.taken, once.taken.repeat(1, 2))
    torch.testing.assert_close(found.v, once.v.repeat(2))
    torch.testing.assert_close(found.target_q, once.target_q.repeat(2))
    torch.testing.assert_close(found.cql_loss(), once.cql_loss())
    assert found.scaled(4).rewards.tolist() == [reward / 4 for reward in found.rewards.tolist()]


def test_new_heads_are_zero_everywhere_and_only_a_bootstrapping_one_has_v_and_a_target(make_tiny_model, tiny_tokenizer):
    made = TokenValues(body(make_tiny_model()), len(tiny_tokenizer), bootstraps=False)
    found = made(IDS, IS_ACTION, REWARDS)
    assert found.q.shape == (1, 4, len(tiny_tokenizer)) and not found.q.any()
    assert found.v is found.target_q is made.target is None and made.acting is made.online
    made.update_target(0.5)


def test_the_target_follows_by_polyak_averaging_body_and_heads_and_has_no_gradient(values):
    slow, fast = (copy.deepcopy(one.state_dict()) for one in (values.target, values.online))
    with torch.no_grad():
        for parameter in values.online.parameters():
            parameter.add_(1.0)
    values.update_target(0.25)
    assert values.acting is values.target
    for name, now in values.target.state_dict().items():
        torch.testing.assert_close(now, 0.75 * slow[name] + 0.25 * (fast[name] + 1))
    found = values(IDS, IS_ACTION, REWARDS)
    (found.q.sum() + found.v.sum()).backward()
    assert not found.target_q.requires_grad
    assert all(parameter.grad is None for parameter in values.target.parameters())
    assert all(parameter.grad is not None for parameter in values.online.parameters())


def test_the_cql_term_is_the_cross_entropy_of_each_head():
    torch.manual_seed(1)
    q, tokens = torch.randn(2, 3, 5, dtype=torch.float64), torch.tensor([4, 0, 2])
    estimates = TokenEstimates(q, torch.arange(3), None, None, tokens, torch.zeros(3), torch.zeros(3, dtype=torch.bool))
    slow = 0.0
    for k in range(2):
        for i in range(3):
            slow += float(torch.log(torch.exp(q[k, i]).sum()) - q[k, i, tokens[i]]) / 3
    assert float(estimates.cql_loss()) == pytest.approx(slow, abs=1e-12)
