"""Processes the common prefix of the two sides of a pair once.

The two sides of a pair share a prefix: in stage 2 the whole dialogue before a turn, in stage 1 the hidden information and the request. A
plain batch processes it twice, in the forward and in the backward pass. Gradients flow through the cache, so the results are the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sweetrl_agent.policies.slots import CACHE

#: Minimum share of a batch's tokens to save; below it, a second forward pass does not pay off.
LEAST_SHARE = 0.15


def hidden_states(body: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Last hidden states of a batch of pairs, equal to those of the plain forward pass at every token.

    Args:
        body: The model without its head; full attention in all layers.
        input_ids: The chosen sides, then the rejected ones in the same order, padded on the right, shape (2B, L).
        attention_mask: 1 for tokens, shape (2B, L).

    Returns:
        Shape (2B, L, H); arbitrary finite values at padding.
    """
    lengths = _common_lengths(input_ids, attention_mask)
    if len(lengths) == 0 or int(lengths.min()) == 0 or int(lengths.sum()) < LEAST_SHARE * int(attention_mask.sum()):
        plain: Tensor = body(input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        return plain
    device, both = input_ids.device, lengths.repeat(2)
    width = int(lengths.max())
    places = torch.arange(width, device=device)
    is_shared = places < lengths[:, None]
    output = body(input_ids[: len(lengths), :width] * is_shared, attention_mask=is_shared.long(), use_cache=True)
    cache = output[CACHE]
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys.repeat(2, 1, 1, 1), layer.values.repeat(2, 1, 1, 1)
    own_lengths = attention_mask.sum(dim=1) - both
    steps = torch.arange(int(own_lengths.max()), device=device)
    is_own = steps < own_lengths[:, None]
    positions = (both[:, None] + steps).clamp(max=input_ids.shape[1] - 1)
    own = body(
        input_ids.gather(1, positions) * is_own,
        attention_mask=torch.cat([is_shared.repeat(2, 1), is_own], dim=1).long(),
        position_ids=positions,
        use_cache=True,
        **{CACHE: cache},
    ).last_hidden_state
    everything = torch.cat([output.last_hidden_state.repeat(2, 1, 1), own], dim=1)
    columns = torch.arange(input_ids.shape[1], device=device)
    behind = (width + columns - both[:, None]).clamp(max=everything.shape[1] - 1)
    source = torch.where(columns < both[:, None], columns, behind)
    return everything.gather(1, source[:, :, None].expand(-1, -1, everything.shape[2]))


def _common_lengths(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Length of the common prefix of every pair, leaving at least one token per side; no lengths for an odd batch."""
    if len(input_ids) % 2:
        return input_ids.new_zeros(0)
    (first, second), masks = input_ids.chunk(2), attention_mask.bool().chunk(2)
    common = ((first == second) & masks[0] & masks[1]).long().cumprod(dim=1).sum(dim=1)
    shorter = torch.minimum(masks[0].sum(dim=1), masks[1].sum(dim=1))
    return torch.minimum(common, shorter - 1)
