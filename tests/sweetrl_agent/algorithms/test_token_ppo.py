"""PPO over tokens: credit and losses against slow loops, where its values are read, a chain with known values, and that it learns and resumes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.registry import ALGORITHMS, _lacking
from sweetrl_agent.algorithms.token_ppo import TokenPPO, TokenPPOConfig, token_rewards
from sweetrl_agent.core.batch import ActionTokens, Batch
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.trainers import sampler
from sweetrl_agent.trainers.token_passes import action_log_probs, log_probs_and_values

GAME = {"token_ppo.tasks": 12, "token_ppo.learning_rate": 1e-2, "token_ppo.critic_learning_rate": 1e-1, "token_ppo.epochs": 2}
LENGTHS = [[3, 1, 4], [2], [1, 1], [5, 2]]


def _algorithm(**settings):
    return TokenPPO(TokenPPOConfig(**settings))


def _episode(lengths, rewards, log_probs=None):
    rest = iter(log_probs if log_probs is not None else [-1.0] * sum(lengths))
    turns = [Turn("x", [0] * n, [next(rest) for _ in range(n)], r) for n, r in zip(lengths, rewards, strict=True)]
    return Episode("a", 0, [], turns, {"outcome": "wrong"}, sum(rewards))


def _played(run, learner, count):
    tasks = [task.id for task in run.tasks[:count]]
    return [episode for (episode,) in sampler.play(learner.policy, None, episodes_of(tasks, 1), 0, "x")]


def _returns(run):
    return [row["return"] for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "token_ppo"]


def _weighted_estimates(rewards, values, gamma, lam):
    """GAE by its definition: the average of the n-step estimates with the weights (1 - lambda) lambda^(n - 1)."""
    found = []
    for i in range(len(rewards)):
        left = len(rewards) - i
        steps = []
        for n in range(1, left + 1):
            ahead = gamma**n * values[i + n] if n < left else 0.0
            steps.append(sum(gamma**k * rewards[i + k] for k in range(n)) + ahead - values[i])
        found.append((1 - lam) * sum(lam**n * steps[n] for n in range(left - 1)) + lam ** (left - 1) * steps[-1])
    return found


@pytest.mark.parametrize(("gamma", "lam", "beta"), [(0.99, 0.95, 0.1), (0.5, 0.0, 0.0), (1.0, 1.0, 0.7), (0.9, 0.3, 0.0)])
def test_credit_is_that_of_a_slow_loop_over_tokens(gamma, lam, beta):
    rng = np.random.default_rng(0)
    episodes, values, references, slow = [], [], [], []
    for lengths in LENGTHS:
        count, of_turns = sum(lengths), rng.normal(size=len(lengths)).tolist()
        old, first, value = rng.normal(-1.0, 0.5, (3, count)).tolist()
        rewards = [-beta * (old[i] - first[i]) for i in range(count)]
        for turn, reward in enumerate(of_turns):
            rewards[sum(lengths[: turn + 1]) - 1] += reward
        episodes.append(_episode(lengths, of_turns, old))
        values.append(value)
        references.append(first)
        slow.append(_weighted_estimates(rewards, value, gamma, lam))
    credit = _algorithm(gamma=gamma, lam=lam, beta=beta).credit(Batch(episodes, values, reference=lambda: references))
    flat = np.array(sum(slow, []))
    assert sum(credit.returns, []) == pytest.approx((flat + sum(values, [])).tolist(), rel=1e-12)
    assert sum(credit.advantages, []) == pytest.approx(((flat - flat.mean()) / flat.std()).tolist(), rel=1e-12)
    assert [len(row) for row in credit.advantages] == [len(row) for row in credit.returns] == [8, 2, 2, 7]


def test_a_turn_is_rewarded_at_its_last_token_and_each_token_costs_its_divergence():
    episode = _episode([2, 1], [-1.0, 3.0], [-0.5, -1.0, -2.0])
    assert token_rewards(episode, [], 0.0) == [0.0, -1.0, 3.0]
    assert token_rewards(episode, [-0.5, -2.0, -1.0], 0.25) == [0.0, -1.25, 3.25]
    with pytest.raises(ValueError, match="zip"):
        token_rewards(episode, [-0.5], 0.25)


def test_the_next_turn_bootstraps_the_last_token_of_a_turn_and_nothing_the_last_of_an_episode():
    targets = _algorithm(gamma=0.5, lam=0.0, beta=0.0).credit(Batch([_episode([2, 1], [-1.0, 3.0])], [[5.0, 6.0, 8.0]])).returns
    assert targets == [[0.5 * 6.0, -1.0 + 0.5 * 8.0, 3.0]]
    assert _algorithm(beta=0.0).credit(Batch([])).advantages == []


def test_the_initial_policy_is_asked_for_the_kl_penalty_alone():
    assert [_algorithm(beta=beta).uses_reference for beta in (0.0, 0.001)] == [False, True]
    assert ALGORITHMS["token_ppo"].values_per_token and not ALGORITHMS["turn_ppo"].values_per_token and not _lacking(TokenPPO)


@pytest.mark.parametrize("value_clip", [0.2, 0.0])
def test_losses_and_their_gradients_are_those_of_a_slow_loop(value_clip):
    rng = np.random.default_rng(1)
    count, clip, weight = 12, 0.2, 0.7
    now, sampled = rng.normal(-1.0, 0.3, (2, count))
    advantages, values, returns, changes = rng.normal(0.0, 1.0, (4, count))
    old_values = values - 0.3 * changes
    policy, critic, slopes, value_slopes = 0.0, 0.0, np.zeros(count), np.zeros(count)
    for i in range(count):
        ratio = math.exp(now[i]) / math.exp(sampled[i])
        first, second = ratio * advantages[i], min(max(ratio, 1 - clip), 1 + clip) * advantages[i]
        policy -= min(first, second) / count
        slopes[i] = -ratio * advantages[i] / count if first <= second else 0.0
        near = min(max(values[i], old_values[i] - value_clip), old_values[i] + value_clip) if value_clip else values[i]
        critic += max((values[i] - returns[i]) ** 2, (near - returns[i]) ** 2) / count / 2
        if (values[i] - returns[i]) ** 2 >= (near - returns[i]) ** 2:
            value_slopes[i] = weight * (values[i] - returns[i]) / count
    assert 0 < sum(slopes == 0) < count and (0 < sum(value_slopes == 0) < count) == (value_clip > 0)
    log_probs, predicted = torch.tensor(now, requires_grad=True), torch.tensor(values, requires_grad=True)
    rest = [torch.tensor(array) for array in (sampled, sampled, advantages, np.zeros(count, int), np.zeros(count, int))]
    tokens = ActionTokens(log_probs, *rest, predicted, torch.tensor(returns), torch.tensor(old_values))
    algorithm = _algorithm(clip=clip, value_clip=value_clip, value_weight=weight)
    loss = algorithm.loss(tokens)
    loss.backward()
    assert algorithm.policy_loss(tokens).item() == pytest.approx(policy)
    assert algorithm.value_loss(tokens).item() == pytest.approx(critic)
    assert loss.item() == pytest.approx(policy + weight * critic)
    assert log_probs.grad.tolist() == pytest.approx(slopes.tolist())
    assert predicted.grad.tolist() == pytest.approx(value_slopes.tolist())


def test_a_value_is_read_off_the_token_before_each_action_token(make_tiny_model, tiny_tokenizer):
    model, head = make_tiny_model(), torch.nn.Linear(32, 1)
    said = ["I need the total.", "Round it?", "Yes.", "I WANT TO ANSWER:\nround(sum(x), 2)"]
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
    dialogues = [Chat(tiny_tokenizer).sequences(part)[0] for part in (messages, messages[:2])]
    log_probs, values = log_probs_and_values(model, dialogues, head=head, per_token=True)
    slow = []
    for dialogue in dialogues:
        for place, turn in enumerate(dialogue.turn_ids):
            if turn:
                output = model(torch.tensor([dialogue.token_ids[:place]]), output_hidden_states=True)
                slow.append(head(output.hidden_states[-1][0, -1]).item())
    assert values.shape == log_probs.shape and values.tolist() == pytest.approx(slow, rel=1e-3, abs=1e-4)
    _, of_turns = log_probs_and_values(model, dialogues, head=head)
    begins = len(Chat(tiny_tokenizer).sequences(messages[:2])[0].token_ids) - len(Chat(tiny_tokenizer).prompt(messages[:1]))
    assert of_turns[:2].tolist() == pytest.approx([slow[0], slow[begins]], rel=1e-3, abs=1e-4)


def test_the_trainer_gives_every_token_its_own_numbers(begin, make_game):
    """The loss is given tokens in micro-batches of 3 of 4 dialogues; a spy keeps them, and what they were credited with."""
    seen, credited = [], []

    class Spy(TokenPPO):
        def credit(self, batch):
            credited.append((super().credit(batch), batch.values, batch.reference()))
            return credited[-1][0]

        def loss(self, tokens):
            seen.append(tokens)
            return super().loss(tokens)

    run = make_game(2)
    learner = begin(run, Spy(TokenPPOConfig(learning_rate=1e-2, epochs=2, micro_batch=3, beta=0.1)))
    torch.nn.init.normal_(learner.head.weight, generator=torch.Generator().manual_seed(0))
    episodes = _played(run, learner, 4)
    update = learner.algorithm.update(episodes, 0)
    ((credit, values, reference),) = credited
    counts = [sum(len(turn.token_ids) for turn in episode.turns) for episode in episodes]
    assert [len(row) for row in values] == [len(row) for row in reference] == counts and len(seen) == 2 * 2
    for name, expected in (("advantages", credit.advantages), ("returns", credit.returns), ("old_values", values),
                           ("reference", reference)):  # fmt: skip
        for first in (0, 2):
            found = torch.cat([getattr(tokens, name) for tokens in seen[first : first + 2]])
            assert found.tolist() == pytest.approx(sum(expected, []), rel=1e-6)
    assert torch.cat([tokens.values for tokens in seen[:2]]).tolist() == pytest.approx(sum(values, []), rel=1e-4, abs=1e-5)
    assert [tokens.values.shape for tokens in seen] == [tokens.log_probs.shape for tokens in seen]
    assert (seen[2].values != seen[0].values).all() and update["reference_kl"] > 0


@pytest.mark.parametrize("lora", [False, True])
def test_the_reference_is_the_initial_policy_also_after_updates(begin, make_game, make_tiny_model, lora):
    torch.manual_seed(0)  # of the adapter
    run = make_game(2, lora=lora)
    learner = begin(run, _algorithm(learning_rate=3e-2, epochs=3, micro_batch=3))
    episodes = _played(run, learner, 4)
    dialogues = [learner._encoded(episode) for episode in episodes]
    initial = action_log_probs(make_tiny_model(), sum(dialogues, []), learner.temperature).tolist()
    assert (learner._initial is learner.model) == lora
    learner.algorithm.update(episodes, 0)
    assert sum(learner.reference(episodes), []) == pytest.approx(initial, rel=1e-3, abs=1e-4)
    assert action_log_probs(learner.model, sum(dialogues, []), learner.temperature).tolist() != pytest.approx(initial, rel=1e-2)


@pytest.mark.parametrize("history", [0, 1])
def test_training_sees_each_token_as_an_agent_that_forgets_sampled_it(begin, make_game, history):
    run = make_game(3, history=history)
    learner = begin(run, _algorithm(learning_rate=0.0, epochs=1, micro_batch=3, beta=0.0))
    torch.nn.init.normal_(learner.head.weight, generator=torch.Generator().manual_seed(0))
    seen, episodes = [], _played(run, learner, 6)
    assert max(len(episode.turns) for episode in episodes) > 1
    learner.algorithm.loss = lambda tokens: [seen.append(tokens), TokenPPO.loss(learner.algorithm, tokens)][1]
    learner.algorithm.update(episodes, 0)
    for tokens in seen:  # the tiny policy is in float32
        assert tokens.log_probs.tolist() == pytest.approx(tokens.sampled.tolist(), abs=1e-3)
        assert tokens.values.tolist() == pytest.approx(tokens.old_values.tolist(), rel=1e-4, abs=1e-5)
    lengths = [len(turn.token_ids) for episode in episodes for turn in episode.turns]
    assert sum(len(tokens.sampled) for tokens in seen) == sum(lengths)
    assert [int(tokens.dialogue.max()) + 1 for tokens in seen] == [3, 3]
    assert sum(int(tokens.turn.max()) + 1 for tokens in seen) == len(lengths)


@pytest.mark.parametrize("lam", [1.0, 0.0])
def test_the_critic_learns_the_values_of_a_chain(begin, make_game, tiny_tokenizer, lam):
    """The policy stands still. The same 6 tokens earn 1 in one episode and 0 in another, so V is 1/2 discounted by the tokens that follow."""
    settings = {"gamma": 0.5, "lam": lam, "beta": 0.0, "learning_rate": 0.0, "critic_learning_rate": 3e-3, "epochs": 20}
    learner = begin(make_game(2), _algorithm(**settings))
    said = [("assistant", "Yes"), ("user", "And then?"), ("assistant", "No")]
    messages = [{"role": "user", "content": "I need it."}, *({"role": role, "content": text} for role, text in said)]
    tokens = [[*tiny_tokenizer(text)["input_ids"], tiny_tokenizer.eos_token_id] for text in ("Yes", "No")]
    count = sum(map(len, tokens))
    episodes = []
    for reward in (1.0, 0.0):
        turns = [Turn("x", own, [-1.0] * len(own), r) for own, r in zip(tokens, (0.0, reward), strict=True)]
        episodes.append(Episode("a", 0, messages, turns, {"outcome": "wrong"}, reward))
    for _ in range(12):
        learner.algorithm.update(episodes, 0)
    values = np.array(learner.values(episodes))
    assert values == pytest.approx(np.array([[0.5 * 0.5 ** (count - 1 - i) for i in range(count)]] * 2), abs=0.01)


@pytest.mark.parametrize(("settings", "expected"), [({"anneal": True}, [1.0, 0.75, 0.5, 0.25]), ({}, [1.0] * 4)])
def test_learning_rates_are_annealed_where_asked(make_game, monkeypatch, settings, expected):
    seen = []
    step = torch.optim.AdamW.step

    def spy(optimizer, *given, **named):
        seen.append([group["lr"] for group in optimizer.param_groups])
        return step(optimizer, *given, **named)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    flat = {f"token_ppo.{name}": value for name, value in settings.items()}
    run = make_game(2, **{"token_ppo.iterations": 4, "token_ppo.tasks": 2, "token_ppo.epochs": 1}, **flat)
    run.config.algorithms["token_ppo"].train(run)
    assert seen == [[pytest.approx(3e-4 * share), pytest.approx(3e-3 * share)] for share in expected]


def test_a_new_critic_starts_at_the_given_value(begin, make_game):
    learner = begin(make_game(1), _algorithm(first_value=-35.0))
    assert {value for row in learner.values(_played(make_game(1), learner, 1)) for value in row} == {-35.0}


def test_it_learns_what_is_rewarded_in_the_last_turn(make_game):
    run = make_game(2, **GAME, **{"token_ppo.iterations": 25})
    run.config.algorithms["token_ppo"].train(run)
    found = _returns(run)
    assert len(found) == 25 and np.mean(found[:3]) < 0.5 and np.mean(found[-3:]) > np.mean(found[:3]) + 0.3


def test_the_kl_penalty_alone_leads_back_to_the_initial_policy(begin, make_game):
    """After a displacement, one step makes tokens less likely that became more likely than before, and the other way round."""
    run = make_game(1)
    learner = begin(run, _algorithm(learning_rate=1e-3, epochs=1, gamma=0.0, beta=0.5))
    with torch.no_grad():
        learner.model.lm_head.weight[300:400] *= 2.0
    episodes = [replace(one, turns=[replace(turn, reward=0.0) for turn in one.turns]) for one in _played(run, learner, 8)]
    dialogues = [learner._encoded(episode) for episode in episodes]

    def log_probs():
        return action_log_probs(learner.model, sum(dialogues, []), learner.temperature).detach().numpy()

    before, reference = log_probs(), np.array(sum(learner.reference(episodes), []))
    learner.algorithm.update(episodes, 0)
    assert np.abs(before - reference).max() > 0.3
    assert np.corrcoef(before - reference, log_probs() - before)[0, 1] < -0.5


@pytest.mark.parametrize("lora", [False, True])
def test_a_run_that_was_killed_ends_with_the_same_files(make_game, train_with_a_kill, lora):
    game = {**GAME, "token_ppo.tasks": 6, "token_ppo.iterations": 3, "lora": lora}
    whole, cut = (make_game(2, name, **game) for name in ("whole", "cut"))
    torch.manual_seed(0)  # of the adapter
    whole.config.algorithms["token_ppo"].train(whole)
    torch.manual_seed(0)
    saved = train_with_a_kill(cut.config.algorithms["token_ppo"], cut)
    assert saved["trainables"]["agent"]["module"]["head.weight"].abs().sum() > 0 and len(saved["metrics"]) == 2
    files = [{path.name: path.read_bytes() for path in run.path("token_ppo").rglob("*.safetensors")} for run in (whole, cut)]
    assert files[0] == files[1] and len(files[0]) == 1
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("gamma", "1.5", "at most 1, got 1.5"), ("lam", "1.5", "at most 1, got 1.5"), ("clip", "-0.1", "at least 0, got -0.1"),
     ("value_clip", "-1.0", "at least 0, got -1.0"), ("beta", "-1.0", "at least 0, got -1.0")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`token_ppo.{setting}` must be {error}."):
        comparison_job.parse([f"--token_ppo.{setting}", value])
