"""The initial policy with its logits moved by action values: what samples from agents that have learnt Q and no policy.

Source: Snell et al., arXiv:2206.11871.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

from sweetrl_agent.policies.slots import CACHE, SlotCache, body


class PerturbedModel(nn.Module):
    """A model for `ContinuousTransformersPolicy`: logits(a | s) = log pi_beta(a | s) + beta min_k Q_k(s, a).

    The advantage Q - V gives the same softmax, since V is the same for all tokens, so V is left out. The slots of its cache have the layers of both
    models: first the policy's, then the value body's.
    """

    def __init__(self, policy: Any, values: Any, beta: float) -> None:
        """Put the two models together.

        Args:
            policy: pi_beta, a causal language model for which `policies.slots.can_use_slots` holds.
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
        of_policy, of_values = self._places(place)
        logits = self.policy(input_ids, **of_policy).logits.float()
        hidden = self.values.body(input_ids, **of_values).last_hidden_state.float()
        return CausalLMOutput(logits=logits + self.beta * self.values(hidden).amin(dim=0))

    def _read(self, input_ids: Tensor, **place: Any) -> None:
        of_policy, of_values = self._places(place)
        body(self.policy)(input_ids, **of_policy)
        self.values.body(input_ids, **of_values)

    def _places(self, place: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The place of the tokens in the layers of each model."""
        if CACHE not in place:
            return place, place
        cache: SlotCache = place[CACHE]
        return (
            {**place, CACHE: cache.part(0, self.layers)},
            {**place, CACHE: cache.part(self.layers, self.layers)},
        )
