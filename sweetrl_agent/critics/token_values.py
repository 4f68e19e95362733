"""Token-level action values: a model's body with MLP heads for Q, and for algorithms that bootstrap V and a slow target copy of body and Q.

A state is the dialogue up to a token of the agent, the action is that token. Q has a row of the whole vocabulary for every state.

Source: Snell et al., arXiv:2206.11871; the heads are those of LMRL-Gym's code (arXiv:2311.18232): one hidden layer of the body's
width, ReLU, and a last layer of zeros. As there, the body is a copy of the initial policy that is trained with the heads, separate from the frozen
initial policy that actions are sampled from, and the target has a body of its own.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sweetrl_agent.policies.prefix_tree import padded_tree, rows_at

VALUES = "values.safetensors"


class TokenEstimates(NamedTuple):
    """Estimates at the action tokens of some dialogues, concatenated: N tokens in U different states, K heads, a vocabulary of M.

    Attributes:
        q: Q of every token of the vocabulary in every state, with its gradient. Shape (K, U, M).
        state: State before each action token, 0 to U - 1. Shape (N,).
        v: V of the states, with its gradient; None without V. Shape (N,).
        target_q: Smallest Q of the target heads at the tokens that were taken, without gradient; None without a target. Shape (N,).
        tokens: The tokens that were taken. Shape (N,).
        rewards: Their rewards. Shape (N,).
        is_last: Whether a token is the last action of its dialogue. Shape (N,).
        is_cut: Whether it is the last action of a dialogue that was cut off, so that the state after it is not known; None for nowhere. Shape (N,).
    """

    q: Tensor
    state: Tensor
    v: Tensor | None
    target_q: Tensor | None
    tokens: Tensor
    rewards: Tensor
    is_last: Tensor
    is_cut: Tensor | None = None

    @property
    def taken(self) -> Tensor:
        """Q of the tokens that were taken. Shape (K, N)."""
        return self.q[:, self.state, self.tokens]

    def scaled(self, scale: float) -> TokenEstimates:
        """The estimates with all rewards divided by `scale`."""
        return self._replace(rewards=self.rewards / scale)

    def cql_loss(self) -> Tensor:
        """The CQL term: cross-entropy of the Q values as logits with the tokens that were taken, mean over tokens, sum over heads.

        Source: LMRL-Gym's code; for a discrete action it is the regularizer of CQL(H), Kumar et al., arXiv:2006.04779.
        """
        return (self.q.logsumexp(dim=2)[:, self.state] - self.taken).mean(dim=1).sum()


class QNetwork(nn.Module):
    """A body and `heads` Q heads on its hidden states."""

    def __init__(self, body: Any, vocabulary: int, heads: int) -> None:
        """Add new heads to a body.

        Args:
            body: A transformer without a language-model head; returns `last_hidden_state`.
            vocabulary: Number of tokens that have a Q value.
            heads: Number of heads.
        """
        super().__init__()
        self.body = body
        self.heads = nn.ModuleList(_head(body.config.get_text_config().hidden_size, vocabulary) for _ in range(heads))

    def hidden(self, input_ids: Tensor, **places: Tensor) -> Tensor:
        """Hidden states of rows that are padded on the right, which causal attention does not see. Shape (B, L, H), in the heads' dtype.

        Args:
            input_ids: Shape (B, L).
            **places: Further arguments of the body, of `prefix_tree.PrefixTree.inputs`.
        """
        states: Tensor = self.body(input_ids, **places).last_hidden_state
        return states.to(next(self.heads.parameters()).dtype)

    def forward(self, hidden: Tensor) -> Tensor:
        """Q values of hidden states of shape (..., H). Shape (K, ..., M)."""
        return torch.stack([head(hidden) for head in self.heads])


class TokenValues(nn.Module):
    """Q, and with `bootstraps` V and the target of Q, whose body and heads follow slowly."""

    main_input_name = "input_ids"

    def __init__(self, body: Any, vocabulary: int, bootstraps: bool) -> None:
        """Add new heads to a body, which is trained with them: two for Q and one for V if it bootstraps, else one for Q."""
        super().__init__()
        self.online = QNetwork(body, vocabulary, 2 if bootstraps else 1)
        self.v = _head(body.config.get_text_config().hidden_size, 1) if bootstraps else None
        self.target = copy.deepcopy(self.online).requires_grad_(False) if bootstraps else None

    @property
    def acting(self) -> QNetwork:
        """The network that actions are chosen by: the target, if there is one."""
        return self.online if self.target is None else self.target

    def forward(
        self,
        input_ids: Tensor,
        is_action: Tensor,
        rewards: Tensor,
        dialogue: Tensor | None = None,
        is_cut: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> TokenEstimates:
        """Estimates at all action tokens, dialogue after dialogue.

        Args:
            input_ids: Padded on the right. Shape (B, L).
            is_action: Whether a token is an action of the agent. Shape (B, L).
            rewards: Reward of every token; 0 for tokens that are not actions. Shape (B, L).
            dialogue: Dialogue of each row, in order, for an agent that reads only a part of it in every turn; None for a row each. Shape (B,).
            is_cut: Whether each dialogue was cut off by a limit of turns; None for no dialogue. Shape (number of dialogues,).
            attention_mask: 1 for tokens: what the rows of a dialogue have in common is then read once. None reads whole rows. Shape (B, L).
        """
        acts = is_action[:, 1:].bool()
        row, column = acts.nonzero(as_tuple=True)
        tokens = input_ids[:, 1:][acts]
        tree = padded_tree(self.online.body, input_ids, attention_mask, dialogue)
        dialogue = row if dialogue is None else dialogue[row]
        # A turn is read once, however often it occurs in the batch, and its states are judged once.
        if tree is None:
            input_ids, same = input_ids.unique(dim=0, return_inverse=True)
            read, place = {"input_ids": input_ids}, same[row] * input_ids.shape[1] + column
        else:
            read, place = tree.inputs, tree.places[row, column]
        states, state = place.unique(return_inverse=True)
        hidden = self.online.hidden(**read).flatten(0, 1)[states]
        target_q = None
        if self.target is not None:
            with torch.no_grad():
                rows = self.target(self.target.hidden(**read).flatten(0, 1)[states]).amin(dim=0)
                target_q = rows[state, tokens]
        is_last = torch.ones_like(dialogue, dtype=torch.bool)
        is_last[:-1] = dialogue[1:] != dialogue[:-1]
        v = None if self.v is None else rows_at(self.v(hidden), state)[:, 0]
        is_cut = None if is_cut is None else is_last & is_cut[dialogue]
        return TokenEstimates(self.online(hidden), state, v, target_q, tokens, rewards[:, 1:][acts], is_last, is_cut)

    @torch.no_grad()
    def update_target(self, rate: float) -> None:
        """Polyak averaging: target = (1 - rate) target + rate online; does nothing without a target."""
        if self.target is not None:
            for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
                slow.lerp_(fast, rate)

    def save(self, folder: Path) -> None:
        """Write all values, the target included."""
        save_file({name: value.contiguous().cpu() for name, value in self.state_dict().items()}, folder / VALUES)

    def restore(self, folder: Path) -> None:
        """Load the file of `save`."""
        self.load_state_dict(load_file(folder / VALUES))

    def gradient_checkpointing_enable(self, **how: Any) -> None:
        """Recompute activations of the trained body in the backward pass; called by transformers' `Trainer`, with arguments of its version."""
        self.online.body.gradient_checkpointing_enable(**how)


def _head(width: int, outputs: int) -> nn.Sequential:
    last = nn.Linear(width, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), last)
