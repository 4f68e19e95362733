"""Pads rows of unequal length into one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def right_padded(rows: Sequence[Sequence[int]], device: Any = None) -> Tensor:
    """Rows padded with zeros on the right, shape (B, length of the longest row)."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)


def is_token(rows: Sequence[Sequence[int]], device: Any = None) -> Tensor:
    """Attention mask of `right_padded`: 1 for tokens, 0 for padding."""
    return right_padded([[1] * len(row) for row in rows], device)
