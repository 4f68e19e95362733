"""MC returns and ILQL: the losses against slow loops, and convergence on a chain whose values are known."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from sweetrl_agent.algorithms.ilql import ILQLConfig, expectile_loss, ilql_loss
from sweetrl_agent.algorithms.mc import mc_loss, returns_to_go
from sweetrl_agent.critics.token_values import TokenEstimates, TokenValues

GAMMA, TAU, CQL = 0.9, 0.8, 0.03


class _OneHot(nn.Module):
    """A body that sees only the last token: `copies` times its one-hot vector."""

    def __init__(self, tokens, copies):
        super().__init__()
        self.tokens, self.copies = tokens, copies
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(hidden_size=tokens * copies))

    def forward(self, input_ids):
        hidden = nn.functional.one_hot(input_ids, self.tokens).float().repeat(1, 1, self.copies)
        return SimpleNamespace(last_hidden_state=hidden)


# ---- the losses, against slow loops in float64 -----------------------------------------------------------------------


@pytest.fixture
def batch():
    """Three dialogues of several turns and unequal length: ids, is_action, rewards, padded on the right."""
    rng = np.random.default_rng(0)
    lengths, turns = (12, 5, 9), ([(2, 5), (8, 11)], [(3, 5)], [(1, 2), (4, 6), (7, 9)])
    ids, acts, rewards = torch.zeros(3, 12, dtype=torch.long), torch.zeros(3, 12, dtype=torch.long), torch.zeros(3, 12).double()
    for row, (length, spans) in enumerate(zip(lengths, turns, strict=True)):
        ids[row, :length] = torch.from_numpy(rng.integers(0, 7, length))
        for start, stop in spans:
            acts[row, start:stop] = 1
            rewards[row, stop - 1] = rng.normal()
    return ids, acts, rewards


def _values(bootstraps):
    torch.manual_seed(2)
    made = TokenValues(_OneHot(7, 2), 7, bootstraps).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


def _visited(batch):
    """Of every dialogue, its actions in order: the token before, the token, and its reward."""
    ids, acts, rewards = (part.tolist() for part in batch)
    return [[(ids[row][t - 1], ids[row][t], rewards[row][t]) for t in range(1, 12) if acts[row][t]] for row in range(len(ids))]


def _head(head, state):
    with torch.no_grad():
        return head(nn.functional.one_hot(torch.tensor(state), 7).double().repeat(2)).tolist()


def _cross_entropy(logits, token):
    return float(np.log(np.exp(logits).sum()) - logits[token])


def test_loss_of_ilql_against_a_slow_loop(batch):
    values, losses = _values(bootstraps=True), []
    for actions in _visited(batch):
        for i, (state, token, reward) in enumerate(actions):
            ahead = _head(values.v, actions[i + 1][0])[0] if i + 1 < len(actions) else 0.0
            loss = 0.0
            for head in values.online.heads:
                q = _head(head, state)
                loss += 0.5 * (q[token] - reward - GAMMA * ahead) ** 2 + CQL * _cross_entropy(q, token)
            gap = min(_head(head, state)[token] for head in values.target.heads) - _head(values.v, state)[0]
            losses.append(loss + 0.5 * (TAU if gap >= 0 else 1 - TAU) * gap**2)
    assert len(losses) == 13
    found = ilql_loss(values(*batch), GAMMA, TAU, CQL)
    assert found.item() == pytest.approx(np.mean(losses), abs=1e-10)


def test_loss_of_mc_against_a_slow_loop(batch):
    values, losses = _values(bootstraps=False), []
    for actions in _visited(batch):
        for i, (state, token, _) in enumerate(actions):
            ahead = sum(GAMMA**j * reward for j, (_, _, reward) in enumerate(actions[i:]))
            q = _head(values.online.heads[0], state)
            losses.append(0.5 * (q[token] - ahead) ** 2 + CQL * _cross_entropy(q, token))
    assert mc_loss(values(*batch), GAMMA, CQL).item() == pytest.approx(np.mean(losses), abs=1e-10)


def test_padding_and_texts_of_the_user_have_no_part_in_the_loss(batch):
    values = _values(bootstraps=True)
    wider = tuple(nn.functional.pad(part, (0, 4)) for part in batch)
    assert torch.equal(ilql_loss(values(*batch), GAMMA, TAU, CQL), ilql_loss(values(*wider), GAMMA, TAU, CQL))


def test_the_bellman_target_has_no_gradient():
    q, v = torch.zeros(2, 2, 3, requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)
    ends = torch.tensor([False, True])
    estimates = TokenEstimates(
        q, torch.arange(2), v, torch.tensor([1.0, 2.0]), torch.tensor([0, 1]), torch.tensor([1.0, 0.0]), ends
    )
    ilql_loss(estimates, GAMMA, TAU, cql=0.0).backward()
    assert q.grad[:, 0, 0].tolist() == pytest.approx([-(1 + 0.9 * 2) / 2] * 2)
    assert v.grad.tolist() == [0, 0]


def test_the_end_of_an_episode_that_was_cut_off_is_no_end_for_q(batch):
    values = _values(bootstraps=True)
    whole = values(*batch)
    cut = values(*batch, torch.arange(3), torch.tensor([False, True, False]))
    assert cut.is_cut.tolist().count(True) == 1
    errors = whole.taken - (whole.rewards + GAMMA * torch.where(whole.is_last, 0.0, whole.v.roll(-1)))
    expected = 0.5 * errors[:, ~cut.is_cut].square().mean(dim=1).sum() + expectile_loss(whole.target_q - whole.v, TAU).mean()
    assert ilql_loss(cut, GAMMA, TAU, 0.0).item() == pytest.approx(expected.item(), abs=1e-12)
    assert ilql_loss(whole, GAMMA, TAU, 0.0).item() != pytest.approx(expected.item(), abs=1e-3)


def test_where_every_token_is_the_last_of_a_cut_episode_only_v_learns():
    """Then no token has a target of Q: its part of the loss is 0, not a mean of nothing."""
    q, v = torch.zeros(2, 1, 3, requires_grad=True), torch.tensor([1.0], requires_grad=True)
    one = torch.tensor([True])
    estimates = TokenEstimates(q, torch.arange(1), v, torch.tensor([3.0]), torch.tensor([0]), torch.tensor([1.0]), one, one)
    loss = ilql_loss(estimates, GAMMA, TAU, cql=0.0)
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * TAU * 4) and not q.grad.any() and v.grad.tolist() == pytest.approx([-2 * TAU])


def test_ilql_refuses_estimates_without_v(batch):
    with pytest.raises(ValueError, match=r"^The loss of ILQL needs estimates with V and a target\.$"):
        ilql_loss(_values(bootstraps=False)(*batch), GAMMA, TAU, CQL)


@pytest.mark.parametrize(("tau", "expected"), [(0.5, [1.0, 0.25, 0.0]), (0.9, [0.2 * 1.0, 0.9 * 0.5, 0.0])])
def test_expectile_weighs_both_sides(tau, expected):
    assert expectile_loss(torch.tensor([-2.0, 1.0, 0.0]), tau).tolist() == pytest.approx(expected)


def test_returns_to_go_end_with_their_dialogue():
    rewards, ends = torch.tensor([1.0, 0, 2, 5, 3]), torch.tensor([False, False, True, False, True])
    assert returns_to_go(rewards, ends, 0.5).tolist() == [1.5, 1.0, 2.0, 6.5, 3.0]


def test_defaults_are_those_of_the_source():
    config = ILQLConfig()
    assert (config.gamma, config.tau, config.cql, config.polyak, config.beta, config.batch) == (
        0.99,
        0.7,
        0.01,
        0.005,
        16.0,
        32,
    )


# ---- convergence on a chain ------------------------------------------------------------------------------------------

#: A chain of states 0 to 4: an action is the next state, any above the present one; 4 ends the episode.
REWARD = {(s, a): np.random.default_rng(10 * s + a).uniform(-1, 1) for s, a in combinations(range(5), 2)}
PATHS = [(0, *middle, 4) for count in range(4) for middle in combinations((1, 2, 3), count)]


def _chain():
    """All paths, each once: the behaviour policy follows the counts of steps in them."""
    ids, acts, rewards = (torch.zeros(len(PATHS), 5, dtype=kind) for kind in (torch.long, torch.long, torch.float32))
    for row, path in enumerate(PATHS):
        ids[row, : len(path)] = torch.tensor(path)
        acts[row, 1 : len(path)] = 1
        rewards[row, 1 : len(path)] = torch.tensor([REWARD[step] for step in zip(path, path[1:], strict=False)])
    return ids, acts, rewards


def _exact(statistic):
    """Q of all actions by backward induction, with V(s) a statistic of Q(s, a) over the steps of the data from s."""
    v, q = {4: 0.0}, {}
    for state in (3, 2, 1, 0):
        taken = [path[path.index(state) + 1] for path in PATHS if state in path]
        q |= {(state, a): REWARD[state, a] + GAMMA * v[a] for a in set(taken)}
        v[state] = statistic([q[state, a] for a in taken])
    return q


def _expectile(samples, tau):
    low, high = min(samples), max(samples)
    for _ in range(60):
        middle = (low + high) / 2
        is_below = sum((tau if x >= middle else 1 - tau) * (x - middle) for x in samples) > 0
        low, high = (middle, high) if is_below else (low, middle)
    return low


def _learnt(loss, bootstraps, steps=250):
    """Q of all actions of the data after training, by the network that acts."""
    torch.manual_seed(0)
    values, batch = TokenValues(_OneHot(5, 8), 5, bootstraps), _chain()
    optimizer = torch.optim.Adam(values.parameters(), lr=0.01, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(values(*batch)).backward()
        optimizer.step()
        schedule.step()
        values.update_target(0.3)
    with torch.no_grad():
        table = values.acting(values.acting.hidden(torch.arange(5)[None]))[:, 0].amin(dim=0)
    return {(s, a): float(table[s, a]) for s, a in REWARD}


def test_mc_learns_the_bellman_values_of_the_behaviour_policy():
    found = _learnt(lambda estimates: mc_loss(estimates, GAMMA, cql=0.0), bootstraps=False)
    assert found == pytest.approx(_exact(np.mean), abs=0.01)


@pytest.mark.parametrize("tau", [0.5, 0.99])
def test_ilql_learns_the_expectile_values_and_near_one_the_optimal_ones(tau):
    found = _learnt(lambda estimates: ilql_loss(estimates, GAMMA, tau, cql=0.0), bootstraps=True)
    assert found == pytest.approx(_exact(lambda samples: _expectile(samples, tau)), abs=0.02)
    optimal, behaviour = _exact(max), _exact(np.mean)
    if tau == 0.5:
        assert found == pytest.approx(behaviour, abs=0.02)
    if tau == 0.99:
        assert found == pytest.approx(optimal, abs=0.05)
        assert max(abs(optimal[step] - behaviour[step]) for step in optimal) > 0.3
