"""SkyRL's registries with credit per turn: its own functions on rows of ours, and steps of a tiny model. `bridges/test.sh` runs it with the package installed."""

from __future__ import annotations

import importlib.util
import sys
import typing

import numpy as np
import pytest
import torch
import typing_extensions
from torch.nn.utils.rnn import pad_sequence

if importlib.util.find_spec("skyrl") is None:
    pytest.skip("SkyRL is not installed; `bash bridges/test.sh skyrl` installs it and runs this.", allow_module_level=True)
if sys.version_info < (3, 12):  # SkyRL 0.3 gives pydantic a `typing.TypedDict`, which it takes from Python 3.12 on
    typing.TypedDict = typing_extensions.TypedDict

from skyrl.backends.skyrl_train.utils.ppo_utils import (
    PolicyLossRegistry,
    compute_advantages_and_returns,
)
from skyrl.train.config import AlgorithmConfig

from examples.skyrl_turn_credit import generator_output
from sweetrl_agent.bridges.turn_credit import Scale, turn_credit
from tests.sweetrl_agent.bridges.test_turn_credit import an_episode


@pytest.fixture
def rows(tiny_tokenizer):
    """Dialogues in which the first turn is credited, the others are not, and one is void."""
    episodes = [an_episode(tiny_tokenizer, "a", i, turns, float(i == 0)) for i, turns in enumerate((2, 3, 4))]
    episodes.append(an_episode(tiny_tokenizer, "a", 3, 2, 0.0, outcome="void"))
    return turn_credit(
        episodes, lambda valid: [[1.0, *[0.0] * (len(e.turns) - 1)] for e in valid], tiny_tokenizer, scale=Scale("none")
    )


def padded(values, of=0.0):
    return pad_sequence([torch.tensor(value, dtype=torch.float32) for value in values], batch_first=True, padding_value=of)


def test_skyrl_hands_the_credit_on_as_it_is(rows):
    output = generator_output(rows)
    rewards, mask = padded(output["rewards"]), padded(output["loss_masks"])
    advantages, returns = compute_advantages_and_returns(
        rewards, mask, np.array([row.task_id for row in rows]), "turn_credit", AlgorithmConfig()
    )
    assert torch.equal(advantages, padded([row.advantages for row in rows])) and torch.equal(returns, advantages)
    assert advantages[:3].abs().sum() > 0 and not advantages[3].any() and not mask[3].any()
    summed, _ = compute_advantages_and_returns(rewards, mask, np.array(["a"] * 4), "grpo", AlgorithmConfig())
    assert not torch.allclose(summed, advantages)  # which is why the estimator is needed


def test_steps_of_skyrls_loss_make_the_credited_turn_likelier(rows, make_tiny_model):
    output, model = generator_output(rows), make_tiny_model()
    mask = padded(output["loss_masks"])
    advantages, _ = compute_advantages_and_returns(
        padded(output["rewards"]), mask, np.array(["a"] * len(rows)), "turn_credit", AlgorithmConfig()
    )
    loss_of, config = PolicyLossRegistry.get("regular"), AlgorithmConfig()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def log_probs():
        found = []
        for prompt, response in zip(output["prompt_token_ids"], output["response_ids"], strict=True):
            ids = torch.tensor([prompt + response])
            every = torch.log_softmax(model(ids).logits[0, :-1].float(), -1).gather(1, ids[0, 1:, None])[:, 0]
            found.append(every[len(prompt) - 1 :])
        return pad_sequence(found, batch_first=True)

    before = log_probs().detach()
    for _ in range(4):
        loss, _ = loss_of(log_probs(), before, advantages, config=config, loss_mask=mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    change = log_probs().detach() - before
    assert float((change * (advantages > 0)).sum()) > 0 > float((change * (advantages < 0)).sum())
