"""Pads rows of unequal length into one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor


def right_padded(rows: Sequence[Sequence[int]], device: Any = None) -> Tensor:
    """Rows padded with zeros on the right, shape (B, length of the longest row)."""
    values = torch.tensor(list(chain.from_iterable(rows)))
    is_value = _is_value(rows)
    padded = torch.zeros(is_value.shape, dtype=values.dtype)
    padded[is_value] = values
    return padded.to(device)


def is_token(rows: Sequence[Sequence[int]], device: Any = None) -> Tensor:
    """Attention mask of `right_padded`: 1 for tokens, 0 for padding."""
    return _is_value(rows).long().to(device)


def _is_value(rows: Sequence[Sequence[int]]) -> Tensor:
    lengths = torch.tensor([len(row) for row in rows])
    return torch.arange(int(lengths.max())) < lengths[:, None]
