"""Offline ArCHer: losses against slow loops and the original's, the expectile solution of a chain, its data, and a run end to end."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows, write_rows
from sweetrl_agent import train
from sweetrl_agent.algorithms import archer_offline
from sweetrl_agent.algorithms.archer_offline import ArcherOffline, ArcherOfflineConfig, awr_weights, iql_loss, utterance_data
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.critics.utterance_values import SlowlyFollowed, UtteranceValues
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers.token_passes import action_log_probs
from sweetrl_agent.trainers.weighted import WeightedTrainer, _collate, weighted_loss, weighted_rows

from ..behaviour import guesses
from .originals import original_functions
from .test_archer import OneHot

GAMMA, TAU = 0.9, 0.8
SOURCE = ("OFFLINE_ARCHER_SOURCE", "Algorithms.py")


def _random(seed, dtype=torch.float32):
    """Tensors of 7 transitions: q, v, next_v, target_q, rewards, is_last."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(4, 2, 7, generator=generator).to(dtype)
    return (*drawn, torch.randn(7, generator=generator).to(dtype), torch.randint(2, (7,), generator=generator).to(dtype))


@pytest.mark.parametrize("is_any_cut", [False, True])
def test_the_critics_loss_is_that_of_a_slow_loop(is_any_cut):
    q, v, next_v, target_q, rewards, is_last = _random(0, torch.float64)
    cut = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]) if is_any_cut else torch.zeros(7)
    expected = 0.0
    for k in range(2):
        for i in range(7):
            ahead = 0.0 if is_last[i] else GAMMA * next_v[k, i]
            expected += 0.0 if cut[i] else (q[k, i] - rewards[i] - ahead) ** 2 / (5 if is_any_cut else 7)
            gap = target_q[k, i] - v[k, i]
            expected += (TAU if gap >= 0 else 1 - TAU) * gap**2 / 7
    loss = iql_loss(q, v, rewards, is_last, next_v, target_q, GAMMA, TAU, cut if is_any_cut else None)
    assert loss.item() == pytest.approx(expected.item())


@pytest.mark.parametrize("seed", range(5))
def test_the_critics_loss_is_the_originals(seed):
    iql, expectile = original_functions(*SOURCE, ["iql_loss", "loss_value_diff"])
    q, v, next_v, target_q, rewards, is_last = _random(seed)
    pairs = [[part.clone().requires_grad_(True) for part in (q, v)] for _ in range(2)]
    columns = [lambda *_, rows=rows, **__: [row[:, None] for row in rows] for rows in (*pairs[0], next_v, target_q)]
    stub = SimpleNamespace(
        **dict(zip(("get_q", "get_v", "get_target_v", "get_target_q"), columns, strict=True)),
        discount_factor=GAMMA, td_criterion=torch.nn.MSELoss(), get_log=lambda **_: {},
        expectile_criterion=lambda diff: expectile(None, diff, TAU),
    )  # fmt: skip
    theirs, _ = iql(stub, None, None, rewards.tolist(), None, is_last.tolist())
    loss = iql_loss(*pairs[1], rewards, is_last, next_v, target_q, GAMMA, TAU)
    theirs.backward()
    loss.backward()
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert all(torch.allclose(a.grad, b.grad, rtol=1e-6, atol=0) for a, b in zip(*pairs, strict=True))


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_the_actors_loss_is_the_originals_where_no_weight_is_clipped(beta):
    (awr,) = original_functions(*SOURCE, ["awr_loss"])
    _, _, _, _, advantages, _ = _random(1)
    ours, theirs = (torch.linspace(-5, -1, 7).requires_grad_(True) for _ in range(2))
    actor = SimpleNamespace(get_logsum_prob=lambda *_: theirs)
    critic = SimpleNamespace(get_advantages=lambda *_: advantages[:, None])
    stub = SimpleNamespace(actor=actor, critic=critic, inv_temp=beta, get_actor_log=lambda **_: {})
    expected, _ = awr(stub, None, None)
    loss = weighted_loss(ours, awr_weights(advantages, beta, most=1e6))
    expected.backward()
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6) and torch.allclose(ours.grad, theirs.grad, rtol=1e-6)


