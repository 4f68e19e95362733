"""Packs the sequences of a dialogue into one row, in which a common prefix stands once.

Where a template renders past turns differently than they were sampled, each turn is a sequence of its own (`data.chat`), and every sequence repeats the
dialogue so far. A packed row holds the distinct prefixes. A token attends only to tokens of its own sequences, at its position in them. Its hidden state
therefore equals the one in the plain sequence, and its gradient is the sum of the plain gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import torch
from torch import Tensor

from sweetrl_agent.data.padding import right_padded
from sweetrl_agent.policies.slots import can_use_slots

#: Packed rows pay off up to this share of the tokens of the distinct sequences.
MOST_SHARE = 0.85


@dataclass(frozen=True)
class PrefixTree:
    """Packed rows of N tokens, one for each of G groups, that stand for B sequences of at most L tokens.

    Attributes:
        inputs: Arguments of a model's body: "input_ids" and "position_ids" (G, N), and "attention_mask" (G, 1, N, N), true where a token attends to another.
        places: Position of each token among the G * N packed ones, shape (B, L); 0 at padding.
    """

    inputs: dict[str, Tensor]
    places: Tensor

    def hidden_states(self, body: Any) -> Tensor:
        """Last hidden states of the body at the packed tokens, shape (G * N, H)."""
        states: Tensor = body(**self.inputs, use_cache=False).last_hidden_state
        return states.flatten(0, 1)


def prefix_tree(rows: Sequence[Sequence[int]], groups: Sequence[int], device: Any = None) -> PrefixTree | None:
    """The packed rows of sequences; None if packing does not pay off (`MOST_SHARE`).

    Args:
        rows: Token ids of B sequences.
        groups: Group of each sequence. Sequences of different groups share nothing.
        device: Device of the tensors.
    """
    members = _members(groups)
    if len(members) == len(rows):
        return None
    packed = [_packed([rows[i] for i in indices]) for indices in members.values()]
    if sum(len(tokens) for tokens, _, _ in packed) > MOST_SHARE * sum(map(len, {tuple(row) for row in rows})):
        return None
    width = max(len(tokens) for tokens, _, _ in packed)
    visible = torch.eye(width, dtype=torch.bool).repeat(len(packed), 1, 1)  # padding attends to itself, not to nothing
    places: list[Sequence[int]] = [()] * len(rows)
    for number, (indices, (_, _, nodes)) in enumerate(zip(members.values(), packed, strict=True)):
        for i, path in zip(indices, nodes, strict=True):
            on_path = torch.tensor(path)
            visible[number, on_path[:, None], on_path] = torch.ones(len(path), len(path), dtype=torch.bool).tril()
            places[i] = (on_path + number * width).tolist()
    inputs = {
        "input_ids": right_padded([tokens for tokens, _, _ in packed], device),
        "position_ids": right_padded([depths for _, depths, _ in packed], device),
        "attention_mask": visible[:, None].to(device),
    }
    return PrefixTree(inputs, right_padded(places, device))


def tokens_read(rows: Sequence[Sequence[int]], groups: Sequence[int]) -> int:
    """Number of tokens that a model reads of sequences: as packed rows where that pays off, else every distinct sequence.

    Args:
        rows: As in `prefix_tree`.
        groups: As in `prefix_tree`.
    """
    plain = sum(map(len, {tuple(row) for row in rows}))
    packed = sum(len(_packed([rows[i] for i in indices])[0]) for indices in _members(groups).values())
    return packed if packed <= MOST_SHARE * plain else plain


def padded_tree(model: Any, input_ids: Tensor, attention_mask: Tensor | None, groups: Tensor | None) -> PrefixTree | None:
    """`prefix_tree` of sequences that are padded on the right; None also for a model that cannot read packed rows.

    Args:
        model: The model that reads them.
        input_ids: Shape (B, L).
        attention_mask: 1 for tokens, shape (B, L); None for nothing in common.
        groups: Shape (B,); None for nothing in common.
    """
    if attention_mask is None or groups is None or not can_use_slots(model):
        return None
    lengths = attention_mask.sum(dim=1).tolist()
    rows = [row[:length] for row, length in zip(input_ids.tolist(), lengths, strict=True)]
    return prefix_tree(rows, groups.tolist(), input_ids.device)


def rows_at(states: Tensor, places: Tensor) -> Tensor:
    """Rows of `states`, shape (N, H), at `places` of any shape; shape (*places.shape, H).

    Invariant: the gradients of a row that is taken several times are always added in the same order, so that a resumed training does not differ
    from one that was not killed. On a CPU, indexing adds those of large tensors in parallel, in any order; on a GPU, `index_select` does.
    """
    if states.is_cuda:
        return states[places]
    return states.index_select(0, places.flatten()).reshape(*places.shape, *states.shape[1:])


def _members(groups: Sequence[int]) -> dict[int, list[int]]:
    """The sequences of each group."""
    members: dict[int, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    return members


def _packed(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int], list[list[int]]]:
    """Tokens of the distinct prefixes, the position of each token in its sequences, and the indices of each sequence's tokens."""
    tokens, depths, nodes = list[int](), list[int](), [list[int]()] * len(rows)
    before, path = list[int](), list[int]()
    for i in sorted(range(len(rows)), key=lambda i: list(rows[i])):  # a sequence has most in common with a neighbour
        row = list(rows[i])
        common = len(commonprefix([before, row]))
        new = range(len(tokens), len(tokens) + len(row) - common)
        path = path[:common] + list(new)
        tokens += row[common:]
        depths += range(common, len(row))
        nodes[i], before = path, row
    return tokens, depths, nodes
