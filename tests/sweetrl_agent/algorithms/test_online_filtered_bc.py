"""Online filtered behaviour cloning: which episodes are kept, its loss against a slow loop, and that it learns and resumes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.online_filtered_bc import OnlineFilteredBC, OnlineFilteredBCConfig, best_fraction
from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.evaluation import comparison_job

GAME = {"online_filtered_bc.tasks": 16, "online_filtered_bc.learning_rate": 1e-2}


def _episode(said, reward, tokenizer=None):
    messages, turns = [{"role": "user", "content": "I need it."}], []
    for text in said:
        ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id] if tokenizer else [0]
        turns.append(Turn(text, ids, [-1.0] * len(ids)))
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    return Episode("a", 0, messages[:-1], turns, {"outcome": "wrong"}, reward)


@pytest.mark.parametrize(
    ("returns", "keep", "kept"),
    [
        ([-5.0, -1.0, -3.0, -2.0], 0.5, [1, 3]),
        ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], 0.3, [0, 1, 9]),  # the earlier of equals
        ([0.0, 1.0, 0.0], 0.1, [1]),
        ([2.0, 1.0, 3.0], 1.0, [0, 1, 2]),
        ([], 0.3, []),
    ],
)
def test_the_best_fraction_is_kept(returns, keep, kept):
    assert best_fraction(returns, keep) == kept


def test_turns_of_the_best_episodes_have_the_advantage_1():
    episodes = [_episode(["x"] * turns, reward) for turns, reward in ((2, -4.0), (1, -1.0), (3, -2.0), (1, -3.0))]
    found = OnlineFilteredBC(OnlineFilteredBCConfig(keep=0.5)).credit(Batch(episodes)).advantages
    assert found == [[0.0, 0.0], [1.0], [1.0, 1.0, 1.0], [0.0]]
    assert OnlineFilteredBC().credit(Batch([])).advantages == []


def test_a_step_is_that_of_sft_on_the_best(begin, make_game, make_tiny_model, tiny_tokenizer):
    """The loss and the gradient are those of the mean negative log-likelihood of the kept episodes' action tokens, token by token."""
    texts = [["No", "total"], ["Yes"], ["I need", "the total", "Round it?"], ["list"]]
    episodes = [_episode(said, reward, tiny_tokenizer) for said, reward in zip(texts, (1.0, 0.0, 2.0, -1.0), strict=True)]
    algorithm = OnlineFilteredBC(OnlineFilteredBCConfig(keep=0.5, epochs=1))
    learner = begin(make_game(1, temperature=0.8), algorithm)
    model, terms = make_tiny_model(), []
    for episode in (episodes[0], episodes[2]):
        (encoded,) = learner._encoded(episode)
        log_probs = torch.log_softmax(model(torch.tensor([encoded.token_ids])).logits[0] / 0.8, dim=-1)
        terms += [-log_probs[i - 1, encoded.token_ids[i]] for i, turn in enumerate(encoded.turn_ids) if turn]
    slow = torch.stack(terms).mean()
    slow.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    model.zero_grad()
    update = learner.update(episodes, algorithm.credit(Batch(episodes)))
    assert update.loss == pytest.approx(slow.item(), rel=1e-4) and update.grad_norm == pytest.approx(norm.item(), rel=1e-3)
    assert update.tokens == sum(len(learner._encoded(episodes[i])[0].token_ids) for i in (0, 2))


def test_it_learns_what_is_rewarded_in_the_last_turn(make_game):
    run = make_game(2, **GAME, **{"online_filtered_bc.iterations": 20})
    run.config.algorithms["online_filtered_bc"].train(run)
    found = [row["return"] for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "online_filtered_bc"]
    assert len(found) == 20 and np.mean(found[:3]) < 0.5 and np.mean(found[-3:]) > np.mean(found[:3]) + 0.3


def test_a_run_that_was_killed_ends_with_the_same_agent(make_game, train_with_a_kill):
    game = {**GAME, "online_filtered_bc.tasks": 6, "online_filtered_bc.iterations": 3}
    whole, cut = (make_game(2, name, **game) for name in ("whole", "cut"))
    whole.config.algorithms["online_filtered_bc"].train(whole)
    assert len(train_with_a_kill(cut.config.algorithms["online_filtered_bc"], cut)["metrics"]) == 2
    weights = [(run.path("online_filtered_bc/agent") / "model.safetensors").read_bytes() for run in (whole, cut)]
    assert weights[0] == weights[1]
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))


def test_with_lora_an_adapter_is_trained(make_game):
    run = make_game(1, **GAME, **{"online_filtered_bc.iterations": 1}, lora=True)
    run.config.algorithms["online_filtered_bc"].train(run)
    assert (run.path("online_filtered_bc/agent") / "adapter_model.safetensors").exists()
    assert read_rows(run.path("metrics.jsonl"))[-1]["grad_norm"] > 0


@pytest.mark.parametrize(("value", "error"), [("0.0", "above 0, got 0.0"), ("1.5", "at most 1, got 1.5")])
def test_a_fraction_is_above_0_and_at_most_1(value, error):
    with pytest.raises(ValueError, match=f"`online_filtered_bc.keep` must be {error}."):
        comparison_job.parse(["--online_filtered_bc.keep", value])
