"""Products of large float32 weights with the few rows of a sampling step, on a CPU.

PyTorch's `linear` for 32 rows ran at 30 to 60 Gflop/s on two cores (AMD Zen 3, torch 2.13), and with the factors exchanged, in blocks of
1,024 rows of the weights, at 65 to 80.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

#: Weights from this size on, with at most so many rows, in blocks of so many of their own rows.
LEAST, MOST_ROWS, BLOCK = 2**19, 64, 1024


def few_rows(model: Any) -> AbstractContextManager[Any]:
    """Exchange factors within the context, if that may be faster for the model: in float32 on a CPU, and not a tiny one."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    is_worth_it = head is not None and head.weight.numel() >= 64 * LEAST and _is_plain(head.weight)
    return _Exchanging() if is_worth_it else nullcontext()


class _Exchanging(TorchFunctionMode):
    """Replaces `torch.nn.functional.linear` where factors are exchanged."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.linear and not kwargs and _is_faster(*args):
            return _product(*args)
        return func(*args, **(kwargs or {}))


def _is_plain(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32


def _is_faster(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    is_large = weight.numel() >= LEAST and rows.numel() <= MOST_ROWS * weight.shape[1]
    return is_large and _is_plain(weight) and rows.dtype == weight.dtype and not torch.is_grad_enabled()


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` for rows of shape (..., H)."""
    columns = rows.flatten(0, -2).t()
    found = columns.new_empty(len(weight), columns.shape[1])
    for own, target in zip(weight.split(BLOCK), found.split(BLOCK), strict=True):
        torch.mm(own, columns, out=target)
    result = found.t()
    if bias is not None:
        result = result + bias
    return result.reshape(*rows.shape[:-1], -1)
