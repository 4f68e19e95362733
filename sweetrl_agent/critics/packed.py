"""Candidates after a shared prompt as one packed sequence: each attends to the prompt and to itself, not to other candidates.

The prompt is prefilled once, nothing but the attention is padded, and with grouped-query attention the keys are not repeated. The attention
of all candidates is one operation in each layer, since a GPU would spend its time on starting sixteen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from sweetrl_agent.data.padding import is_token, right_padded
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
    transformers.AttentionInterface.register(PACKED, attend)
    with _attention(model, PACKED):
        logits = model(
            torch.tensor([[token for ids in read for token in ids]], device=device),
            position_ids=torch.tensor([[len(shared) + i for length in lengths for i in range(length)]], device=device),
            use_cache=True,
            **{CACHE: cache},
            layout=Layout(len(shared), lengths, device),
        ).logits[0]
    return [
        _log_probs(own, torch.tensor(ids, device=device)).cpu()
        for ids, own in zip(candidates, logits.split(lengths), strict=True)
    ]


class Layout:
    """Where the tokens of packed candidates are in a padded batch of C candidates of at most L tokens.

    Attributes:
        shared: Number of tokens of the prompt in the cache, P.
        places: Packed position of each padded one, shape (C, L); 0 where there is none.
        candidate, offset: Candidate of each packed token and its position in it, each of shape (N,).
        visible: What the tokens of a candidate attend to among the prompt's and its own, shape (L, P + L). Padding is at the end, so that
            no token attends to it.
    """

    def __init__(self, shared: int, lengths: Sequence[int], device: Any) -> None:
        longest, ends = max(lengths), list(accumulate(lengths))
        rows = [range(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        self.shared, self.places = shared, right_padded(rows, device)
        self.candidate, self.offset = is_token(rows, device).nonzero(as_tuple=True)
        self.visible = torch.ones(longest, shared + longest, dtype=torch.bool, device=device).tril(shared)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    layout: Layout,
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
        layout: Where the candidates are among the N tokens.
        scaling: Scale of the attention logits.

    Returns:
        The attention output, shape (1, N, heads, D), and None for the weights.
    """  # fmt: skip
    heads, dimension = query.shape[1], query.shape[3]
    key_heads, (count, longest) = key.shape[1], layout.places.shape
    groups = heads // key_heads

    def behind_prompt(x: Tensor) -> Tensor:
        """Of each candidate the prompt's and its own, shape (C, key heads, P + L, D)."""
        prompt = x[:, :, : layout.shared].expand(count, -1, -1, -1)
        return torch.cat([prompt, x[0][:, layout.shared + layout.places].transpose(0, 1)], dim=2)

    folded = query[0][:, layout.places].transpose(0, 1).reshape(count, key_heads, groups * longest, dimension)
    visible = layout.visible.repeat(groups, 1)
    output = F.scaled_dot_product_attention(folded, behind_prompt(key), behind_prompt(value), visible, scale=scaling)
    return output.view(count, heads, longest, value.shape[3])[layout.candidate, :, layout.offset][None], None


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
