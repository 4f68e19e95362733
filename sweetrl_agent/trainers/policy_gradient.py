"""The one step that on-policy algorithms share: log-probabilities of the agent's tokens in whole dialogues, weighted by credit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from sweetrl_agent.chat import Messages, encode_dialogue


def policy_gradient_loss(
    model: Any, tokenizer: Any, dialogues: Sequence[Messages], advantages: Sequence[Sequence[float]]
) -> Tensor:
    """- sum over turns of A(turn) times the turn's summed log-probability, per action token of the batch.

    Args:
        model: The policy, a causal language model.
        tokenizer: Its tokenizer.
        dialogues: Chat messages, a leading system message included where the agent has one.
        advantages: For every dialogue one number per agent turn.

    Source: the policy gradient theorem with actions that are whole utterances, arXiv:2503.15478, Lemma B.2.
    """
    encoded = [encode_dialogue(messages, tokenizer) for messages in dialogues]
    width, device = max(len(e.token_ids) for e in encoded), model.device

    def padded(rows: list[list[int]]) -> Tensor:
        return torch.tensor([row + [0] * (width - len(row)) for row in rows], device=device)

    ids, turns = padded([e.token_ids for e in encoded]), padded([e.turn_ids for e in encoded])[:, 1:]
    mask = padded([[1] * len(e.token_ids) for e in encoded])
    logits = model(ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    is_action = turns > 0
    log_probs = torch.log_softmax(logits[is_action].float(), dim=-1).gather(1, ids[:, 1:][is_action][:, None])[:, 0]
    by_turn = torch.zeros(len(encoded), int(turns.max()) + 1, device=device)
    for row, values in enumerate(advantages):
        by_turn[row, 1 : len(values) + 1] = torch.tensor(list(values), device=device)
    weights = by_turn.gather(1, turns)[is_action]
    return -(weights * log_probs).mean()


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Consecutive parts of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
