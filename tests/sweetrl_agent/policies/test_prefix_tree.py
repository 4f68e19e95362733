"""What sequences of a dialogue have in common is read once, and nothing else changes: states, gradients, log-probabilities, scores and values."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweetrl_agent.critics.heads import TurnHead
from sweetrl_agent.critics.token_values import TokenValues
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.models.tiny import build_model
from sweetrl_agent.policies import prefix_tree as module
from sweetrl_agent.policies.prefix_tree import padded_tree, prefix_tree, rows_at, tokens_read
from sweetrl_agent.policies.slots import body
from sweetrl_agent.trainers.token_passes import log_probs_and_values
from sweetrl_agent.trainers.trl.cpu_head import _replace

from ..families import FAMILIES, build_tokenizer

#: Rows of few different tokens, so that they have much in common, and some are equal or the beginning of others.
rows = st.lists(st.tuples(st.lists(st.integers(5, 6), min_size=1, max_size=9), st.integers(0, 2)), min_size=1, max_size=9)


@pytest.fixture(scope="module")
def model(tiny_tokenizer):
    return build_model(tiny_tokenizer, 32, 2, 0).eval()


def _turns(ids):
    """Turn ids of a row: two turns of the agent, where it is long enough."""
    return [(0, 1, 1, 0, 2, 2)[i] if i < 6 else 0 for i in range(len(ids))]


def test_the_tokens_read_are_those_of_packed_rows_where_packing_pays_off():
    rows = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4], [9, 9]]
    assert tokens_read(rows, [0, 0, 0, 1]) == 5 + 2
    assert tokens_read(rows, [0, 1, 2, 3]) == 4 + 4 + 2  # nothing is shared but whole rows, which are read once
    assert tokens_read([[1, 2], [3, 4]], [0, 0]) == 4 and tokens_read([], []) == 0


@given(rows=rows)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_states_and_gradients_are_those_of_plain_rows(model, rows):
    sequences, groups = zip(*rows, strict=True)
    ids, mask = right_padded(sequences), is_token(sequences)
    weight = torch.randn(*ids.shape, 32, generator=torch.Generator().manual_seed(0)) * mask[:, :, None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_SHARE", 1.0)
        tree = prefix_tree(sequences, groups)
    if tree is None:
        distinct = len({tuple(row) for row in sequences})
        assert len(set(groups)) == len(rows) or len({(group, tuple(row)) for row, group in rows}) > distinct
        return
    found = []
    for compute in (
        lambda: body(model)(ids, attention_mask=mask).last_hidden_state,
        lambda: tree.hidden_states(body(model))[tree.places],
    ):
        model.zero_grad()
        states = compute()
        (states * weight).sum().backward()
        found.append((states.detach() * mask[:, :, None], [p.grad.clone() for p in body(model).parameters()]))
    (expected, gradients), (own, own_gradients) = found
    torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-4)
    for a, b in zip(own_gradients, gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)
    prefixes = {(group, tuple(row[:end])) for row, group in rows for end in range(1, len(row) + 1)}
    per_group = [sum(own == group for own, _ in prefixes) for group in set(groups)]
    assert tree.inputs["input_ids"].shape == (len(per_group), max(per_group)), "each distinct prefix once"


def test_what_has_little_in_common_is_read_as_it_is():
    shared = list(range(10))
    assert prefix_tree([shared + [11], shared + [12]], [0, 1]) is None, "of different groups"
    assert prefix_tree([[1, *range(10, 30)], [1, *range(40, 60)]], [0, 0]) is None, "too little"
    assert prefix_tree([shared, shared, shared], [0, 1, 1]) is None, "equal rows, which are read once anyway"
    assert prefix_tree([shared + [11], shared + [12]], [0, 0]).inputs["input_ids"].shape == (1, 12)


def _dialogues(name):
    """Two dialogues of a family whose template drops earlier thoughts: a sequence for each of their four and three turns."""
    chat = Chat(build_tokenizer(FAMILIES[name]))
    texts = ["Is there a fee?", "Whose fee is it?", "For how many days?", "I WANT TO ANSWER:\nreturn total(prices)"]
    whole = [
        [
            {
                "role": role,
                "content": text,
                **({"thought": f"<think>\nAsk {text}\n</think>\n\n"} if role == "assistant" else {}),
            }
            for text in texts[first:]
            for role in ("user", "assistant")
        ]
        for first in (0, 1)
    ]
    found = chat.all_sequences(whole)
    assert [len(parts) for parts in found] == [4, 3]
    return chat, [part for parts in found for part in parts], [0] * 4 + [1] * 3


@pytest.fixture(scope="module", params=["qwen-3", "deepseek-r1-distill", "gpt-oss"])
def split(request):
    if FAMILIES[request.param].template.read() is None:
        pytest.skip(FAMILIES[request.param].template.missing)
    chat, parts, groups = _dialogues(request.param)
    return build_model(chat.tokenizer, 32, 1, 3).eval(), parts, groups


def _read_tokens(read, monkeypatch):
    """Function: wraps a forward pass of a body; counts what it is given in the list `read`."""

    def spy(owner):
        forward = owner.forward

        def counted(input_ids=None, *args, **rest):
            read.append(input_ids.numel())
            return forward(input_ids, *args, **rest)

        monkeypatch.setattr(owner, "forward", counted)

    return spy


@pytest.mark.parametrize("per_token", [False, True])
def test_on_policy_updates(split, per_token, monkeypatch):
    model, parts, groups = split
    head = torch.nn.Linear(32, 1)
    read = []
    _read_tokens(read, monkeypatch)(body(model))
    found = []
    for own in ((), groups):
        model.zero_grad()
        log_probs, values = log_probs_and_values(model, parts, 0.8, head, per_token, own)
        (log_probs.sum() + values.sum()).backward()
        found.append((log_probs.detach(), values.detach(), body(model).embed_tokens.weight.grad.clone()))
    for plain, shared in zip(*found, strict=True):
        torch.testing.assert_close(shared, plain, atol=2e-3, rtol=1e-3)
    assert read[1] < 0.6 * read[0]


def test_the_critic_and_multi_turn_dpo(split, monkeypatch):
    model, parts, groups = split
    ids, turns = right_padded([part.token_ids for part in parts]), right_padded([part.turn_ids for part in parts])
    mask = is_token([part.token_ids for part in parts])
    monkeypatch.setattr(model, "forward", model.forward)  # put back afterwards
    _replace(model)
    read = []
    _read_tokens(read, monkeypatch)(body(model))
    labels = ids.masked_fill(turns == 0, -100)
    plain, shared = (
        model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False, fused_lm_head=True, **given).log_probs
        for given in ({}, {"groups": torch.tensor(groups)})
    )
    torch.testing.assert_close(shared, plain, atol=1e-4, rtol=1e-4)
    assert (plain != 0).sum() == (turns > 0).sum() and read[1] < 0.6 * read[0]


def test_critics_with_a_head(split, monkeypatch):
    model, parts, groups = split
    ids, turns = right_padded([part.token_ids for part in parts]), right_padded([part.turn_ids for part in parts])
    scorer = TurnHead(model)
    torch.nn.init.normal_(scorer.head.weight)
    read = []
    _read_tokens(read, monkeypatch)(body(model))
    plain, shared = (
        scorer(ids, is_token([part.token_ids for part in parts]), turns, own) for own in (None, torch.tensor(groups))
    )
    torch.testing.assert_close(shared, plain, atol=1e-4, rtol=1e-4)
    assert read[1] < 0.6 * read[0]


def test_token_level_values(split, monkeypatch):
    model, parts, groups = split
    ids, turns = right_padded([part.token_ids for part in parts]), right_padded([part.turn_ids for part in parts])
    values = TokenValues(body(model), 50, bootstraps=False)
    torch.nn.init.normal_(values.online.heads[0][2].weight)
    ids = ids.clamp(max=49)
    read = []
    _read_tokens(read, monkeypatch)(values.online.body)
    mask = is_token([part.token_ids for part in parts])
    plain, shared = (
        values(ids, turns > 0, torch.zeros(ids.shape), torch.tensor(groups), attention_mask=own) for own in (None, mask)
    )
    torch.testing.assert_close(shared.taken, plain.taken, atol=1e-4, rtol=1e-4)
    assert torch.equal(shared.is_last, plain.is_last) and read[1] < 0.6 * read[0]


def test_padding_is_no_token(make_tiny_model):
    ids = [[5, 6, 7, 0, 0], [5, 6, 7, 8, 9], [5, 6, 0, 8, 9]]
    mask, groups = torch.tensor([[1, 1, 1, 0, 0], [1] * 5, [1] * 5]), torch.zeros(3, dtype=torch.long)
    tree = padded_tree(make_tiny_model(), torch.tensor(ids), mask, groups)
    assert tree.inputs["input_ids"].tolist() == [[5, 6, 0, 8, 9, 7, 8, 9]]
    assert tree.inputs["position_ids"].tolist() == [[0, 1, 2, 3, 4, 2, 3, 4]]
    assert tree.places.tolist() == [[0, 1, 5, 0, 0], [0, 1, 5, 6, 7], [0, 1, 2, 3, 4]]


def test_gradients_of_rows_that_are_taken_often_do_not_differ_between_runs():
    generator, threads = torch.Generator().manual_seed(0), torch.get_num_threads()
    states = torch.randn(50, 256, generator=generator, requires_grad=True)
    places, weights = torch.randint(50, (40, 30), generator=generator), torch.randn(40, 30, 256, generator=generator)
    assert torch.equal(rows_at(states, places), states[places])
    torch.set_num_threads(4)
    try:
        gradients = [torch.autograd.grad((rows_at(states, places) * weights).sum(), states)[0] for _ in range(50)]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)
    exact = torch.zeros(50, 256, dtype=torch.float64).index_add_(0, places.flatten(), weights.double().flatten(0, 1))
    assert torch.allclose(gradients[0].double(), exact, atol=1e-4)