def test_weights_are_clipped():
    found = awr_weights(torch.tensor([-1.0, 0.0, 1.0, 50.0]), 2.0, 20.0)
    assert found.tolist() == pytest.approx([np.exp(-2), 1.0, np.exp(2), 20.0])


# ---- the critic on a chain -----------------------------------------------------------------------------------------------------

#: States 0 to 3, an action is the next state, 4 to 7 as tokens (7 ends); each path is in the data once.
PATHS = [(0, 3), (0, 1, 3), (0, 2, 3), (0, 1, 2, 3)]
REWARD = {(0, 3): 0.1, (0, 1): -0.5, (1, 3): 0.9, (0, 2): 0.3, (2, 3): -0.4, (1, 2): 0.6}


def _exact(tau):
    """Q by backward induction, with V(s) the expectile of Q(s, .) over the data."""
    v, q = {3: 0.0}, {}
    for state in (2, 1, 0):
        taken = [following for path in PATHS for s, following in pairwise(path) if s == state]
        q |= {(state, following): REWARD[state, following] + GAMMA * v[following] for following in taken}
        values = [q[state, following] for following in taken]
        low, high = min(values), max(values)
        for _ in range(50):
            middle = (low + high) / 2
            is_below = sum((tau if x >= middle else 1 - tau) * (x - middle) for x in values) > 0
            low, high = (middle, high) if is_below else (low, middle)
        v[state] = low
    return q, v


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_q_and_v_are_the_expectile_solution_of_a_chain(tau):
    steps = [pair for path in PATHS for pair in pairwise(path)]
    lasts = torch.tensor([float(following == 3) for _, following in steps])
    data = archer_offline.UtteranceData(
        [[state] for state, _ in steps], [[4 + following] for _, following in steps],
        torch.tensor([REWARD[step] for step in steps]), lasts, torch.zeros(len(steps)),
    )  # fmt: skip
    torch.manual_seed(0)
    values, algorithm = UtteranceValues(OneHot(), 32), ArcherOffline(ArcherOfflineConfig(gamma=GAMMA, tau=tau))
    double, every = SlowlyFollowed(values, 5e-3, 0.2), np.arange(len(steps))
    for _ in range(400):
        algorithm._critic_step(double, data, every)
    q, v = _exact(tau)
    with torch.no_grad():
        states = values.embed([[state] for state, _ in q])
        found_q = values.q_values(states, values.embed([[4 + following] for _, following in q])).numpy()
        found_v = values.v_values(values.embed([[0], [1], [2]])).numpy()
    assert np.abs(found_q - list(q.values())).max() < 0.03 and np.abs(found_v - [v[0], v[1], v[2]]).max() < 0.03


# ---- data and actor ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def encoded(tiny_tokenizer):
    """Two dialogues of two turns and one, their sequences without and with a forgetting agent."""
    said = ["I need the total.", "Round it?", "Yes.", "I WANT TO ANSWER:\nround(sum(x), 2)"]
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
    dialogues = [messages, messages[:2]]
    episodes = [
        Episode("a", 0, dialogues[0], [Turn(said[1], reward=-2.0), Turn(said[3], reward=4.0)], {"outcome": "right"}, 2.0),
        Episode("b", 0, dialogues[1], [Turn(said[1], reward=-6.0)], {"outcome": "wrong", "answered": False}, -6.0),
    ]
    chat = Chat(tiny_tokenizer)
    return episodes, chat, {history: chat.all_sequences(dialogues, history=history) for history in (-1, 0)}


@pytest.mark.parametrize("history", [-1, 0])
def test_transitions_have_the_prompt_of_each_turn_and_its_tokens(encoded, history):
    episodes, chat, sequences = encoded
    data = utterance_data(episodes, sequences[history], 512, reward_scale=2.0)
    before = [episode.prefix(turn) for episode in episodes for turn in range(1, len(episode.turns) + 1)]
    assert data.states == [chat.prompt(messages[-1:] if history == 0 else messages) for messages in before]
    said = [turn.text for episode in episodes for turn in episode.turns]
    assert data.actions == [chat.turn(messages, text) for messages, text in zip(before, said, strict=True)]
    assert (
        data.rewards.tolist() == [-1.0, 2.0, -3.0] and data.is_last.tolist() == [0, 1, 1] and data.is_cut.tolist() == [0, 0, 1]
    )
    assert data.following(0) == data.states[1] and data.following(1) == data.states[1]
    short = utterance_data(episodes, sequences[history], 5)
    assert short.states == [state[-5:] for state in data.states] and max(map(len, short.actions)) == 5


