"""Rows of unequal length as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def right_padded(rows: Sequence[Sequence[int]], device: Any = None) -> Tensor:
    """Rows with zeros behind them, shape (B, length of the longest)."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)


def is_token(rows: Sequence[Sequence[int]], device: Any = None) -> Tensor:
    """1 where `right_padded` has a token, 0 behind it: an attention mask."""
    return right_padded([[1] * len(row) for row in rows], device)
