"""Candidates after a shared prompt as one packed sequence: each attends to the prompt and to itself, not to other candidates.

The prompt is prefilled once, its cache is not copied per candidate, there is no padding, and with grouped-query attention the keys
are not repeated. The cost of sixteen candidates is therefore proportional to their tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface

from sweetrl_agent.policies.slots import CACHE, body

#: Name of `attend` among transformers' attention implementations.
PACKED = "candidates_behind_a_prompt"


def candidate_log_probs(model: Any, prompt: list[int], candidates: Sequence[list[int]]) -> list[Tensor]:
    """Log-probabilities of candidates' tokens after a shared prompt.

    Args:
        model: A causal language model with full attention in all layers (`slots.can_use_slots`).
        prompt: Token ids of the shared prompt, at least two.
        candidates: Token ids of each candidate, not empty.

    Returns:
        One float32 tensor per candidate, with one value per token.
    """
    device = model.device
    shared = prompt[:-1]  # the last token is read with each candidate, since it predicts the candidate's first token
    cache = body(model)(torch.tensor([shared], device=device), use_cache=True)[CACHE]
    read = [prompt[-1:] + ids[:-1] for ids in candidates]  # a candidate's last token predicts nothing that is scored
    lengths = [len(ids) for ids in read]
    with _attention(model, PACKED):
        logits = model(
            torch.tensor([[token for ids in read for token in ids]], device=device),
            position_ids=torch.tensor([[len(shared) + i for length in lengths for i in range(length)]], device=device),
            use_cache=True,
            **{CACHE: cache},
            candidates=[_visible(len(shared), length, device) for length in lengths],
        ).logits[0]
    return [
        _log_probs(own, torch.tensor(ids, device=device)).cpu()
        for ids, own in zip(candidates, logits.split(lengths), strict=True)
    ]


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    candidates: list[Tensor],
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of packed candidates, called by transformers in every layer.

    Args:
        module: Not used.
        query: Queries of all candidates' tokens, shape (1, heads, N, D).
        key: Keys of the prompt's P tokens and of these, shape (1, key heads, P + N, D).
        value: As `key`.
        attention_mask: Not used.
        candidates: Attention mask of each candidate over the prompt and itself, shape (length, P + length).
        scaling: Scale of the attention logits.

    Returns:
        The attention output, shape (1, N, heads, D), and None for the weights.
    """  # fmt: skip
    heads, width, dimension = query.shape[1:]
    key_heads = key.shape[1]
    groups, shared = heads // key_heads, key.shape[2] - width
    outputs, start = [], 0
    for visible in candidates:
        end = start + len(visible)
        keys, values = (torch.cat([x[:, :, :shared], x[:, :, shared + start : shared + end]], dim=2) for x in (key, value))
        own = query[:, :, start:end]
        folded = own.reshape(1, key_heads, groups * len(visible), dimension)
        outputs.append(
            F.scaled_dot_product_attention(folded, keys, values, visible.repeat(groups, 1), scale=scaling).view_as(own)
        )
        start = end
    return torch.cat(outputs, dim=2).transpose(1, 2), None


AttentionInterface.register(PACKED, attend)


def _visible(shared: int, length: int, device: Any) -> Tensor:
    return torch.ones(length, shared + length, dtype=torch.bool, device=device).tril(shared)


@contextmanager
def _attention(model: Any, name: str) -> Iterator[None]:
    """Temporarily switch the model to another attention implementation."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _log_probs(logits: Tensor, token_ids: Tensor) -> Tensor:
    """Log-probability of each token given the logits that predict it, shape (L,)."""
    logits = logits.float()
    return logits.gather(1, token_ids[:, None])[:, 0] - logits.logsumexp(dim=1)