@pytest.mark.parametrize("history", [-1, 0])
def test_the_actors_loss_weighs_whole_turns(encoded, make_tiny_model, history):
    _, _, sequences = encoded
    model, weights = make_tiny_model(), [0.5, 3.0, 2.0]
    batch = _collate(list(weighted_rows(sequences[history], weights)))
    expected, rest = 0.0, iter(weights)
    for parts in sequences[history]:
        for part in parts:
            log_probs = iter(action_log_probs(model, [part]).tolist())
            for turn in part.turns:
                expected -= next(rest) * sum(next(log_probs) for _ in turn) / 3
    assert WeightedTrainer.compute_loss(None, model, batch).item() == pytest.approx(expected, rel=1e-4)


@pytest.fixture
def words(tmp_path):
    """Settings of a small run on the number game, and a file of behaviour data."""
    file = tmp_path / "data.jsonl"
    write_rows(file, [episode.to_row() for episode in guesses(48)])
    given = {
        "env": "examples.own_environment:Guess-v0", "demonstrations": file, "sft_dialogues": 48, "tiny_hidden_size": 32, "tiny_layers": 1,
        "tiny_vocab_size": 300, "max_new_tokens": 8, "tasks": "seeds:0-3", "test_tasks": "seeds:100-101", "threads": 1,
        "archer_offline.epochs": 1.0, "archer_offline.critic_steps": 30, "algorithm": "archer_offline",
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in given.items()]


def test_a_run_that_was_killed_ends_with_the_same_files(words, tmp_path, monkeypatch):
    monkeypatch.setattr(archer_offline, "SAVED_EVERY", 10)
    folders, original, steps = [tmp_path / name for name in ("whole", "cut")], ArcherOffline._critic_step, []
    heard, tell = [], Callbacks.tell
    with monkeypatch.context() as patch:
        patch.setattr(Callbacks, "tell", lambda self, *given: heard.append(given) or tell(self, *given))
        assert train.main([*words, f"--output={folders[0]}"]) == 0

    def step(self, *given):
        steps.append(1)
        if len(steps) == 26:
            raise KeyboardInterrupt
        return original(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(ArcherOffline, "_critic_step", step)
        assert train.main([*words, f"--output={folders[1]}"]) != 0
    assert (folders[1] / "archer_offline/critic/checkpoint.pt").exists()
    assert train.main([*words, f"--output={folders[1]}"]) == 0
    files = [{path.name: path.read_bytes() for path in folder.rglob("archer_offline/**/*.safetensors")} for folder in folders]
    assert files[0] == files[1] and {*files[0]} == {"model.safetensors", "values.safetensors"}
    rows = [[row for row in read_rows(folder / "metrics.jsonl") if row["stage"] == "archer_offline"] for folder in folders]
    assert rows[0] == rows[1] and [row["step"] for row in rows[0]][:3] == [10, 20, 30] and rows[0][-1]["scored_tokens"] > 0
    logged = [given[2] for given in heard if given[:2] == ("on_log", "archer_offline")]
    assert logged == [row["step"] for row in rows[0]] == sorted({*logged}), "callbacks hear the steps of the metrics"
    assert [given[2:] for given in heard if given[:2] == ("on_step", "archer_offline")][-1] == (rows[0][-1]["step"],) * 2
    assert not (folders[1] / "archer_offline/critic/checkpoint.pt").exists()


@pytest.mark.parametrize("encoder", ["lora", "small"])
def test_every_encoder_is_trained(words, tmp_path, encoder):
    given = [*words, f"--archer_offline.encoder={encoder}", "--archer_offline.width=16", "--archer_offline.critic_batch=8"]
    assert train.main([*given, f"--output={tmp_path / 'run'}"]) == 0


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("tau", "1.5", "at most 1, got 1.5"), ("weight_clip", "0", "above 0, got 0"), ("polyak", "2", "at most 1, got 2")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`archer_offline.{setting}` must be {error}."):
        comparison_job.parse([f"--archer_offline.{setting}", value])
