"""TRL's `GRPOTrainer` with credit per turn: real steps of the real trainer on a random tiny model."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from trl import GRPOTrainer

from sweetrl_agent.bridges.trl_turn_credit import TurnCreditGRPOTrainer
from sweetrl_agent.bridges.turn_credit import DEFAULT, Scale, gain_critic

pytestmark = pytest.mark.filterwarnings("ignore")  # of TRL: its rollout functions are experimental


def constant(episodes):
    return [[0.7] * len(e.turns) for e in episodes]


def first_turns(episodes):
    return [[1.0, *[0.0] * (len(e.turns) - 1)] for e in episodes]


def with_credit(critic, scale=DEFAULT):
    return lambda rollouts, **arguments: TurnCreditGRPOTrainer(rollouts, critic, scale, **arguments)


def weights_after_training(trainer):
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return losses, torch.cat([value.flatten() for value in trainer.model.parameters()])


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "cispo"])
def test_constant_credit_is_trls_loss_to_the_bit(make_rollouts, make_trainer, loss_type):
    def trained(kind):
        return weights_after_training(
            make_trainer(make_rollouts("BridgeCounting-v0", tasks="seeds:0-3"), kind, loss_type=loss_type)
        )

    losses, weights = trained(GRPOTrainer)
    for critic, scale in ((constant, DEFAULT), (first_turns, Scale(weight=0.0))):
        of_ours = trained(with_credit(critic, scale))
        assert of_ours[0] == losses and torch.equal(of_ours[1], weights)
    assert trained(with_credit(first_turns))[0] != losses


def test_the_loss_is_the_mean_over_the_tokens_of_their_turns_advantage(make_rollouts, make_trainer):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3")
    scale = Scale(weight=2.0, scale="none")
    trainer = make_trainer(rollouts, with_credit(first_turns, scale), loss_type="grpo", shuffle_dataset=False)
    trainer.current_gradient_accumulation_steps = 1
    (batch,) = [batch for batch, _ in zip(trainer.get_train_dataloader(), range(1), strict=False)]
    trainer.model.train()
    given = trainer._generate_and_score_completions(batch)
    assert given["advantages"].shape == given["completion_ids"].shape
    logged = trainer._metrics["train"]
    assert logged["credit/mean"] == [0.5] and logged["credit/std"] == [0.5] and logged["credit/turns"] == [16.0]
    expected = 0.0
    for row, turns in enumerate(rollouts.turn_ids):
        values, mask = given["advantages"][row].tolist(), given["completion_mask"][row] * given["tool_mask"][row]
        assert [turn > 0 for turn in turns] == mask.bool().tolist()[: len(turns)] and not mask[len(turns) :].any()
        of_turn = {turn: {value for value, of in zip(values, turns, strict=False) if of == turn} for turn in {*turns} - {0}}
        assert all(len(found) == 1 for found in of_turn.values())
        outcome = trainer._logs["advantages"][row]
        for turn, (value,) in of_turn.items():  # credit 1 and 0, less their mean, times 2
            assert value - outcome == pytest.approx({1: 1.0, 2: -1.0}[turn], abs=1e-5)
        of_agent = [value for value, turn in zip(values, turns, strict=False) if turn]
        expected -= sum(of_agent) / len(of_agent) / len(rollouts.turn_ids)
    loss = trainer._compute_loss(trainer.model, given)  # the ratios of the first step are 1
    assert float(loss) == pytest.approx(expected, abs=1e-5)


def longer(completions, **extra):
    return [0.1 * len(completion) for completion in completions]


def test_a_void_dialogue_has_no_reward_of_further_functions_either(make_rollouts, make_trainer):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3", env_kwargs={"fails": True})
    trainer = make_trainer(
        rollouts,
        partial(TurnCreditGRPOTrainer, critic=first_turns, reward_funcs=longer),
        max_steps=1,
        per_device_train_batch_size=16,
    )
    seen, compute = [], trainer._calculate_rewards
    trainer._calculate_rewards = lambda *given: seen.append(compute(*given)) or seen[-1]
    trainer.train()
    for episode, rewards in zip(rollouts.episodes, seen[0].tolist(), strict=True):
        assert [reward != reward for reward in rewards] == [episode.is_void] * 2
    advantages = [*trainer._logs["advantages"]]
    assert all(value == 0 for value, episode in zip(advantages, rollouts.episodes, strict=True) if episode.is_void)


@pytest.mark.parametrize("fails", [True, False])
def test_a_plain_trainer_warns_of_void_dialogues_that_further_functions_would_score(make_rollouts, make_trainer, caplog, fails):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3", env_kwargs={"fails": fails})
    kind = lambda rollouts, **given: GRPOTrainer(
        train_dataset=rollouts.dataset(), rollout_func=rollouts, reward_funcs=[rollouts.episode_reward, longer], **given
    )
    make_trainer(rollouts, kind, max_steps=1, per_device_train_batch_size=16).train()
    assert ("returns None where" in caplog.text) == fails


def test_the_gain_of_replies_trains_a_model_on_colbench(make_rollouts, make_trainer, tiny_model_folder):
    rollouts = make_rollouts(tasks="embedded:train[:2]", max_turns=2)
    critic = gain_critic(str(tiny_model_folder), rollouts.record.answer_prefix)
    trainer = make_trainer(rollouts, with_credit(critic), max_steps=1)
    _, weights = weights_after_training(trainer)
    assert torch.isfinite(weights).all()
    assert not [p for p in critic.model.parameters() if p.grad is not None]


def test_what_the_rollouts_bring_is_not_the_callers_to_give(make_rollouts):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3")
    with pytest.raises(ValueError, match="`rollout_func` is that of `rollouts`"):
        TurnCreditGRPOTrainer(rollouts, constant, rollout_func=print)
    with pytest.raises(ValueError, match="`reward_funcs` follow the reward of `rollouts`, which would count twice"):
        TurnCreditGRPOTrainer(rollouts, constant, reward_funcs=rollouts.episode_reward)
    with pytest.raises(TypeError, match="`rollouts` must be of GRPORollouts, got <function"):
        TurnCreditGRPOTrainer(constant, rollouts)
    with pytest.raises(TypeError, match="`scale` must be of Scale, got 0.5"):
        TurnCreditGRPOTrainer(rollouts, constant, 0.5)


def test_credit_of_another_length_stops_the_training(make_rollouts, make_trainer):
    trainer = make_trainer(make_rollouts("BridgeCounting-v0", tasks="seeds:0-3"), with_credit(partial(map, lambda e: [1.0])))
    with pytest.raises(ValueError, match="gave 1 numbers to the 2 turns"):
        trainer.train()
