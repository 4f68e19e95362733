"""Turn-PPO: its advantages and its loss against slow loops, where its values are read, that it learns games of turns, and that it resumes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.turn_ppo import TurnPPO, TurnPPOConfig, turn_gae
from sweetrl_agent.core.batch import ActionTokens, Batch
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.settings import build
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.trainers import sampler
from sweetrl_agent.trainers.token_passes import log_probs_and_values

GAME = {"turn_ppo.tasks": 24, "turn_ppo.learning_rate": 1e-2, "turn_ppo.critic_learning_rate": 1e-1, "turn_ppo.micro_batch": 24}


def _algorithm(gamma=0.9, lam=0.8, clip=0.2, value_weight=0.5, beta=0.0, first_value=0.0):
    return TurnPPO(
        TurnPPOConfig(gamma=gamma, lam=lam, clip=clip, value_weight=value_weight, beta=beta, first_value=first_value)
    )


def _trajectory(task, reward, turns):
    return Episode(task, 0, [], [*[Turn("x")] * (turns - 1), Turn("x", reward=reward)], {"outcome": "wrong"}, reward)


def _success(run):
    return [row["return"] for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "turn_ppo"]


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.9), (0.5, 0.0), (1.0, 1.0)])
def test_the_advantage_is_the_sum_of_discounted_errors(gamma, lam):
    rng = np.random.default_rng(0)
    for turns in (1, 2, 5):
        rewards, values = rng.normal(size=(2, turns)).tolist()
        errors = [rewards[t] + gamma * (values[t + 1] if t + 1 < turns else 0.0) - values[t] for t in range(turns)]
        slow = [sum((gamma * lam) ** (u - t) * errors[u] for u in range(t, turns)) for t in range(turns)]
        assert turn_gae(rewards, values, gamma, lam) == pytest.approx(slow)


def test_advantages_are_normalized_over_the_batch_and_targets_are_not():
    episodes, values = [_trajectory("a", 1.0, 3), _trajectory("b", 0.0, 1)], [[0.1, 0.5, 0.3], [0.4]]
    raw = [
        turn_gae([turn.reward for turn in episode.turns], row, 0.9, 0.8) for episode, row in zip(episodes, values, strict=True)
    ]
    credit = _algorithm().credit(Batch(episodes, values))
    flat = np.array(sum(raw, []))
    assert sum(credit.advantages, []) == pytest.approx(((flat - flat.mean()) / flat.std()).tolist())
    assert [len(row) for row in credit.advantages] == [3, 1]
    assert sum(credit.returns, []) == pytest.approx((flat + sum(values, [])).tolist())
    assert _algorithm(lam=1.0).credit(Batch(episodes, values)).returns[0] == pytest.approx(
        [0.81, 0.9, 1.0]
    )  # then they are the discounted rewards
    assert _algorithm().credit(Batch([])).advantages == []


def test_the_credit_of_one_turn_is_its_advantage_before_it_is_normalized():
    episodes, values = (
        [_trajectory("a", 1.0, 3), _trajectory("b", 0.0, 2), _trajectory("a", 1.0, 1)],
        [[0.1, 0.5, 0.3], [0.4, 0.2], [0.7]],
    )
    of_turns = [_algorithm().turn_credit(Batch(episodes, values), turns) for turns in ([1, 2, 1], [3, 1, 1])]
    last = 1.0 - 0.3
    second = 0.9 * 0.3 - 0.5 + 0.72 * last
    assert of_turns[0] == pytest.approx([0.9 * 0.5 - 0.1 + 0.72 * second, -0.2, 0.3])
    assert of_turns[1] == pytest.approx([last, 0.9 * 0.2 - 0.4 + 0.72 * -0.2, 0.3])


def test_hidden_information_is_required_where_the_value_head_reads_it():
    assert [TurnPPO(TurnPPOConfig(asymmetric=reads)).requires for reads in (False, True)] == [frozenset(), {"hidden"}]


def test_the_initial_policy_is_asked_for_the_kl_term_alone():
    assert [_algorithm(beta=beta).uses_reference for beta in (0.0, 0.001)] == [False, True]


@pytest.mark.parametrize("name", ["gamma", "lam"])
def test_a_discount_is_at_most_1(name):
    assert getattr(build(TurnPPOConfig, {name: 1.0}), name) == 1.0
    with pytest.raises(ValueError, match=rf"^`{name}` must be at most 1, got 1\.01\.$"):
        build(TurnPPOConfig, {name: 1.01})


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_loss_and_its_gradients_are_those_of_a_slow_loop(beta):
    rng = np.random.default_rng(2)
    turn, clip, weight = np.repeat(range(4), [3, 1, 2, 3]), 0.2, 0.7
    now, sampled, reference = rng.normal(-1.0, 0.15, (3, 9))
    by_turn, values, returns = rng.normal(0.0, 1.0, (3, 4))
    total, slopes = 0.0, np.zeros(9)
    for t in range(4):
        own = np.flatnonzero(turn == t)
        ratio = math.prod(math.exp(now[i]) / math.exp(sampled[i]) for i in own)
        first, second = ratio * by_turn[t], min(max(ratio, 1 - clip), 1 + clip) * by_turn[t]
        total += (-min(first, second) + weight * (values[t] - returns[t]) ** 2) / 4
        slopes[own] -= ratio * by_turn[t] / 4 if first <= second else 0.0
    for i in range(9):
        away = reference[i] - now[i]
        total += beta * (math.exp(away) - away - 1) / 9
        slopes[i] += beta * (1 - math.exp(away)) / 9
    assert beta or 0 < sum(slopes == 0) < 9  # some turns are clipped
    log_probs, predicted = torch.tensor(now, requires_grad=True), torch.tensor(values, requires_grad=True)
    rest = [torch.tensor(array) for array in (sampled, reference, by_turn[turn], np.zeros(9, int), turn)]
    loss = _algorithm(clip=clip, value_weight=weight, beta=beta).loss(
        ActionTokens(log_probs, *rest, predicted, torch.tensor(returns))
    )
    loss.backward()
    assert loss.item() == pytest.approx(total)
    assert log_probs.grad.tolist() == pytest.approx(slopes.tolist())
    assert predicted.grad.tolist() == pytest.approx((2 * weight * (values - returns) / 4).tolist())


def test_a_value_is_read_off_the_last_token_of_the_turns_prompt(make_tiny_model, tiny_tokenizer):
    model, head = make_tiny_model(), torch.nn.Linear(32, 1)
    said = ["I need the total.", "Round it?", "Yes.", "I WANT TO ANSWER:\nround(sum(x), 2)"]
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
    dialogues = [Chat(tiny_tokenizer).sequences(part)[0] for part in (messages, messages[:2])]
    _, values = log_probs_and_values(model, dialogues, head=head)
    slow = []
    for prefix in (messages[:1], messages[:3], messages[:1]):
        output = model(torch.tensor([Chat(tiny_tokenizer).prompt(prefix)]), output_hidden_states=True)
        slow.append(head(output.hidden_states[-1][0, -1]).item())
    assert values.tolist() == pytest.approx(slow, rel=1e-4)
    assert slow[0] != pytest.approx(slow[1], rel=1e-2)


@pytest.mark.parametrize("first", [0.0, -30.0])
def test_gradients_reach_the_policy_and_the_value_head(begin, make_game, first):
    run = make_game(3, **{"turn_ppo.tasks": 4})
    learner = begin(run, _algorithm(first_value=first))
    tasks = [task.id for task in run.tasks[:4]]
    episodes = [t for (t,) in sampler.play(learner.policy, None, episodes_of(tasks, 1), 0, "x")]
    assert learner.values(episodes) == [[first] * 3] * 4  # what a new head gives does not depend on the state
    body = [parameter.detach().clone() for parameter in learner.model.parameters()]
    learner.algorithm.update(episodes, 0)
    assert any(episode.reward for episode in episodes) and learner.head.weight.abs().sum() > 0
    assert all((a != b).any() for a, b in zip(body, learner.model.parameters(), strict=True))


def test_it_finds_the_optimum_of_a_chain_of_turns(make_game):
    run = make_game(2, **GAME, **{"turn_ppo.iterations": 40})
    run.config.algorithms["turn_ppo"].train(run)
    success = _success(run)
    assert len(success) == 40 and np.mean(success[:3]) < 0.6 and np.mean(success[-5:]) > 0.9


def test_a_heavy_kl_term_keeps_the_initial_policy(make_game):
    run = make_game(2, **{**GAME, "turn_ppo.learning_rate": 1e-3}, **{"turn_ppo.iterations": 10, "turn_ppo.beta": 100.0})
    run.config.algorithms["turn_ppo"].train(run)
    success = _success(run)
    assert np.mean(success[-3:]) < np.mean(success[:3]) + 0.2


def test_the_critic_learns_the_discounted_reward(begin, make_game):
    """The policy stands still and every episode is given the reward 1, so V(o_t) is gamma to the number of turns that follow t."""
    learner = begin(
        make_game(3),
        TurnPPO(
            TurnPPOConfig(learning_rate=0.0, tasks=4, micro_batch=4, epochs=150, critic_learning_rate=3e-2, gamma=0.5, lam=1.0)
        ),
    )
    played = [t for (t,) in sampler.play(learner.policy, None, episodes_of(["a", "b", "c", "d"], 1), 0, "x")]
    rewarded = [[*(replace(turn, reward=0.0) for turn in t.turns[:-1]), replace(t.turns[-1], reward=1.0)] for t in played]
    episodes = [replace(t, turns=turns, reward=1.0) for t, turns in zip(played, rewarded, strict=True)]
    learner.algorithm.update(episodes, 0)
    values = np.array(learner.values(episodes))
    assert values == pytest.approx(np.array([[0.25, 0.5, 1.0]] * 4), abs=0.1)


def test_a_run_that_was_killed_ends_with_the_same_files(make_game, train_with_a_kill):
    whole, cut = (make_game(2, name, **GAME, **{"turn_ppo.iterations": 4}) for name in ("whole", "cut"))
    whole.config.algorithms["turn_ppo"].train(whole)
    saved = train_with_a_kill(cut.config.algorithms["turn_ppo"], cut)
    assert saved["trainables"]["agent"]["module"]["head.weight"].abs().sum() > 0 and len(saved["metrics"]) == 2
    files = [
        {path.relative_to(run.path(".")): path.read_bytes() for path in run.path("turn_ppo").rglob("*.*")}
        for run in (whole, cut)
    ]
    assert files[0] == files[1] and len(files[0]) > 2
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("gamma", "1.5", "at most 1, got 1.5"), ("lam", "1.5", "at most 1, got 1.5"), ("clip", "-0.1", "at least 0, got -0.1"),
     ("group", "0", "at least 1, got 0"), ("epochs", "0", "at least 1, got 0")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`turn_ppo.{setting}` must be {error}."):
        comparison_job.parse([f"--turn_ppo.{setting}", value])
