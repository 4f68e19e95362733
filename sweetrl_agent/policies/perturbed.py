"""The initial policy with its logits shifted by action values: the policy of agents that learn Q but no policy.

Source: Snell et al., arXiv:2206.11871.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.modeling_outputs import CausalLMOutput

from sweetrl_agent.policies.slots import CACHE, SlotCache, body


class PerturbedModel(nn.Module):
    """A model for policies of this process: logits(a | s) = log pi_beta(a | s) + beta min_k Q_k(s, a).

    The advantage Q - V gives the same softmax, since V is the same for all tokens, so V is left out. The slots of its cache have the layers of both
    models: first the policy's, then the value body's. `generate` samples from models that cannot use slots (`policies.slots.can_use_slots`).
    """

    def __init__(self, policy: Any, values: Any, beta: float) -> None:
        """Put the two models together.

        Args:
            policy: pi_beta, a causal language model.
            values: A network with a `body` of the same architecture; called with hidden states, it returns Q of shape (K, ..., vocabulary).
            beta: Weight of the values; 0 is the policy.
        """
        super().__init__()
        self.policy, self.values, self.beta = policy, values, beta
        self.layers = policy.config.get_text_config().num_hidden_layers
        self.config = copy.deepcopy(policy.config)
        self.config.get_text_config().num_hidden_layers = 2 * self.layers
        self.generation_config = policy.generation_config

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = self.policy.device
        return device

    @property
    def base_model(self) -> Any:
        """Both models without their heads, for prefilling: `policies.slots.body`."""
        return self._read

    def forward(self, input_ids: Tensor, **place: Any) -> CausalLMOutput:
        """Perturbed logits of shape (B, L, vocabulary).

        Args:
            input_ids: Tokens, shape (B, L).
            place: Their place in the cache, as `policies.slots` gives it; empty for rows padded on the right.
        """
        policy_place, value_place = self._places(place)
        logits = self.policy(input_ids, **policy_place).logits.float()
        hidden = self.values.body(input_ids, **value_place).last_hidden_state.float()
        return CausalLMOutput(logits=logits + self.beta * self.values(hidden).amin(dim=0))

    def generate(self, *, attention_mask: Tensor, logits_processor: LogitsProcessorList, **settings: Any) -> Tensor:
        """`generate` of the policy with perturbed logits, which the processors see.

        Args:
            attention_mask: 1 for tokens, 0 for padding, which is on the left. Shape (B, L).
            logits_processor: Chooses the tokens.
            settings: Further arguments of transformers' `generate`.
        """
        perturbing = _Perturbing(self.values, self.beta, attention_mask)
        processors = LogitsProcessorList([perturbing, *logits_processor])
        token_ids: Tensor = self.policy.generate(attention_mask=attention_mask, logits_processor=processors, **settings)
        return token_ids

    def _read(self, input_ids: Tensor, **place: Any) -> None:
        policy_place, value_place = self._places(place)
        body(self.policy)(input_ids, **policy_place)
        self.values.body(input_ids, **value_place)

    def _places(self, place: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The place of the tokens in the layers of each model."""
        if CACHE not in place:
            return place, place
        cache: SlotCache = place[CACHE]
        return (
            {**place, CACHE: cache.part(0, self.layers)},
            {**place, CACHE: cache.part(self.layers, self.layers)},
        )


class _Perturbing(LogitsProcessor):
    """Adds beta min_k Q_k to the logits of every step of `generate`; the values' body has a cache of its own."""

    def __init__(self, values: Any, beta: float, mask: Tensor) -> None:
        self.values, self.beta, self.mask = values, beta, mask
        self.cache: dict[str, Any] = {}

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits of shape (B, vocabulary)."""
        unread = input_ids[:, -1:] if self.cache else input_ids
        mask = nn.functional.pad(self.mask, (0, input_ids.shape[1] - self.mask.shape[1]), value=1)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -unread.shape[1] :]
        output = self.values.body(unread, attention_mask=mask, position_ids=positions, use_cache=True, **self.cache)
        self.cache = {CACHE: output[CACHE]}
        return scores.float() + self.beta * self.values(output.last_hidden_state[:, -1].float()).amin(dim=0)
