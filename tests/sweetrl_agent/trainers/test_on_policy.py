"""What all on-policy algorithms share: their terms of a loss against slow loops, and what a subclass may leave out."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.algorithm import START
from sweetrl_agent.core.batch import ActionTokens, Batch, Credit, clipped_gain
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.trainers.learner import _switch_off_dropout
from sweetrl_agent.trainers.learners import Learners
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from sweetrl_agent.trainers.sampler import keys_of

NOW, SAMPLED, REFERENCE, ADVANTAGES = np.random.default_rng(0).normal(-1.0, 0.5, (4, 6))
DIALOGUE = [0, 0, 0, 2, 2, 1]


@pytest.fixture
def tokens():
    """Six action tokens of three dialogues."""
    log_probs = torch.tensor(NOW, requires_grad=True)
    return ActionTokens(log_probs, *map(torch.tensor, (SAMPLED, REFERENCE, ADVANTAGES, DIALOGUE)))


class Half(OnPolicyAlgorithm):
    """Every turn is worth half its episode's return."""

    name, title = "half", "Half"

    def credit(self, batch):
        return Credit([[episode.reward / 2] * len(episode.turns) for episode in batch.episodes])


def test_the_divergence_is_its_estimate_at_every_token(tokens):
    slow = [r / p - math.log(r / p) - 1 for r, p in zip(np.exp(REFERENCE), np.exp(NOW), strict=True)]
    assert tokens.reference_divergence().tolist() == pytest.approx(slow)
    assert min(slow) >= 0.0


def test_a_stale_token_has_a_bounded_weight_without_a_gradient(tokens):
    ratios = [math.exp(now) / math.exp(then) for now, then in zip(NOW, SAMPLED, strict=True)]
    assert min(ratios) < 1.1 < max(ratios)
    weights = tokens.staleness_weights(1.1)
    assert weights.tolist() == pytest.approx([min(ratio, 1.1) for ratio in ratios])
    assert not weights.requires_grad


def test_a_mean_over_dialogues_does_not_count_long_ones_for_more(tokens):
    values = torch.tensor([1.0, 2.0, 6.0, 10.0, 20.0, 5.0])
    assert tokens.mean_over_dialogues(values).item() == pytest.approx((3.0 + 5.0 + 15.0) / 3)
    assert tokens.mean_over_dialogues(values).dtype == torch.float32
    assert tokens.mean_over_dialogues(values.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("ratio", "advantage", "gain"), [(1.5, 2.0, 2.4), (1.5, -2.0, -3.0), (0.5, 2.0, 1.0), (0.5, -2.0, -1.6), (1.1, 2.0, 2.2)]
)
def test_the_gain_is_clipped_where_a_step_would_go_too_far(ratio, advantage, gain):
    assert clipped_gain(torch.tensor([ratio]), torch.tensor([advantage]), 0.2).tolist() == pytest.approx([gain])


def test_by_default_a_loss_is_the_policy_gradient(tokens):
    slow = -sum(a * p for a, p in zip(ADVANTAGES, NOW, strict=True)) / len(NOW)
    loss = Half().loss(tokens)
    loss.backward()
    assert loss.item() == pytest.approx(slow)
    assert tokens.log_probs.grad.tolist() == pytest.approx([-a / len(NOW) for a in ADVANTAGES])


def test_a_subclass_says_what_turns_are_worth_and_nothing_else():
    half = Half()
    episodes = [Episode("a", 0, [], [Turn("x")] * 2, {"outcome": "wrong"}, 1.0)]
    assert half.credit(Batch(episodes)) == Credit([[0.5, 0.5]])
    assert (
        half.trainables(None) == () and half.update_critic(Batch(episodes)) == {} and half.policies == {"agent": "half/agent"}
    )
    assert half.uses_reference is False and half.critic_learning_rate is None and half.shared == START
    assert half.config == OnPolicyConfig() and Half(OnPolicyConfig(tasks=2)).config.tasks == 2
    with pytest.raises(NotImplementedError):
        OnPolicyAlgorithm().credit(Batch(episodes))


def test_a_batch_by_hand_has_episodes_alone_and_says_so():
    batch, credit = Batch([]), Credit([[1.0]])
    assert (batch.values, batch.iteration, batch.seed, len(batch.replay)) == ((), 0, 0, 0)
    assert credit.returns == () and credit.episodes is None and credit.agents is None
    for missing in (batch.score, batch.branch, batch.sample, batch.reference, batch.verify):
        with pytest.raises(NotImplementedError, match="^This batch has episodes and values alone; "):
            missing()


def test_without_a_critic_tokens_have_no_values(tokens):
    assert [part.shape for part in (tokens.turn, tokens.values, tokens.returns, tokens.old_values)] == [(0,)] * 4


