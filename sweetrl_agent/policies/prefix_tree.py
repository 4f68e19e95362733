"""Sequences of a dialogue with what they have in common read once.

Where a template renders past turns in another way than they were sampled, each turn is a sequence of its own (`data.chat`), and all of them repeat the
dialogue so far. Here each dialogue is one packed row: the distinct prefixes of its sequences, of which a token attends to those of its own sequences only,
at its own position. So its hidden state is that of the plain sequence, and its gradient is the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sweetrl_agent.data.padding import right_padded

#: Largest share of the tokens of different sequences that the packed rows may have; above it, they do not pay off.
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
    """The packed rows of sequences; None if they are not so few tokens that it pays off.

    Args:
        rows: Token ids of B sequences.
        groups: Group of each: sequences of different groups share nothing.
        device: Of the tensors.
    """
    distinct = {tuple(row) for row in rows}
    members: dict[int, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    if len(members) == len(rows):
        return None
    packed = [_packed([rows[i] for i in own]) for own in members.values()]
    if sum(len(tokens) for tokens, _, _ in packed) > MOST_SHARE * sum(map(len, distinct)):
        return None
    width = max(len(tokens) for tokens, _, _ in packed)
    visible = torch.eye(width, dtype=torch.bool).repeat(len(packed), 1, 1)  # padding attends to itself, not to nothing
    places: list[Sequence[int]] = [()] * len(rows)
    for number, (own, (_, _, nodes)) in enumerate(zip(members.values(), packed, strict=True)):
        for i, path in zip(own, nodes, strict=True):
            on_path = torch.tensor(path)
            visible[number, on_path[:, None], on_path] = torch.ones(len(path), len(path), dtype=torch.bool).tril()
            places[i] = (on_path + number * width).tolist()
    inputs = {
        "input_ids": right_padded([tokens for tokens, _, _ in packed], device),
        "position_ids": right_padded([depths for _, depths, _ in packed], device),
        "attention_mask": visible[:, None].to(device),
    }
    return PrefixTree(inputs, right_padded(places, device))


def padded_tree(input_ids: Tensor, attention_mask: Tensor, groups: Tensor) -> PrefixTree | None:
    """`prefix_tree` of sequences that are padded on the right.

    Args:
        input_ids: Shape (B, L).
        attention_mask: 1 for tokens, shape (B, L).
        groups: Shape (B,).
    """
    lengths = attention_mask.sum(dim=1).tolist()
    rows = [row[:length] for row, length in zip(input_ids.tolist(), lengths, strict=True)]
    return prefix_tree(rows, groups.tolist(), input_ids.device)


def _packed(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int], list[list[int]]]:
    """Tokens of the distinct prefixes, position of each in its sequences, and the places of each sequence's tokens among them."""
    tokens, depths, nodes = list[int](), list[int](), [list[int]()] * len(rows)
    before, path = list[int](), list[int]()
    for i in sorted(range(len(rows)), key=lambda i: list(rows[i])):  # a sequence has most in common with a neighbour
        row = list(rows[i])
        common = next((k for k, (a, b) in enumerate(zip(before, row, strict=False)) if a != b), min(len(before), len(row)))
        new = range(len(tokens), len(tokens) + len(row) - common)
        path = path[:common] + list(new)
        tokens += row[common:]
        depths += range(common, len(row))
        nodes[i], before = path, row
    return tokens, depths, nodes
