"""A key-value cache with slots, for dialogues that start, wait and end at different times.

Transformers' dynamic cache is one block with rows of equal length, which every step copies. Here each row is a slot with its own
length: new tokens are written in place, a slot keeps its contents while its dialogue waits for the user, and a prompt shared by
several rows is copied instead of being prefilled again.
"""

from __future__ import annotations

import copy
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from sweetrl_agent.policies.small_batch_linear import small_batch_linear

#: The cache grows, and attention reads, in multiples of this number of positions.
BLOCK = 64
#: Settings of models that transform the logits after the head.
_BEYOND_THE_HEAD = ("final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")
#: Name of the cache as a model's argument and as a field of its output.
CACHE = "cache" if tuple(map(int, version("transformers").split(".")[:2])) >= (5, 24) else "past_key_values"


class _Window:
    """Positions that the tokens of a forward pass write to and may attend to; shared by all layers."""

    rows: Tensor
    positions: Tensor
    read: slice | Tensor
    width: int = 0
    slots: int = 0  # used so far
    most_slots: int


class _SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, each (slots used so far, heads, capacity, dimension)."""

    keys: Tensor  # type: ignore[assignment]  # None only before the first update
    values: Tensor  # type: ignore[assignment]
    is_compileable = False
    is_sliding = False

    def __init__(self, window: _Window) -> None:
        super().__init__()
        self.window = window

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = (
            states.new_zeros(self.window.slots, states.shape[1], self.window.width, states.shape[3])
            for states in (key_states, value_states)
        )
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.grow()
        window = self.window
        rows = window.rows[:, None]
        # Of a float32 model under autocast, keys are float32 (rotated) and values bfloat16; outside of it both are float32.
        self.keys[rows, :, window.positions] = key_states.transpose(1, 2).to(self.keys.dtype)
        self.values[rows, :, window.positions] = value_states.transpose(1, 2).to(self.values.dtype)
        return self.keys[window.read, :, : window.width], self.values[window.read, :, : window.width]

    def grow(self) -> None:
        """Make room for the window."""
        if self.window.slots > self.keys.shape[0] or self.window.width > self.keys.shape[2]:
            self.keys, self.values = _grown(self.keys, self.window), _grown(self.values, self.window)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.window.width, 0

    def get_seq_length(self) -> int:
        return self.window.width

    def get_max_length(self) -> int:
        return -1


class SlotCache(Cache):  # type: ignore[misc]
    """Caches of `num_slots` rows, read and written by position."""

    def __init__(self, num_layers: int, num_slots: int) -> None:
        """Create an empty cache; memory is allocated for the slots that are used."""
        self.window = _Window()
        self.window.most_slots = num_slots
        super().__init__(layers=[_SlotLayer(self.window) for _ in range(num_layers)])

    def part(self, first: int, count: int) -> SlotCache:
        """A view of `count` layers from the layer `first` on, for one of several models that read the same tokens."""
        view = copy.copy(self)
        view.layers = self.layers[first : first + count]
        return view

    def copy(self, source: int, targets: list[int], length: int) -> None:
        """Copy the first `length` positions of a slot to other slots."""
        self.window.slots = max(self.window.slots, max(targets) + 1)
        layer: Any
        for layer in self.layers:
            layer.grow()
            # Clone: torch refuses to write to a tensor from a view of it, which a source with the whole capacity is.
            layer.keys[targets, :, :length] = layer.keys[source, :, :length].clone()
            layer.values[targets, :, :length] = layer.values[source, :, :length].clone()


def read(model: Any, cache: SlotCache, token_ids: Tensor, rows: Tensor, start: Tensor) -> None:
    """Prefill tokens into slots without the language-model head.

    Padding after a row's end is written to the cache too. It is overwritten by the next tokens, and no token attends to
    positions after its own.

    Args:
        model: A causal language model with full attention in all layers (`can_use_slots`).
        cache: Its cache.
        token_ids: Tokens, shape (B, L).
        rows: Slot of each row, ascending. Shape (B,).
        start: Position of each row's first token, shape (B,).
    """
    with small_batch_linear(model):
        body(model)(token_ids, **_place(cache, token_ids, rows, start))


def predict(model: Any, cache: SlotCache, token_ids: Tensor, rows: Tensor, start: Tensor) -> Tensor:
    """Read one token into each slot and predict the next one.

    With one token the head gets a contiguous tensor. For the last column of a longer block, PyTorch on a CPU copies a frozen bfloat16
    head for every row.

    Args:
        model: As in `read`.
        cache: As in `read`.
        token_ids: Tokens, shape (B, 1).
        rows: As in `read`.
        start: As in `read`.

    Returns:
        Logits, shape (B, vocabulary).
    """
    with small_batch_linear(model):
        logits: Tensor = model(token_ids, **_place(cache, token_ids, rows, start)).logits
    return logits[:, -1].contiguous()


def without_wrapper(model: Any) -> Any:
    """The model inside PEFT's wrapper, in which the adapters still act; a model without one as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def body(model: Any) -> Any:
    """A causal language model without its head, including its adapters."""
    return without_wrapper(model).base_model


def _place(cache: SlotCache, token_ids: Tensor, rows: Tensor, start: Tensor) -> dict[str, Any]:
    """Model arguments for the cache positions and the attention mask of tokens."""
    count, length = token_ids.shape
    positions = start[:, None] + torch.arange(length, device=start.device)
    window = cache.window
    window.rows, window.positions = rows, positions
    window.width = (int(start.max()) + length + BLOCK - 1) // BLOCK * BLOCK
    last = int(rows[-1])  # once: on a GPU it waits for the device
    window.slots = max(window.slots, last + 1)
    is_first_slots = last == count - 1
    window.read = slice(0, count) if is_first_slots else rows  # a slice is a view, indexing copies
    mask = torch.arange(window.width, device=start.device) <= positions[:, None, :, None]
    return {"attention_mask": mask, "position_ids": positions, CACHE: cache, "use_cache": True}


def can_use_slots(model: Any) -> bool:
    """Whether all layers use full causal attention by PyTorch's own implementation."""
    config = model.config.get_text_config()
    layers = getattr(config, "layer_types", None) or ["full_attention"]
    is_full = set(layers) == {"full_attention"} and not getattr(config, "sliding_window", None)
    return is_full and config._attn_implementation == "sdpa" and not getattr(model, "_is_stateful", False)


def has_plain_head(model: Any) -> bool:
    """Whether the logits are nothing but the language-model head of the last hidden states."""
    config = model.config.get_text_config()
    return all(getattr(config, name, None) is None for name in _BEYOND_THE_HEAD) and not hasattr(config, "num_experts")


def _grown(states: Tensor, window: _Window) -> Tensor:
    """The states with room for the window. A dimension that is too small grows by half at least."""
    used, heads, capacity, dimension = states.shape
    slots = used if window.slots <= used else min(max(window.slots, used * 3 // 2), window.most_slots)
    width = capacity if window.width <= capacity else max(window.width, capacity * 3 // 2)
    larger = states.new_zeros(slots, heads, width, dimension)
    larger[:used, :, :capacity] = states
    return larger