@pytest.mark.parametrize(("engine", "lora", "is_refused"), [
    ("server", False, True), ("server", True, False), ("vllm", False, False), ("transformers", False, False),
])  # fmt: skip
def test_a_server_is_given_new_weights_as_adapters(engine, lora, is_refused):
    model = SimpleNamespace(engine=engine, lora=lora)
    if is_refused:
        with pytest.raises(
            ValueError, match="^'half' sends its new weights to servers as LoRA adapters: add `--lora true`, or sample"
        ):
            Half().refuse_model(model)
    else:
        Half().refuse_model(model)


def test_the_run_trains_it_with_its_settings(monkeypatch):
    learnt = []
    monkeypatch.setattr(OnPolicyAlgorithm, "learn", lambda algorithm, run: learnt.append((run, algorithm)))
    run = SimpleNamespace()
    Half(OnPolicyConfig(group=7)).train(run)
    ((of, algorithm),) = learnt
    assert of is run and type(algorithm) is Half and algorithm.config == OnPolicyConfig(group=7)


def test_the_last_turn_alone_is_scored_by_the_agent_that_took_it_and_the_tokens_read_are_counted():
    class Team(Half):
        policies = {"coder": "a", "tester": "b"}

    class Learner:
        def __init__(self):
            self.scored_tokens, self.calls = 0, []

        def score(self, episodes, last_only):
            self.calls.append(([len(episode.turns) for episode in episodes], last_only))
            self.scored_tokens += 10 * len(episodes)
            return [
                [*[[]] * (len(episode.turns) - 1), [-1.0]] if last_only else [[-2.0]] * len(episode.turns)
                for episode in episodes
            ]

    algorithm = Team()
    algorithm.learners, algorithm._costs = Learners({"a": Learner(), "b": Learner()}, Team.policies, False), Counter()
    agents = (("coder", "tester", "coder"), ("coder", "tester"), ("coder",))
    episodes = [
        Episode("t", i, [], [Turn("x", agent=agent) for agent in named], {"outcome": "ended"}, 0.0)
        for i, named in enumerate(agents)
    ]
    assert algorithm.score(episodes, True) == [[[], [], [-1.0]], [[], [-1.0]], [[-1.0]]]
    assert [learner.calls for learner in algorithm.learners.values()] == [[([2, 1], True)], [([1], True)]]
    assert algorithm.spent == {"scored_tokens": 30}
    assert algorithm.score(episodes) == [[[-2.0]] * 3, [[-2.0]] * 2, [[-2.0]]] and algorithm.spent == {"scored_tokens": 80}


def test_the_tokens_of_the_last_turn_of_every_dialogue_are_marked():
    turn, dialogue = torch.tensor([0, 0, 1, 1, 2, 3, 4, 4]), torch.tensor([0, 0, 0, 0, 1, 2, 2, 2])
    nothing = torch.zeros(8)
    marked = ActionTokens(nothing, nothing, nothing, nothing, dialogue, turn).in_last_turn()
    assert marked.tolist() == [0, 0, 1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("advantages", "problem"),
    [
        ([[1.0], [1.0, 2.0]], "episode 0 has 2, got 1"),
        ([1.0, 2.0], "episode 0 has 2, got 1"),
        ([[1.0, 2.0]], "episode 1 has 2, got none"),
        ([[1.0, 2.0]] * 3, "there are 2 episodes, got 3"),
        ([[1.0, 2.0], [math.nan, 0.0]], "some are not"),
    ],
)
def test_credit_of_another_shape_is_refused_before_anything_is_trained(advantages, problem):
    episodes = [Episode("t", i, [], [Turn("x"), Turn("y")], {"outcome": "ended"}, 0.0) for i in range(2)]
    with pytest.raises(
        ColBenchError, match=f"^`credit` must return a finite number for every turn .* as advantages; {problem}.$"
    ):
        Learners({}, {}, False).update(Batch(episodes), Credit(advantages), ())
    assert Learners({}, {}, False).update(Batch(episodes), Credit([[1.0, 2.0]] * 2), ()) == {}


def test_a_task_that_comes_again_in_an_iteration_has_further_episodes():
    tasks = [SimpleNamespace(id=name) for name in "abc"]
    config = SimpleNamespace(tasks=7, group=2)
    keys = keys_of(tasks, config, iteration=1)
    assert [key.task_id for key in keys] == [*"bbccaabbccaabb"] and len({*keys}) == 14
    assert [key.index for key in keys if key.task_id == "b"] == [0, 1, 2, 3, 4, 5]
    assert [key.index for key in keys_of(tasks, SimpleNamespace(tasks=3, group=1), 0)] == [0, 0, 0]


def test_training_draws_no_dropout():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=1))
    _switch_off_dropout(model.train())
    tokens = torch.arange(10)[None]
    assert torch.equal(model(tokens).logits, model(tokens).logits) and torch.equal(
        model(tokens).logits, model.eval()(tokens).logits
    )
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, attention_dropout=0.5
        )
    )
    _switch_off_dropout(llama.train())
    assert torch.equal(llama(tokens).logits, llama.eval()(tokens).logits)
